import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import pino from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../shared/observability/index.js';
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { BatchFault } from '../hot/batch-fault.contract.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import { createHotReader } from '../hot/hot-reader.js';
import { dataRow, journalRow, KIND, producerRow, streamRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { JOURNAL_AGE_MS, JOURNAL_APPENDS_BYTES_MAX, JOURNAL_BYTES_MAX, JOURNAL_STREAMS_MIN, JOURNAL_TAIL_APPENDS_MAX } from './limits.js';
import { Core } from './log-core.js';
import { JournalTail, Slot } from './slot.js';

const logger = pino({ level: 'silent' });
const KEYS = Array.from({ length: 2 * JOURNAL_STREAMS_MIN }, (_, index) => `demo/s${index}` as StreamKey);
let incarnations = 2 ** 52;

function fresh(): StreamRecord {
  return {
    incarnation: incarnations++ as Incarnation, contentType: 'text/plain', createdAtMs: 1, tail: ZERO, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
  };
}

/** A core over a directory of its own, with the batches that it wrote. */
class Bed {
  /** The wall clock, which may step back, and the one that never does. */
  nowMs = 1_000;
  clockMs = 0;
  readonly fault = new BatchFault();
  readonly batches = this.fault.batches;
  core!: Core;
  #store!: DurableStore;

  private constructor(readonly dir: string) {}

  static async open(dir?: string): Promise<Bed> {
    const bed = new Bed(dir ?? (await mkdtemp(join(tmpdir(), 'firn-journal-'))));
    bed.#store = await openDurableStore({ dir: join(bed.dir, 'hot'), ackedFile: join(bed.dir, 'acked'), logger, openStore: bed.fault.open });
    bed.core = new Core({ store: bed.#store, partitions: 1, logged: true, logger, metrics: createMetrics(), now: () => bed.nowMs, monotonic: () => bed.clockMs });
    await bed.core.start();
    bed.batches.length = 0;
    beds.push(bed);
    return bed;
  }

  /** Another core on what a crash right now would leave. */
  async crashed(): Promise<Bed> {
    const dir = await mkdtemp(join(tmpdir(), 'firn-journal-'));
    await cp(this.dir, dir, { recursive: true });
    return Bed.open(dir);
  }

  /** One change of one stream: what is left out stays as it is. */
  change(key: StreamKey, text: string, over: Partial<StreamRecord> = {}, producer: { id: string; seq: number } | null = null): Promise<void> {
    const payload = Buffer.from(text);
    return this.core.using(key, (slot) => {
      const before = slot.pending ?? fresh();
      const tail = advance(before.tail, payload.length);
      const record = { epoch: 0, lastSeq: producer?.seq ?? 0, firstDigest: null, lastDigest: null, lastStart: before.tail, lastEnd: tail, lastClosed: false, closedEpoch: -1, closedSeq: -1, lastAtMs: this.nowMs, change: 0 };
      return this.core.stage({
        slot, next: { ...before, ...over, tail }, ...(payload.length > 0 ? { append: { payload, atMs: this.nowMs } } : {}), ...(producer === null ? {} : { producer: { id: producer.id, record } }),
      });
    });
  }

  all(text: string, keys = KEYS): Promise<unknown> {
    return Promise.all(keys.map((key) => this.change(key, text)));
  }

  /** Bytes, as the journal counts them, that memory holds of these streams. */
  async held(keys: readonly StreamKey[]): Promise<number> {
    let bytes = 0;
    for (const key of keys) bytes += await this.core.using(key, (slot) => (slot as Slot).tail?.bytes ?? 0);
    return bytes;
  }

  /** Bytes of a stream from its rows alone, and its row. */
  async rows(key: StreamKey, through = this.core.store): Promise<{ record: StreamRecord; bytes: string } | null> {
    const slot = slotOf(key);
    const value = await through.get(streamRow.key(slot, key));
    if (value === undefined) return null;
    const record = streamRow.decode(value);
    const pieces: Buffer[] = [];
    for await (const piece of createHotReader(through).bytes(slot, record.incarnation, ZERO, record.tail)) pieces.push(piece);
    let end = ZERO;
    for await (const page of through.scan(dataRow.range(slot, record.incarnation))) for (const row of page) end = dataRow.decodeKey(row.key).end;
    expect(end, 'a stream\'s row and its values agree').toBe(record.tail);
    return { record, bytes: Buffer.concat(pieces).toString() };
  }

  async journalRows(): Promise<number> {
    let count = 0;
    for await (const page of this.core.store.scan(journalRow.range())) count += page.length;
    return count;
  }

  async close(): Promise<void> {
    await this.core.close();
    await this.#store.close();
    await rm(this.dir, { recursive: true, force: true });
  }
}

const beds: Bed[] = [];
const kinds = (ops: readonly HotOp[]): number[] => [...new Set(ops.map((op) => op.key[0]!))].sort((a, b) => a - b);

beforeEach(() => {
  beds.length = 0;
});
afterEach(async () => {
  for (const bed of beds) await bed.close();
});

describe('the journal', () => {
  it('takes the short appends of a batch as one row, and its streams have rows of their own a little later', async () => {
    const bed = await Bed.open();
    await bed.all('first.');
    bed.batches.length = 0;
    await bed.all('second.');
    expect(bed.batches).toHaveLength(1);
    expect(kinds(bed.batches[0]!)).toEqual([KIND.marker, KIND.journal]);
    expect(bed.batches[0]).toHaveLength(2);
    bed.nowMs -= 3_600_000;
    bed.clockMs += JOURNAL_AGE_MS;
    await expect.poll(async () => bed.journalRows(), { timeout: 3_000 }).toBe(0);
    expect(bed.batches.flat().filter((op) => op.type === 'put' && op.key[0] === KIND.data)).toHaveLength(KEYS.length);
    for (const key of KEYS) expect((await bed.rows(key))?.bytes).toBe('first.second.');
  });

  it('is not used for few streams, for long appends, or for what has rows of its own', async () => {
    const bed = await Bed.open();
    await bed.all('a');
    const written = async (work: () => Promise<unknown>): Promise<number[]> => {
      bed.batches.length = 0;
      await work();
      return bed.batches.flatMap((ops) => ops.map((op) => op.key[0]!)).filter((kind) => kind === KIND.journal);
    };
    expect(await written(() => Promise.all(KEYS.slice(1, JOURNAL_STREAMS_MIN).map((key) => bed.change(key, 'b'))))).toEqual([]);
    expect(await written(() => bed.all('c'.repeat(JOURNAL_APPENDS_BYTES_MAX + 1)))).toEqual([]);
    expect(await written(() => bed.all('d'))).toEqual([KIND.journal]);
  });

  it('I1 hides from no reader of rows: they wait until the rows say all that is durable', async () => {
    const bed = await Bed.open();
    await bed.all('a');
    await bed.all('b');
    expect((await bed.rows(KEYS[0]!))?.bytes).toBe('ab');
    await bed.all('c');
    const of = await bed.core.using(KEYS[1]!, (slot) => slot.durable!);
    let ends: number[] = [];
    for await (const page of bed.core.store.scan(dataRow.range(slotOf(KEYS[1]!), of.incarnation))) ends = ends.concat(page.map((row) => dataRow.decodeKey(row.key).end));
    expect(ends.at(-1)).toBe(3);
    await bed.all('d');
    const records = await bed.core.store.getMany(KEYS.map((key) => streamRow.key(slotOf(key), key)));
    expect(records.map((value) => streamRow.decode(value!).tail)).toEqual(KEYS.map(() => 4));
    await bed.all('e');
    let tails: number[] = [];
    for await (const page of bed.core.store.scan(streamRow.range())) tails = tails.concat(page.map((row) => streamRow.decode(row.value).tail));
    expect(tails).toEqual(KEYS.map(() => 5));
  });

  it('PROD-16 I2 keeps producers, sequences and closures over a crash', async () => {
    const bed = await Bed.open();
    await bed.all('a');
    await Promise.all(KEYS.map((key, index) => bed.change(key, 'b', { lastSeq: `s${index}`, closed: index % 2 === 0, producers: 1 }, { id: 'p', seq: index })));
    expect(kinds(bed.batches.at(-1)!)).toEqual([KIND.marker, KIND.journal]);
    expect((await bed.core.using(KEYS[3]!, (slot) => bed.core.producer(slot, slot.durable!.incarnation, 'p')))?.lastSeq).toBe(3);
    const after = await bed.crashed();
    expect(await after.journalRows()).toBe(0);
    for (const [index, key] of KEYS.entries()) {
      const { record, bytes } = (await after.rows(key))!;
      expect(bytes).toBe('ab');
      expect(record).toMatchObject({ lastSeq: `s${index}`, closed: index % 2 === 0, producers: 1 });
      expect(record).toEqual(await bed.core.using(key, (slot) => slot.durable));
      expect(producerRow.decode((await after.core.store.get(producerRow.key(slotOf(key), record.incarnation, 'p')))!)).toMatchObject({ lastSeq: index, change: record.change });
    }
  });

  it('I11 holds a bounded number of bytes, and of appends of one stream', async () => {
    const bed = await Bed.open();
    await bed.all('a');
    const text = 'x'.repeat(JOURNAL_APPENDS_BYTES_MAX);
    for (let round = 0; round < 1.5 * JOURNAL_BYTES_MAX / text.length / KEYS.length; round++) await bed.all(text);
    const held = await bed.core.using(KEYS[0]!, (slot) => (slot as Slot).tail?.bytes ?? 0);
    expect(held * KEYS.length).toBeLessThan(JOURNAL_BYTES_MAX);
    for (let round = 0; round < 2 * JOURNAL_TAIL_APPENDS_MAX; round++) {
      await bed.all('y');
      expect(await bed.core.using(KEYS[0]!, (slot) => (slot as Slot).tail?.appends.length ?? 0)).toBeLessThanOrEqual(JOURNAL_TAIL_APPENDS_MAX);
    }
  });

  it('I11 holds no more of many streams together, and writes them bit by bit', async () => {
    const bed = await Bed.open();
    const many = Array.from({ length: 300 }, (_, index) => `demo/many${index}` as StreamKey);
    await bed.all('a', many);
    const text = 'x'.repeat(JOURNAL_APPENDS_BYTES_MAX);
    bed.batches.length = 0;
    for (let round = 0; round < 12; round++) {
      await bed.all(text, many);
      expect(await bed.held(many)).toBeLessThan(JOURNAL_BYTES_MAX + many.length * 2 * JOURNAL_APPENDS_BYTES_MAX);
    }
    for (const ops of bed.batches) expect(ops.reduce((bytes, op) => bytes + (op.type === 'put' ? op.value.length : 0), 0)).toBeLessThan(2 * JOURNAL_BYTES_MAX);
    for (const key of many) expect((await bed.rows(key))?.bytes.length).toBe(1 + 12 * text.length);
  });

  it('I11 is empty soon after the last append, however many streams it held', async () => {
    const bed = await Bed.open();
    const many = Array.from({ length: 1_500 }, (_, index) => `demo/many${index}` as StreamKey);
    await bed.all('a', many);
    await bed.all('b', many);
    bed.clockMs += JOURNAL_AGE_MS;
    await expect.poll(async () => bed.held(many), { timeout: 3_000 }).toBe(0);
  });

  it.each(['before', 'after'] as const)('R001 a journaled batch that failed %s it was applied is read anew', async (when) => {
    const bed = await Bed.open();
    await bed.all('a');
    await bed.all('b');
    bed.fault.next = when;
    await Promise.all(KEYS.map((key) => expect(bed.change(key, 'c')).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })));
    await expect.poll(() => bed.core.healing).toBe(false);
    const bytes = when === 'after' ? 'abc' : 'ab';
    for (const key of KEYS) expect((await bed.rows(key))?.bytes).toBe(bytes);
    await bed.all('d');
    for (const key of KEYS) expect((await bed.rows(key))?.bytes).toBe(`${bytes}d`);
  });

  it('is empty after a close', async () => {
    const bed = await Bed.open();
    await bed.all('a');
    await bed.all('b');
    await bed.core.close();
    const raw = await bed.crashed();
    expect(raw.batches.length).toBe(0);
    for (const key of KEYS) expect((await raw.rows(key))?.bytes).toBe('ab');
  });

  it('I1 I2 I7 agrees with a model over appends, closures, deletions, recreations, reads and crashes', async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant('append' as const), of: fc.array(fc.nat(KEYS.length - 1), { minLength: 1, maxLength: 12 }), bytes: fc.integer({ min: 1, max: 3_000 }), producer: fc.boolean() }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), of: fc.nat(KEYS.length - 1) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('state' as const), of: fc.nat(KEYS.length - 1) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('rows' as const), of: fc.nat(KEYS.length - 1) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('age' as const) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const) }) },
    );
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      let bed = await Bed.open();
      const model = new Map<StreamKey, { bytes: string; seq: number }>();
      let letter = 0;
      const compare = async (key: StreamKey): Promise<void> => {
        const found = await bed.rows(key);
        const expected = model.get(key);
        expect(found?.bytes).toBe(expected?.bytes);
        if (expected === undefined || found === null || expected.seq < 0) return;
        const producer = await bed.core.store.get(producerRow.key(slotOf(key), found.record.incarnation, 'p'));
        expect(producerRow.decode(producer!).lastSeq).toBe(expected.seq);
      };
      for (const each of steps) {
        if (each.kind === 'append') {
          await Promise.all(each.of.map((of) => {
            const key = KEYS[of]!;
            const known = model.get(key) ?? { bytes: '', seq: -1 };
            model.set(key, known);
            const text = String.fromCharCode(97 + (letter++ % 26)).repeat(each.bytes);
            known.bytes += text;
            return each.producer ? bed.change(key, text, { producers: 1 }, { id: 'p', seq: ++known.seq }) : bed.change(key, text);
          }));
        } else if (each.kind === 'delete') {
          model.delete(KEYS[each.of]!);
          await bed.core.using(KEYS[each.of]!, (slot) => bed.core.stage({ slot, next: null }));
        } else if (each.kind === 'state') {
          if (model.has(KEYS[each.of]!)) await bed.change(KEYS[each.of]!, '', { lastSeq: String(letter) });
        } else if (each.kind === 'rows') {
          await compare(KEYS[each.of]!);
        } else if (each.kind === 'age') {
          bed.clockMs += JOURNAL_AGE_MS;
        } else {
          bed = await bed.crashed();
        }
      }
      for (const key of KEYS) await compare(key);
      bed = await bed.crashed();
      for (const key of KEYS) await compare(key);
      for (const old of beds.splice(0)) await old.close();
    }), { numRuns: 25 });
  }, 60_000);
});

describe('the end of a stream in the journal', () => {
  it('I1 gives any range of its bytes', () => {
    fc.assert(fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 20 }), fc.nat(1_000), fc.nat(), fc.nat(), (payloads, from, a, b) => {
      const tail = new JournalTail(new Slot(KEYS[0]!, 0, 0), (2 ** 52) as Incarnation, from as Offset, 1, 0);
      for (const payload of payloads) tail.appends.push({ payload: Buffer.from(payload), atMs: 0 });
      const whole = Buffer.concat(payloads);
      const [start, end] = [a % (whole.length + 1), b % (whole.length + 1)].sort((x, y) => x - y) as [number, number];
      expect(Buffer.concat([...tail.read((from + start) as Offset, (from + end) as Offset)])).toEqual(whole.subarray(start, end));
    }));
  });
});
