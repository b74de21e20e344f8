/**
 * Journal rows become rows of their streams when a directory is opened (architecture section 5).
 *
 * Owns: that step. Promises: afterwards there is no journal row, and every stream's row, its producers and its values say what its appends said; a crash amidst it loses nothing, since what was
 * done already is recognised by the tail; appends that do not touch are damage and not data (I1, I9);
 * a stream whose own row is damaged costs the others nothing.
 */
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { packAppends } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { HotStoreDamaged } from './durable.js';
import { HotStoreCorrupt } from './errors.js';
import { dataRow, journalRow, producerRow, streamRow, type JournalEntry } from './keys/index.js';
import type { HotOp, HotStore } from './store.js';

/** Bytes of appends gathered before they are written, and bytes of one batch. */
const GATHERED_BYTES_MAX = 8_388_608;
const BATCH_BYTES_MAX = 4_194_304;
/** What an append takes in memory besides its bytes, about. */
const ENTRY_OVERHEAD_BYTES = 256;
/** Rows deleted in one batch. */
const DELETES_MAX = 8_192;

export interface ReplayStore extends Pick<HotStore, 'get' | 'scan'> {
  commit(ops: readonly HotOp[]): Promise<void>;
}

interface Step extends JournalEntry {
  readonly batch: number;
  readonly end: Offset;
}

export interface Replay {
  /** Journal rows that there were. */
  readonly rows: number;
  /** Streams whose own row is damaged: what the journal holds of them stays in it. */
  readonly damaged: readonly StreamKey[];
}

/** Throws `HotStoreDamaged`. */
export async function replayJournal(store: ReplayStore): Promise<Replay> {
  const rows = new Map<number, Buffer>();
  const damaged = new Set<StreamKey>();
  let steps = new Map<Incarnation, Step[]>();
  let bytes = 0;
  const writeSteps = async (): Promise<void> => {
    for (const { key, batches } of await write(store, steps)) {
      damaged.add(key);
      for (const batch of batches) rows.delete(batch);
    }
    steps = new Map();
    bytes = 0;
  };
  let count = 0;
  for await (const page of store.scan(journalRow.range())) {
    for (const { key, value } of page) {
      count++;
      for (const entry of entriesOf(key, value)) {
        rows.set(entry.batch, key);
        addTo(steps, entry.incarnation, entry);
        bytes += entry.end - entry.start + ENTRY_OVERHEAD_BYTES * entry.appends.length + (entry.state?.length ?? 0);
      }
      if (bytes >= GATHERED_BYTES_MAX) await writeSteps();
    }
  }
  await writeSteps();
  const done = [...rows.values()];
  for (let at = 0; at < done.length; at += DELETES_MAX) await store.commit(done.slice(at, at + DELETES_MAX).map((key) => ({ type: 'del', key }) as const));
  return { rows: count, damaged: [...damaged] };
}

/** What one journal row says, with the end of its appends. Throws `HotStoreDamaged`. */
export function entriesOf(key: Buffer, value: Buffer): Step[] {
  try {
    const { batch } = journalRow.decodeKey(key);
    return journalRow.decode(value).map((entry) => ({ ...entry, batch, end: advance(entry.start, entry.appends.reduce((bytes, { payload }) => bytes + payload.length, 0)) }));
  } catch (error) {
    if (!(error instanceof BadBytes)) throw error;
    throw new HotStoreDamaged([], [], `a journal row of the hot store is damaged: ${error.message}`, { cause: error });
  }
}

/** Puts a value behind those of its group. */
export function addTo<K, V>(groups: Map<K, V[]>, key: K, value: V): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [value]);
  else group.push(value);
}

interface Left {
  readonly key: StreamKey;
  readonly batches: readonly number[];
}

/** Returns what cannot be written, as the stream's own row is damaged: that stream is refused, the others are served (R123). */
async function write(store: ReplayStore, steps: ReadonlyMap<Incarnation, readonly Step[]>): Promise<Left[]> {
  const left: Left[] = [];
  let ops: HotOp[] = [];
  let bytes = 0;
  for (const all of steps.values()) {
    try {
      for (const op of await rowsOf(store, all)) {
        ops.push(op);
        bytes += op.key.length + (op.type === 'put' ? op.value.length : 0);
      }
    } catch (error) {
      if (!(error instanceof HotStoreCorrupt || error instanceof BadBytes)) throw error;
      left.push({ key: streamRow.decodeKey(all[0]!.rowKey).key, batches: all.map(({ batch }) => batch) });
    }
    if (bytes < BATCH_BYTES_MAX) continue;
    await store.commit(ops);
    ops = [];
    bytes = 0;
  }
  if (ops.length > 0) await store.commit(ops);
  return left;
}

/** Rows of one life of one stream; none when that life is over. */
async function rowsOf(store: ReplayStore, all: readonly Step[]): Promise<HotOp[]> {
  const { rowKey, incarnation } = all[0]!;
  const value = await store.get(rowKey);
  const before = value === undefined ? null : streamRow.decode(value);
  if (before === null || before.incarnation !== incarnation) return [];
  const { slot, key } = streamRow.decodeKey(rowKey);
  const steps = all.filter(({ end }) => end > before.tail);
  let at = before.tail;
  let state = before;
  const producers = new Map<string, Buffer>();
  for (const step of steps) {
    if (step.start !== at) throw new HotStoreDamaged([], [key], `the hot store lost data: the bytes of ${key} from ${at} to ${step.start} are missing`);
    at = step.end;
    state = { ...(step.state === null ? state : streamRow.decode(step.state)), tail: at, change: step.batch };
    for (const { id, value: record } of step.producers) producers.set(id, record);
  }
  if (steps.length === 0) return [];
  const ops: HotOp[] = [{ type: 'put', key: rowKey, value: streamRow.encode(state) }];
  for (const [id, record] of producers) ops.push({ type: 'put', key: producerRow.key(slot, incarnation, id), value: record });
  for (const block of packAppends(before.tail, steps.flatMap(({ appends }) => appends))) ops.push({ type: 'put', key: dataRow.key(slot, incarnation, block.end), value: block.value });
  return ops;
}
