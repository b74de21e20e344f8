import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { compareCheckpointKeys, entriesOfItems, itemsOfEntry, type CheckpointEntry, type CheckpointItem } from '../checkpoint.js';
import { sampleColdRef, sampleProducer, sampleStreamRecord } from '../records/arbitrary.contract.js';
import { refsSum } from '../records/cold-ref.js';
import type { ColdRef, LogDelta, LogRecord, NamedProducer, SnapshotRecord, StreamRecord } from '../records/types.js';
import { LogOverlay } from './log-overlay.js';
import { mergeItems } from './merge-items.js';

const KEYS = ['demo/a', 'demo/b', 'x/c'] as StreamKey[];

/** A tiny node: it has streams and writes the log records that a node would. */
class Model {
  readonly streams = new Map<StreamKey, CheckpointEntry & { snapshotSeq: number }>();
  readonly records: LogRecord[] = [];
  #incarnation = 2 ** 52;
  #seq = 0;

  log(deltas: readonly LogDelta[]): void {
    this.records.push({ kind: 'record', partition: 0, session: 1, seq: ++this.#seq, plan: null, writtenAtMs: this.#seq, objects: [], deltas });
  }

  create(key: StreamKey): void {
    if (this.streams.has(key)) return;
    const state = this.#state({ incarnation: ++this.#incarnation as Incarnation, tail: 0 as Offset, retained: 0 as Offset, sealed: 0 as Offset, hotStart: 0 as Offset, producers: 0, snapshot: null });
    this.streams.set(key, { key, state, producers: [], refs: [], snapshotSeq: 0 });
    this.log([{ kind: 'seal', key, state, producers: [], refs: [] }]);
  }

  seal(key: StreamKey, sizes: readonly number[], producer: number): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    let at = stream.state.tail as number;
    const refs = sizes.map((bytes): ColdRef => sampleColdRef({ start: at as Offset, end: (at += bytes) as Offset }));
    const named: NamedProducer = { ...sampleProducer(), id: `p${producer}`, lastAtMs: this.#seq };
    const producers = [...stream.producers.filter(({ id }) => id !== named.id), named];
    const state = this.#state({ ...stream.state, tail: at as Offset, sealed: at as Offset, hotStart: at as Offset, producers: producers.length });
    this.streams.set(key, { ...stream, state, producers, refs: [...stream.refs, ...refs] });
    this.log([{ kind: 'seal', key, state, producers: [named], refs }]);
  }

  offload(key: StreamKey): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    const snapshot: SnapshotRecord = {
      offset: stream.state.tail, contentType: 'text/plain', digest: 'ab'.repeat(32), bytes: 3, crc: 7, publishedAtMs: 1, hot: null,
      cold: { at: 'object', ref: { object: { kind: 'snapshot', partition: 0, session: 1, plan: this.#seq, attempt: 1, part: 0 }, bytes: 3, crc: 7 } },
    };
    const newer = stream.state.snapshot === null || snapshot.offset > stream.state.snapshot.offset ? snapshot : { ...stream.state.snapshot, cold: snapshot.cold };
    this.streams.set(key, { ...stream, state: { ...stream.state, snapshot: newer } });
    this.log([{ kind: 'offload', key, incarnation: stream.state.incarnation, snapshot: { ...snapshot, offset: newer.offset } }]);
  }

  retain(key: StreamKey, share: number): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    const retained = Math.max(stream.state.retained, Math.floor(stream.state.tail * share)) as Offset;
    const state = this.#state({ ...stream.state, retained });
    this.streams.set(key, { ...stream, state, refs: stream.refs.filter((ref) => ref.end > retained) });
    this.log([{ kind: 'seal', key, state, producers: [], refs: [] }]);
  }

  delete(key: StreamKey, recreate: boolean): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    this.streams.delete(key);
    // A node logs the new life and the end of the old one in the order of their tokens, which says nothing about time.
    if (recreate) this.create(key);
    this.log([{ kind: 'delete', key, incarnation: stream.state.incarnation }]);
  }

  compact(key: StreamKey, share: number, count: number): void {
    const stream = this.streams.get(key);
    if (stream === undefined || stream.refs.length === 0) return;
    const at = Math.floor(share * (stream.refs.length - 1));
    const old = stream.refs.slice(at, at + count);
    const [from, to] = [(old[0] as ColdRef).start, (old.at(-1) as ColdRef).end];
    const refs = [sampleColdRef({ start: from, end: to, frameAt: this.#seq })];
    this.streams.set(key, { ...stream, refs: stream.refs.toSpliced(at, old.length, ...refs) });
    this.log([{ kind: 'compact', key, incarnation: stream.state.incarnation, ranges: [{ from, to, was: { refs: old.length, sum: refsSum(old) }, refs }], snapshot: null }]);
  }

  /** A restore: the same stream under a new token, and no end of the one before. */
  renew(key: StreamKey): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    const state = this.#state({ ...stream.state, incarnation: ++this.#incarnation as Incarnation });
    this.streams.set(key, { ...stream, state });
    this.log([{ kind: 'seal', key, state, producers: stream.producers, refs: stream.refs }]);
  }

  #state(changes: Partial<StreamRecord>): StreamRecord {
    return { ...sampleStreamRecord(), closed: false, closedBy: null, ...changes };
  }

  entries(): CheckpointEntry[] {
    return [...this.streams.values()].map(({ key, state, producers, refs }) => ({ key, state, producers: byId(producers), refs })).sort((a, b) => compareCheckpointKeys(a.key, b.key));
  }
}

function byId(producers: readonly NamedProducer[]): NamedProducer[] {
  return [...producers].sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function* itemsOf(entries: readonly CheckpointEntry[]): AsyncGenerator<CheckpointItem> {
  for (const entry of entries) yield* itemsOfEntry(entry);
}

async function merged(base: readonly CheckpointEntry[], records: readonly LogRecord[]): Promise<CheckpointEntry[]> {
  const overlay = new LogOverlay();
  for (const record of records) overlay.add(record);
  const found: CheckpointEntry[] = [];
  for await (const entry of entriesOfItems(mergeItems(itemsOf(base), overlay))) found.push({ ...entry, producers: byId(entry.producers) });
  return found;
}

const anyStep = fc.oneof(
  fc.record({ do: fc.constant('create' as const), key: fc.constantFrom(...KEYS) }),
  fc.record({ do: fc.constant('seal' as const), key: fc.constantFrom(...KEYS), sizes: fc.array(fc.integer({ min: 1, max: 1_000 }), { maxLength: 3 }), producer: fc.nat(3) }),
  fc.record({ do: fc.constant('offload' as const), key: fc.constantFrom(...KEYS) }),
  fc.record({ do: fc.constant('retain' as const), key: fc.constantFrom(...KEYS), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  fc.record({ do: fc.constant('renew' as const), key: fc.constantFrom(...KEYS) }),
  fc.record({ do: fc.constant('compact' as const), key: fc.constantFrom(...KEYS), share: fc.double({ min: 0, max: 1, noNaN: true }), count: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ do: fc.constant('delete' as const), key: fc.constantFrom(...KEYS), recreate: fc.boolean() }),
);

describe('a checkpoint merged with the log behind it', () => {
  it('gives the streams of the node, wherever checkpoints were made', async () => {
    await fc.assert(fc.asyncProperty(fc.array(anyStep, { maxLength: 40 }), fc.array(fc.nat(60), { maxLength: 4 }), async (steps, cuts) => {
      const model = new Model();
      for (const step of steps) {
        if (step.do === 'create') model.create(step.key);
        else if (step.do === 'seal') model.seal(step.key, step.sizes, step.producer);
        else if (step.do === 'offload') model.offload(step.key);
        else if (step.do === 'retain') model.retain(step.key, step.share);
        else if (step.do === 'renew') model.renew(step.key);
        else if (step.do === 'compact') model.compact(step.key, step.share, step.count);
        else model.delete(step.key, step.recreate);
      }
      let base: CheckpointEntry[] = [];
      let at = 0;
      for (const cut of [...cuts].sort((a, b) => a - b)) {
        const to = Math.max(at, Math.min(cut, model.records.length));
        base = await merged(base, model.records.slice(at, to));
        at = to;
      }
      expect(await merged(base, model.records.slice(at))).toEqual(model.entries());
    }), { numRuns: 300 });
  });

  it('keeps a newer snapshot when a plan made before it is logged after it', async () => {
    const model = new Model();
    model.create('demo/a' as StreamKey);
    model.seal('demo/a' as StreamKey, [10], 1);
    const before = model.streams.get('demo/a' as StreamKey) as CheckpointEntry;
    model.offload('demo/a' as StreamKey);
    model.log([{ kind: 'seal', key: before.key, state: before.state, producers: [], refs: [] }]);
    const [entry] = await merged([], model.records);
    expect(entry?.state.snapshot?.offset).toBe(10);
  });

  it('forgets the producers that were idle longest when the state counts fewer', async () => {
    const model = new Model();
    const key = 'demo/a' as StreamKey;
    model.create(key);
    for (let n = 0; n < 4; n++) model.seal(key, [1], n);
    const stream = model.streams.get(key) as CheckpointEntry;
    model.log([{ kind: 'seal', key, state: { ...stream.state, producers: 2 }, producers: [], refs: [] }]);
    const [entry] = await merged([], model.records);
    expect(entry?.producers.map(({ id }) => id)).toEqual(['p2', 'p3']);
  });
});
