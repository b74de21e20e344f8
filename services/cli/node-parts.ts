/**
 * The parts of the node that commands start in their own process, loaded when a command needs them: a client command starts without RocksDB.
 *
 * Owns: what the command line expects of them.
 */
import type { Config } from '../../shared/config/index.js';
import type { Logger } from '../../shared/observability/index.js';
import type { Node } from '../api/node.js';
import type { OfflineOptions, RestoreReport, VerifyReport } from '../api/offline.js';

export type { Node, NodeAddress } from '../api/node.js';

export async function startNode(config: Config, logger: Logger): Promise<Node> {
  return (await import('../api/node.js')).startNode(config, { logger });
}

export async function restoreDirectory(config: Config, options: OfflineOptions & { readonly newIncarnations: boolean }): Promise<RestoreReport> {
  return (await import('../api/offline.js')).restoreDirectory(config, options);
}

export async function verifyDirectory(config: Config, options: OfflineOptions & { readonly deep: boolean }): Promise<VerifyReport> {
  return (await import('../api/offline.js')).verifyDirectory(config, options);
}
