import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { decodeBlock } from '../../../shared/storage/block.js';
import { HotStoreDamaged } from './durable.js';
import { streamsWithGaps } from './gap-walk.js';
import { entriesOf as rowsIn, failure, HotBed, TestStream } from './hot-bed.contract.js';
import { journalRow, streamRow, dataRow, type JournalEntry } from './keys/index.js';
import { openRocksStore } from './rocks-store.js';
import type { HotOp } from './store.js';

let bed: HotBed;
let incarnation = 2 ** 52;

beforeEach(async () => {
  bed = await HotBed.make();
});
afterEach(() => bed.remove());

const stream = (name: string): TestStream => new TestStream(name as StreamKey, incarnation++ as Incarnation);

/** What a journal row says of an append at `start`. */
function entry(of: TestStream, start: number, text: string): JournalEntry {
  return { rowKey: streamRow.key(of.slot, of.key), incarnation: of.incarnation, state: null, producers: [], start: start as Offset, appends: [{ payload: Buffer.from(text), atMs: 5 }] };
}

const row = (batch: number, ...entries: JournalEntry[]): HotOp => ({ type: 'put', key: journalRow.key(batch), value: journalRow.encode(entries) });

describe('the replay of the journal', () => {
  it('makes rows of what lies behind a stream\'s tail, and leaves out what is there and lives that are over', async () => {
    const [a, b, over] = [stream('demo/a'), stream('demo/b'), stream('demo/b')];
    const store = await bed.open();
    await store.commit([...a.append(Buffer.from('0123')), ...b.append(Buffer.from('b'))]);
    await store.commit([row(2, entry(a, 2, '23'), entry(over, 0, 'gone'))]);
    await store.commit([row(3, entry(a, 4, '45'), entry(b, 1, 'c'))]);
    await store.commit([row(4, entry(a, 6, '6'))]);
    await store.close();
    const again = await bed.open();
    expect(await rowsIn(again, journalRow.range())).toEqual([]);
    const tailOf = async (of: TestStream): Promise<[number, number]> => {
      const record = streamRow.decode((await again.get(streamRow.key(of.slot, of.key)))!);
      return [record.tail, record.change];
    };
    expect(await tailOf(a)).toEqual([7, 4]);
    expect(await tailOf(b)).toEqual([2, 3]);
    expect(decodeBlock((await again.get(dataRow.key(a.slot, a.incarnation, 7 as Offset)))!).payload.toString()).toBe('456');
    expect(await rowsIn(again, dataRow.range(over.slot, over.incarnation))).toEqual([]);
    expect(bed.events('info')).toContain('hot-journal-replayed');
    await again.close();
  });

  it('joins what fits into one value, and no more', async () => {
    const a = stream('demo/a');
    const store = await bed.open();
    await store.commit([...a.append(Buffer.from('s'))]);
    let at = a.tail;
    for (let batch = 2; batch < 402; batch++) {
      await store.commit([row(batch, entry(a, at, 'x'.repeat(1_000)))]);
      at = advance(at, 1_000);
    }
    await store.close();
    const again = await bed.open();
    const blocks = (await rowsIn(again, dataRow.range(a.slot, a.incarnation))).map(({ value }) => decodeBlock(value));
    expect(blocks.map(({ start, end }) => [start, end])).toEqual([[0, 1], [1, 262_001], [262_001, 400_001]]);
    expect(blocks.flatMap(({ entries }) => entries)).toHaveLength(401);
    await again.close();
  });

  it('I9 refuses appends that do not touch, and names the stream', async () => {
    const [a, b] = [stream('demo/a'), stream('demo/b')];
    const store = await bed.open();
    await store.commit([...a.append(Buffer.from('0')), ...b.append(Buffer.from('0'))]);
    await store.commit([row(2, entry(a, 1, '1'), entry(b, 1, '1'))]);
    await store.commit([row(3, entry(a, 4, '4'))]);
    await store.close();
    expect(await failure(bed.open())).toMatchObject({ name: 'HotStoreDamaged', streamsWithGaps: ['demo/a'], message: expect.stringContaining('from 2 to 4') });
    const raw = await openRocksStore(bed.dir);
    expect(await streamsWithGaps(raw)).toEqual([{ key: 'demo/a', detail: 'no bytes from 2 to 4' }]);
    await raw.close();
  });

  it('R007 R123 leaves what it holds of a stream whose own row is damaged, and serves the others', async () => {
    const [a, b] = [stream('demo/a'), stream('demo/b')];
    const store = await bed.open();
    await store.commit([...a.append(Buffer.from('0')), ...b.append(Buffer.from('0'))]);
    await store.commit([row(2, entry(a, 1, '1'), entry(b, 1, '1'))]);
    await store.commit([row(3, entry(b, 2, '2'))]);
    await store.close();
    const raw = await openRocksStore(bed.dir);
    const key = streamRow.key(a.slot, a.key);
    const sound = (await raw.get(key))!;
    const hurt = Buffer.from(sound);
    hurt[3]! ^= 1;
    await raw.batch([{ type: 'put', key, value: hurt }], true);
    await raw.close();

    const served = await bed.open();
    expect(bed.lines.filter(({ event }) => event === 'damage').map(({ fields }) => fields)).toMatchObject([{ stream: 'demo/a' }]);
    expect(streamRow.decode((await served.get(streamRow.key(b.slot, b.key)))!).tail).toBe(3);
    expect((await rowsIn(served, journalRow.range())).map((entry) => journalRow.decodeKey(entry.key).batch)).toEqual([2]);
    await served.close();

    // The row comes back: so does what the journal kept.
    const again = await openRocksStore(bed.dir);
    await again.batch([{ type: 'put', key, value: sound }], true);
    await again.close();
    const healed = await bed.open();
    expect(streamRow.decode((await healed.get(key))!).tail).toBe(2);
    expect(streamRow.decode((await healed.get(streamRow.key(b.slot, b.key)))!).tail).toBe(3);
    expect(await rowsIn(healed, journalRow.range())).toEqual([]);
    await healed.close();
  });

  it('I9 refuses a damaged journal row', async () => {
    const a = stream('demo/a');
    const store = await bed.open();
    await store.commit([...a.append(Buffer.from('0'))]);
    const op = row(2, entry(a, ZERO + 1, '1'));
    if (op.type === 'put') op.value[op.value.length >> 1]! ^= 1;
    await store.commit([op]);
    await store.close();
    expect(await failure(bed.open())).toBeInstanceOf(HotStoreDamaged);
  });
});
