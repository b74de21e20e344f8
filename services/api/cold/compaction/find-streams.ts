/**
 * Looks through all references of a partition for streams that compaction is to work on.
 *
 * Owns: the walk. Promises: reads only, in the order of the rows, which is that of slots; memory is that of one slot's streams and of what is found (I11); others get their turn.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import type { ColdRef } from '../../../../shared/storage/records/types.js';
import { refRow, streamRow } from '../../hot/keys/index.js';
import type { HotEntry, HotReads, ScanRange } from '../../hot/store.js';
import { isHotDamage } from '../damage.js';
import { RangeChooser, type ChooseOptions } from './choose-ranges.js';

/** Rows between two turns of others. */
const TURN_ROWS = 256;

export interface FoundStream {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
}

export interface Found {
  readonly streams: readonly FoundStream[];
  /** Slot at which to go on; null: everything was looked at. */
  readonly next: number | null;
}

export interface FindRequest {
  readonly slots: { readonly from: number; readonly to: number };
  readonly choose: ChooseOptions;
  /** Some objects are to be written anew: snapshots in them too. */
  readonly snapshots: boolean;
  /** Stop behind the slot in which so many were found. */
  readonly foundMax: number;
  readonly signal: AbortSignal;
}

export async function findStreams(store: HotReads, request: FindRequest): Promise<Found> {
  const { slots, choose, signal } = request;
  const refs = new RowCursor(store, refRow.slots(slots.from, slots.to), signal);
  const streams = new RowCursor(store, streamRow.range(slots.from, slots.to), signal);
  const found: FoundStream[] = [];
  try {
    for (let slot = await nextSlot(refs, request.snapshots ? streams : null); slot !== null; slot = await nextSlot(refs, request.snapshots ? streams : null)) {
      if (found.length >= request.foundMax) return { streams: found, next: slot };
      const lives = await livesToWorkOn(refs, slot, choose);
      await streams.skipBelow(slot);
      if (lives.size === 0 && !request.snapshots) continue;
      for (let row = await streams.peek(); row !== null && slotOfRow(row) === slot; row = await streams.peek()) {
        streams.skip();
        const stream = readStream(row, choose, lives);
        if (stream !== null) found.push(stream);
      }
    }
    return { streams: found, next: null };
  } finally {
    await Promise.all([refs.close(), streams.close()]);
  }
}

/** Lives of a slot of whose references some are to be put together. */
async function livesToWorkOn(refs: RowCursor, slot: number, choose: ChooseOptions): Promise<Set<Incarnation>> {
  const lives = new Set<Incarnation>();
  let life: Incarnation | null = null;
  let chooser = new RangeChooser(choose);
  const settle = (): void => {
    chooser.end();
    if (life !== null && chooser.chosen.length > 0) lives.add(life);
  };
  for (let row = await refs.peek(); row !== null && slotOfRow(row) === slot; row = await refs.peek()) {
    refs.skip();
    const { incarnation } = refRow.decodeKey(row.key);
    if (incarnation !== life) {
      settle();
      life = incarnation;
      chooser = new RangeChooser(choose);
    }
    // One is enough to know.
    if (chooser.chosen.length > 0) continue;
    const ref = decodeRef(row.value);
    if (ref !== null) chooser.add(ref);
  }
  settle();
  return lives;
}

/** A damaged row is told by whoever reads or verifies it; nothing here rests on it. */
function decodeRef(value: Buffer): ColdRef | null {
  return whole(() => refRow.decode(value));
}

function readStream(row: HotEntry, choose: ChooseOptions, lives: ReadonlySet<Incarnation>): FoundStream | null {
  const record = whole(() => streamRow.decode(row.value));
  if (record === null) return null;
  const cold = record.snapshot?.cold;
  if (!lives.has(record.incarnation) && !(cold?.at === 'block' && choose.rewrites(cold.ref.object))) return null;
  return { key: streamRow.decodeKey(row.key).key, incarnation: record.incarnation };
}

function whole<T>(decode: () => T): T | null {
  try {
    return decode();
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    return null;
  }
}

async function nextSlot(refs: RowCursor, streams: RowCursor | null): Promise<number | null> {
  const rows = [await refs.peek(), streams === null ? null : await streams.peek()].filter((row) => row !== null);
  return rows.length === 0 ? null : Math.min(...rows.map(slotOfRow));
}

/** Keys of both kinds of rows begin with kind and slot. */
function slotOfRow(row: HotEntry): number {
  return row.key.readUInt16BE(1);
}

/** Rows one by one. */
class RowCursor {
  readonly #pages: AsyncIterator<readonly HotEntry[]>;
  readonly #signal: AbortSignal;
  #page: readonly HotEntry[] = [];
  #at = 0;
  #ended = false;
  #toTurn = TURN_ROWS;

  constructor(store: HotReads, range: ScanRange, signal: AbortSignal) {
    this.#pages = store.scan(range)[Symbol.asyncIterator]();
    this.#signal = signal;
  }

  async peek(): Promise<HotEntry | null> {
    while (this.#at >= this.#page.length) {
      if (this.#ended) return null;
      const { done, value } = await this.#pages.next();
      if (done === true) this.#ended = true;
      this.#page = done === true ? [] : value;
      this.#at = 0;
    }
    if (--this.#toTurn <= 0) {
      this.#toTurn = TURN_ROWS;
      await turn();
      this.#signal.throwIfAborted();
    }
    return this.#page[this.#at] as HotEntry;
  }

  skip(): void {
    this.#at++;
  }

  async skipBelow(slot: number): Promise<void> {
    for (let row = await this.peek(); row !== null && slotOfRow(row) < slot; row = await this.peek()) this.skip();
  }

  async close(): Promise<void> {
    await this.#pages.return?.();
  }
}
