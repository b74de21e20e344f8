import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../shared/protocol/types.js';
import { encodeBlock } from '../../shared/storage/block.js';
import { BadBytes } from '../../shared/storage/codec.js';
import { crc32c } from '../../shared/storage/crc.js';
import { anyDigest, anyIncarnation, anyKey, anyText, anyTimeMs } from '../../shared/storage/records/arbitrary.contract.js';
import { anyBlockRef, anyColdRef } from '../../shared/storage/records/arbitrary.contract.js';
import type { PlanItem, PlanSource } from './node-port.js';
import { decodePlanStream, decodeSourceStream, encodePlanEnd, encodePlanItem, encodePlanStream, FRAME_BYTES_MAX, PLAN_STREAM_MAGIC } from './plan-stream.js';

const anyBytes = fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes));
const anyOffset = fc.nat(1_000_000).map((value) => value as Offset);
const anyPlace = { stream: fc.nat(20_000), key: anyKey, incarnation: anyIncarnation };
const anyBlock: fc.Arbitrary<PlanItem> = fc.record({ ...anyPlace, start: anyOffset, payload: anyBytes, atMs: anyTimeMs })
  .map(({ start, payload, atMs, ...place }) => ({ kind: 'block', ...place, block: encodeBlock({ start, resumes: false, continues: false, entries: [{ bytes: payload.length, atMs }], payload: [payload] }) }));
const anySnapshot: fc.Arbitrary<PlanItem> = fc.record({ ...anyPlace, body: anyBytes, offset: anyOffset, contentType: anyText, digest: anyDigest, publishedAtMs: anyTimeMs })
  .map(({ body, offset, contentType, digest, publishedAtMs, ...place }) => ({ kind: 'snapshot', ...place, body, record: { offset, contentType, digest, publishedAtMs, bytes: body.length, crc: crc32c(body) } }));
const anyItems = fc.array(fc.oneof(anyBlock, anySnapshot), { maxLength: 6 });

async function* of<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

async function encoded(items: readonly PlanItem[]): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of encodePlanStream(of(items))) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function decoded(pieces: readonly Buffer[]): Promise<PlanItem[]> {
  const items: PlanItem[] = [];
  for await (const item of decodePlanStream(of(pieces))) items.push(item);
  return items;
}

/** The same bytes in pieces of other lengths. */
function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const length = lengths.length === 0 ? bytes.length : (lengths[n % lengths.length] ?? 1);
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return pieces;
}

const SAMPLE: readonly PlanItem[] = [
  { kind: 'block', stream: 0, key: 'demo/a' as StreamKey, incarnation: (2 ** 52) as PlanItem['incarnation'], block: encodeBlock({ start: 7 as Offset, resumes: false, continues: false, entries: [{ bytes: 3, atMs: 5 }], payload: [Buffer.from('abc')] }) },
  { kind: 'snapshot', stream: 1, key: 'demo/b' as StreamKey, incarnation: (2 ** 52 + 1) as PlanItem['incarnation'], body: Buffer.from('body'), record: { offset: 3 as Offset, contentType: 'text/plain', digest: 'ab'.repeat(32), publishedAtMs: 9, bytes: 4, crc: crc32c(Buffer.from('body')) } },
];

const anyPlaceOfSource = { source: fc.nat(20_000), key: anyKey, incarnation: anyIncarnation };
const anySource: fc.Arbitrary<PlanSource> = fc.oneof(
  fc.record({ ...anyPlaceOfSource, snapshot: anyBlockRef }).map((source) => ({ ...source, refs: [] })),
  fc.record({ ...anyPlaceOfSource, from: fc.nat(1_000), shapes: fc.array(fc.tuple(anyColdRef, fc.integer({ min: 1, max: 500 })), { minLength: 1, maxLength: 5 }) }).map(({ from, shapes, ...source }) => {
    let at = from;
    return { ...source, snapshot: null, refs: shapes.map(([ref, bytes]) => ({ ...ref, start: at as Offset, end: (at += bytes) as Offset })) };
  }),
);

async function sourceBytes(sources: readonly PlanSource[]): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of encodePlanStream(of(sources))) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function decodedSources(pieces: readonly Buffer[]): Promise<PlanSource[]> {
  const sources: PlanSource[] = [];
  for await (const source of decodeSourceStream(of(pieces))) sources.push(source);
  return sources;
}

describe('the sources of a compaction on their way', () => {
  it('give back what went in, however their bytes are cut', async () => {
    await fc.assert(fc.asyncProperty(fc.array(anySource, { maxLength: 6 }), fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 5 }), async (sources, lengths) => {
      expect(await decodedSources(cut(await sourceBytes(sources), lengths))).toEqual(sources);
    }), { numRuns: 100 });
  });

  it('I9 are refused with every cut and every flipped bit, and in the place of a seal', async () => {
    const [source] = fc.sample(anySource, { numRuns: 1, seed: 7 }) as [PlanSource];
    const bytes = await sourceBytes([source]);
    for (let at = 0; at < bytes.length; at++) {
      await expect(decodedSources([bytes.subarray(0, at)])).rejects.toThrow(BadBytes);
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ 4;
      await expect(decodedSources([flipped])).rejects.toThrow(BadBytes);
    }
    await expect(decoded([bytes])).rejects.toThrow('a source of a compaction in a seal');
    await expect(decodedSources([await encoded(SAMPLE)])).rejects.toThrow('bytes of a seal in a compaction');
  });
});

describe('plan stream', () => {
  it('gives back what went in, however its bytes are cut on the way', async () => {
    await fc.assert(fc.asyncProperty(anyItems, fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 5 }), async (items, lengths) => {
      expect(await decoded(cut(await encoded(items), lengths))).toEqual(items);
    }), { numRuns: 200 });
  });

  it('a reader that leaves in the middle, and bytes that cannot be read, end the source', async () => {
    const bytes = await encoded(SAMPLE);
    let ended = 0;
    const source = async function* (pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
      try {
        yield* pieces;
      } finally {
        ended++;
      }
    };
    for await (const item of decodePlanStream(source(cut(bytes, [40])))) {
      expect(item.stream).toBe(0);
      break;
    }
    expect(ended).toBe(1);
    await expect(decodePlanStream(source([Buffer.from('something else'), bytes])).next()).rejects.toThrow(BadBytes);
    expect(ended).toBe(2);
  });

  it('what is wrong with the first item is an error of the first piece', async () => {
    const items = async function* (): AsyncGenerator<PlanItem> {
      yield* await Promise.reject<PlanItem[]>(new Error('no such plan'));
    };
    await expect(encodePlanStream(items()).next()).rejects.toThrow('no such plan');
  });

  it('refuses every cut', async () => {
    const bytes = await encoded(SAMPLE);
    for (let length = 0; length < bytes.length; length++) await expect(decoded([bytes.subarray(0, length)]), `${length} of ${bytes.length}`).rejects.toThrow(BadBytes);
  });

  it('refuses every flipped bit', async () => {
    const bytes = await encoded(SAMPLE);
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const altered = Buffer.from(bytes);
      altered[bit >> 3] = (altered[bit >> 3] as number) ^ (1 << (bit & 7));
      await expect(decoded([altered]), `bit ${bit}`).rejects.toThrow(BadBytes);
    }
  });

  it('refuses an item left out, an item twice, bytes behind the end, and lengths that cannot be, before it waits for them', async () => {
    const [block, snapshot] = SAMPLE.map(encodePlanItem) as [Buffer, Buffer];
    const end = encodePlanEnd(2);
    await expect(decoded([PLAN_STREAM_MAGIC, block, end])).rejects.toThrow('1 items where 2 were sent');
    await expect(decoded([PLAN_STREAM_MAGIC, block, block, snapshot, end])).rejects.toThrow('3 items where 2 were sent');
    await expect(decoded([PLAN_STREAM_MAGIC, block, snapshot, end, Buffer.of(0)])).rejects.toThrow('behind its end');
    for (const length of [0, 4, FRAME_BYTES_MAX + 1, 0xffff_ffff]) {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(length);
      await expect(decoded([PLAN_STREAM_MAGIC, head]), String(length)).rejects.toThrow(`a frame of ${length} bytes`);
    }
  });
});
