/** Meta rows of a running node: read from the store, written through the log's queue. */
import { metaRow } from '../hot/keys/index.js';
import type { LogCore } from '../log/core.js';
import type { MetaRows } from './directory.js';

export function rowsOfCore(core: LogCore): MetaRows {
  return { get: (name) => core.store.get(metaRow.key(name)), write: (ops) => core.stageOps(ops) };
}
