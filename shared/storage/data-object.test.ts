import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../protocol/types.js';
import { BLOCK_PAYLOAD_MAX, decodeBlock, packAppends } from './block.js';
import { BadBytes } from './codec.js';
import { crc32c } from './crc.js';
import { encodeFooter } from './data-object-footer.js';
import { DATA_OBJECT_RAW_BYTES_MAX, DATA_OBJECT_RANGES_MAX, DataObjectWriter, blockIn, decodeSnapshotBody, parseDataObject, readFrame, type DataObjectItem, type PackedObject } from './data-object.js';
import { expectEveryDamageRefusedLater } from './decoder.contract.js';
import { sampleStreamRecord } from './records/arbitrary.contract.js';
import type { SnapshotRecord } from './records/types.js';

const inc = (index: number): Incarnation => (2 ** 52 + index) as Incarnation;
const key = (index: number): StreamKey => `demo/stream-${index}` as StreamKey;
const at = (position: number): Offset => position as Offset;

function snapshotOf(offset: number, body: Buffer): SnapshotRecord {
  return { ...(sampleStreamRecord().snapshot as SnapshotRecord), offset: at(offset), bytes: body.length, crc: crc32c(body) };
}

async function parsed(object: Buffer): Promise<DataObjectItem[]> {
  const items: DataObjectItem[] = [];
  for await (const item of parseDataObject(object)) items.push(item);
  return items;
}

/** Reads an item as a cold read does: the frame alone, then the block in it. */
async function readAs(object: Buffer, ref: DataObjectItem['ref']): Promise<Buffer> {
  return blockIn(await readFrame(object.subarray(ref.frameAt, ref.frameAt + ref.frameBytes), ref), ref);
}

function small(): DataObjectWriter {
  const writer = new DataObjectWriter();
  for (const { value } of packAppends(at(100), [{ payload: Buffer.from('{"a":1}\n'), atMs: 5 }])) writer.addBlock(key(1), inc(1), value);
  for (const { value } of packAppends(at(0), [{ payload: Buffer.from('hello'), atMs: 6 }])) writer.addBlock(key(2), inc(2), value);
  writer.addSnapshot(key(1), inc(1), snapshotOf(100, Buffer.from('{}')), Buffer.from('{}'));
  return writer;
}

describe('data object', () => {
  it('I4 gives every range back by its reference and by a walk that knows nothing', async () => {
    const anyStream = fc.record({ from: fc.nat(1_000_000), sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 50_000, max: 400_000 })), { minLength: 1, maxLength: 5 }), snapshot: fc.option(fc.integer({ min: 0, max: 300_000 })), random: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(anyStream, { minLength: 1, maxLength: 8 }), fc.integer({ min: 65_536, max: 262_144 }), async (streams, frameBytes) => {
        const writer = new DataObjectWriter({ frameBytes });
        const values: Buffer[] = [];
        for (const [index, stream] of streams.entries()) {
          const appends = stream.sizes.map((bytes, n) => ({ payload: stream.random ? randomBytes(bytes) : Buffer.alloc(bytes, `x${n}`), atMs: n }));
          for (const { value } of packAppends(at(stream.from), appends)) {
            writer.addBlock(key(index), inc(index), value);
            values.push(value);
          }
          if (stream.snapshot === null) continue;
          const body = Buffer.alloc(stream.snapshot, 's');
          writer.addSnapshot(key(index), inc(index), snapshotOf(stream.from, body), body);
          values.push(Buffer.alloc(0));
        }
        const packed = await writer.finish();
        const object = Buffer.concat(packed.body);
        expect([object.length, crc32c(object)]).toEqual([packed.bytes, packed.crc]);
        const walked = await parsed(object);
        expect(walked.map(({ value: _value, ...item }) => item)).toEqual(packed.items);
        for (const [index, item] of packed.items.entries()) {
          const value = await readAs(object, item.ref);
          expect(value.equals(walked[index]?.value as Buffer)).toBe(true);
          if (item.kind === 'block') expect(value.equals(values[index] as Buffer)).toBe(true);
          else expect(decodeSnapshotBody(value).offset).toBe(item.start);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('I9 refuses every cut and every flipped bit', async () => {
    const packed = await small().finish();
    await expectEveryDamageRefusedLater(Buffer.concat(packed.body), parsed);
  });

  it('I4 has another sum when it holds other bytes of the same length', async () => {
    const withText = async (text: string): Promise<PackedObject> => {
      const writer = new DataObjectWriter();
      for (const { value } of packAppends(at(0), [{ payload: Buffer.from(text), atMs: 6 }])) writer.addBlock(key(2), inc(2), value);
      return writer.finish();
    };
    const objects = await Promise.all(['hello', 'world', 'again'].map(withText));
    expect(new Set(objects.map((object) => object.bytes)).size).toBe(1);
    expect(new Set(objects.map((object) => object.crc)).size).toBe(3);
  });

  it('I9 refuses a footer of another object, and frames that the footer does not know', async () => {
    const [a, b] = await Promise.all([small().finish(), small().finish()]);
    const other = new DataObjectWriter();
    for (const { value } of packAppends(at(0), [{ payload: Buffer.from('other'), atMs: 6 }])) other.addBlock(key(2), inc(2), value);
    const c = await other.finish();
    const parts = (object: PackedObject): { frames: Buffer[]; footer: Buffer[] } => ({ frames: object.body.slice(1, 2), footer: object.body.slice(2) });
    const magic = a.body[0] as Buffer;
    expect((await parsed(Buffer.concat([magic, ...parts(a).frames, ...parts(b).footer]))).length).toBe(3);
    await expect(parsed(Buffer.concat([magic, ...parts(a).frames, ...parts(c).footer]))).rejects.toThrow(BadBytes);
    await expect(parsed(Buffer.concat([magic, ...parts(a).frames, ...parts(a).frames, ...parts(a).footer]))).rejects.toThrow('between frames and footer');
    await expect(parsed(Buffer.concat([magic, ...parts(a).footer]))).rejects.toThrow(BadBytes);
  });

  it('I9 refuses ranges in the footer that are not in the frames', async () => {
    const packed = await small().finish();
    const frame = packed.body[1] as Buffer;
    const entry = { frameBytes: frame.length, rawBytes: frame.readUInt32LE(2), crc: crc32c(frame.subarray(0, frame.length - 4)) };
    const listed = packed.items.map((item) => ({ kind: item.kind, incarnation: item.incarnation, start: item.start, end: item.end, frame: 0, blockAt: item.ref.blockAt, blockBytes: item.ref.blockBytes }));
    const withFooter = (items: typeof listed): Buffer => Buffer.concat([packed.body[0] as Buffer, frame, ...encodeFooter([entry], items)]);
    expect((await parsed(withFooter(listed))).length).toBe(3);
    const [first, ...others] = listed as [(typeof listed)[0], ...typeof listed];
    await expect(parsed(withFooter(others))).rejects.toThrow('is not in the footer');
    await expect(parsed(withFooter([...listed, { ...first, start: at(0), blockAt: 1 }]))).rejects.toThrow('are not there');
    await expect(parsed(withFooter([{ ...first, end: at(200) }, ...others]))).rejects.toThrow('is not in the footer');
    await expect(parsed(withFooter([{ ...first, incarnation: inc(9) }, ...others]))).rejects.toThrow('is not in the footer');
    await expect(parsed(withFooter([{ ...first, frame: 1 }, ...others]))).rejects.toThrow('no frame 1');
    expect(() => encodeFooter([entry], [first, ...listed])).toThrow('twice');
    await expect(parsed(withFooter([...listed, { ...first, start: at(0) }]))).rejects.toThrow('two ranges at one place');
  });

  it('R107 takes blocks only in the order of incarnation and offset', () => {
    const block = (from: number): Buffer => packAppends(at(from), [{ payload: Buffer.from('abcd'), atMs: 1 }])[0]?.value as Buffer;
    const writer = new DataObjectWriter();
    writer.addBlock(key(2), inc(2), block(10));
    expect(() => writer.addBlock(key(2), inc(2), block(13))).toThrow('behind');
    expect(() => new DataObjectWriter().addBlock(key(2), inc(2), block(10).subarray(1))).toThrow(BadBytes);
    writer.addBlock(key(2), inc(2), block(20));
    expect(writer.ranges).toBe(2);
    expect(() => writer.addBlock(key(1), inc(1), block(0))).toThrow('behind');
  });

  it('I3 takes no damaged block and no body but the published one', async () => {
    const writer = new DataObjectWriter();
    const block = Buffer.from(packAppends(at(0), [{ payload: Buffer.from('abcd'), atMs: 1 }])[0]?.value as Buffer);
    block[block.length - 1] = 0;
    expect(() => writer.addBlock(key(1), inc(1), block)).toThrow(BadBytes);
    expect(() => writer.addSnapshot(key(1), inc(1), snapshotOf(0, Buffer.from('a')), Buffer.from('b'))).toThrow(BadBytes);
    await expect(writer.finish()).rejects.toThrow('without ranges');
  });

  it('lets others have their turn while a large object is read of which nothing has to be unpacked', async () => {
    const writer = new DataObjectWriter();
    for (let n = 0; n < 64; n++) writer.addBlock(key(1), inc(1), packAppends(at(n * 131_072), [{ payload: randomBytes(131_072), atMs: 1 }])[0]?.value as Buffer);
    const object = Buffer.concat((await writer.finish()).body);
    let turns = 0;
    const count = (): void => {
      turns++;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    expect(await parsed(object)).toHaveLength(64);
    clearImmediate(next);
    expect(turns).toBeGreaterThanOrEqual(6);
  });

  it('I11 keeps within its limits, full to the brim', async () => {
    const writer = new DataObjectWriter({ frameBytes: 262_144 });
    const payload = randomBytes(BLOCK_PAYLOAD_MAX);
    let from = 0;
    while (writer.fits(BLOCK_PAYLOAD_MAX + 100)) {
      writer.addBlock(key(1), inc(1), packAppends(at(from), [{ payload, atMs: 1 }])[0]?.value as Buffer);
      from += payload.length;
    }
    expect(writer.rawBytes).toBeGreaterThan(DATA_OBJECT_RAW_BYTES_MAX - 2 * BLOCK_PAYLOAD_MAX);
    expect(() => writer.addBlock(key(1), inc(1), packAppends(at(from), [{ payload, atMs: 1 }])[0]?.value as Buffer)).toThrow(RangeError);
    const packed = await writer.finish();
    expect(packed.bytes).toBeLessThan(67_108_864);
    expect(packed.items.at(-1)?.end).toBe(from);
    await expect(writer.finish()).rejects.toThrow('twice');
  });

  it('I11 holds 65,536 ranges and no more', async () => {
    const writer = new DataObjectWriter();
    for (let index = 0; index < DATA_OBJECT_RANGES_MAX; index++) writer.addBlock(key(index), inc(index), packAppends(at(index), [{ payload: Buffer.from('ab'), atMs: 1 }])[0]?.value as Buffer);
    expect(writer.fits(10)).toBe(false);
    expect(() => writer.addBlock(key(0), inc(99_999), packAppends(at(0), [{ payload: Buffer.from('ab'), atMs: 1 }])[0]?.value as Buffer)).toThrow(RangeError);
    const packed = await writer.finish();
    let inOrder = 0;
    for await (const item of parseDataObject(Buffer.concat(packed.body))) if (decodeBlock(item.value).start === inOrder) inOrder++;
    expect(inOrder).toBe(DATA_OBJECT_RANGES_MAX);
  });

  it('refuses a target for frames beyond its limits', () => {
    expect(() => new DataObjectWriter({ frameBytes: 65_535 })).toThrow(RangeError);
    expect(() => new DataObjectWriter({ frameBytes: 262_145 })).toThrow(RangeError);
  });
});
