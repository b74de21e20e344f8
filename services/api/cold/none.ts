/**
 * The cold tier that is not there: `FIRN_COLD=none` (architecture section 6).
 *
 * Owns: tokens without sessions. Promises: nothing is ever cold, so a cold read is a broken invariant, not an error of the client.
 */
import { randomBytes } from 'node:crypto';
import { FirnError } from '../../../shared/protocol/errors.js';
import { SESSION_LIMIT, TOKEN_KEY_BYTES } from '../../../shared/protocol/incarnation.js';
import type { Incarnation } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { evictRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogCore, StreamSlot } from '../log/core.js';
import type { ColdMetrics } from './cold-metrics.js';
import { SpaceKeeper } from './space-keeper.js';
import { identityRow, readIdentity, readTokenReserve, type Identity, type MetaRows } from './directory.js';
import { rowsOfCore } from './core-rows.js';
import { StartRefused } from './start-refused.js';
import { TokenIssuer } from './tokens.js';
import type { ColdTier } from './types.js';

export interface NoColdOptions {
  readonly core: LogCore;
  /** Partitions of a new directory. */
  readonly partitions: number;
  readonly staging: { remove(file: string): Promise<void> };
  readonly logger: Logger;
  readonly metrics: Pick<ColdMetrics, 'damage'>;
  readonly now: () => number;
}

/** Without sessions the session's bits of a token are the upper part of one long counter. */
class CounterSessions {
  #session: number;

  constructor(session: number) {
    this.#session = session;
  }

  session(): number {
    return this.#session;
  }

  next(): Promise<void> {
    if (this.#session + 1 >= SESSION_LIMIT) return Promise.reject(new Error('all incarnation tokens of this directory are used up'));
    this.#session++;
    return Promise.resolve();
  }
}

/** Reads or makes the identity of a directory without a cold tier. Throws `StartRefused` when the directory was made with one. */
export async function openNoCold(options: NoColdOptions): Promise<ColdTier> {
  const rows = rowsOfCore(options.core);
  const identity = (await readIdentity(rows)) ?? (await create(rows, options.partitions));
  if (identity.cold !== 'none') throw new StartRefused(`the directory was created with FIRN_COLD=${identity.cold}, not none: a store keeps the cold tier that it was created with`);
  const issuers: TokenIssuer[] = [];
  for (let partition = 0; partition < identity.partitions; partition++) {
    const stored = await readTokenReserve(rows, partition);
    issuers.push(new TokenIssuer(partition, identity.tokenKey, rows, new CounterSessions(stored?.session ?? 0)));
  }
  const space = new SpaceKeeper(options, identity.partitions);
  space.start();
  return new NoCold(issuers, space, options.now);
}

async function create(rows: MetaRows, partitions: number): Promise<Identity> {
  const identity: Identity = { cold: 'none', storeId: null, partitions, tokenKey: randomBytes(TOKEN_KEY_BYTES), state: 'ready' };
  await rows.write([identityRow(identity)]);
  return identity;
}

function noColdStore(): FirnError {
  return new FirnError('NO_COLD_STORE');
}

class NoCold implements ColdTier {
  readonly hotBytes = null;
  readonly work = null;

  constructor(private readonly issuers: readonly TokenIssuer[], private readonly space: SpaceKeeper, private readonly now: () => number) {}

  read(): AsyncIterable<Buffer> {
    throw new Error('a read went to a cold tier that is not there');
  }

  entryEnd(): Promise<never> {
    return Promise.reject(new Error('an entry was looked for in a cold tier that is not there'));
  }

  readSnapshot(): AsyncIterable<Buffer> {
    throw new Error('a snapshot was looked for in a cold tier that is not there');
  }

  nextIncarnation(partition: number): Promise<Incarnation> {
    const issuer = this.issuers[partition];
    if (issuer === undefined) throw new Error(`no partition ${partition}`);
    return issuer.issue();
  }

  session(): null {
    return null;
  }

  get runner(): null {
    return null;
  }

  followSubscriptions(): void {
    // Their rows in the hot store are all there is.
  }

  refusal(): null {
    return null;
  }

  noteChange(): void {}

  planEnd(): null {
    return null;
  }

  retainOps(slot: StreamSlot, next: StreamRecord): readonly HotOp[] {
    return [{ type: 'put', key: evictRow.key(slot.partition, this.now(), slot.slot, next.incarnation), value: evictRow.encode({ key: slot.key, upTo: next.retained }) }];
  }

  noteSnapshot(): void {}

  unsealedSinceMs(): null {
    return null;
  }

  logPurge(): Promise<void> {
    return Promise.resolve();
  }

  sealNow(): Promise<never> {
    return Promise.reject(noColdStore());
  }

  compactNow(): Promise<never> {
    return Promise.reject(noColdStore());
  }

  checkpointNow(): Promise<never> {
    return Promise.reject(noColdStore());
  }

  collectNow(): Promise<never> {
    return Promise.reject(noColdStore());
  }

  garbage(): { readonly bytes: number; readonly unknown: number } {
    return { bytes: 0, unknown: 0 };
  }

  reasons(): readonly string[] {
    return [];
  }

  jobs(): Promise<object> {
    return Promise.resolve({ jobs: {}, plans: [], parked: [] });
  }

  stop(): Promise<void> {
    return this.space.stop();
  }
}
