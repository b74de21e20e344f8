/** Meta rows of a running node: read from the store, written through the log's queue. */
import type { LogCore } from '../log/core.js';
import type { MetaRows } from './directory.js';

export function rowsOfCore(core: LogCore): MetaRows {
  return { get: (key) => core.store.get(key), write: (ops) => core.stageOps(ops) };
}
