import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../protocol/types.js';
import { decodeBlock, packAppends } from './block.js';
import { DataObjectWriter } from './data-object.js';
import { FsObjectStore } from './fs-store.js';
import { ObjectMissing } from './object-store.js';
import { objectKey } from './records/object-id.js';
import type { ColdRef, ObjectId } from './records/types.js';
import { isSourceDamage, SOURCE_OBJECTS_MAX, SourceFrames } from './source-frames.js';

let dir: string;
let store: FsObjectStore;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-sources-'));
  store = await FsObjectStore.open(dir);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const never = new AbortController().signal;
const idOf = (plan: number): ObjectId => ({ kind: 'segment', partition: 0, session: 1, plan, attempt: 1, part: 0 });

/** An object with one stream in blocks of so many random bytes; its references and its bytes. */
async function written(plan: number, blocks: number, bytes: number): Promise<{ readonly refs: ColdRef[]; readonly payload: Buffer; readonly size: number }> {
  const writer = new DataObjectWriter();
  const payload = randomBytes(blocks * bytes);
  for (let n = 0; n < blocks; n++) {
    for (const { value } of packAppends((n * bytes) as Offset, [{ payload: payload.subarray(n * bytes, (n + 1) * bytes), atMs: n }])) writer.addBlock('demo/a' as StreamKey, (2 ** 52 + 1) as Incarnation, value);
  }
  const packed = await writer.finish();
  await store.putOnce(objectKey(idOf(plan)), packed.body);
  return { refs: packed.items.map(({ ref, start, end }) => ({ ...ref, object: idOf(plan), start, end })), payload, size: packed.bytes };
}

async function bytesOf(blocks: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const block of blocks) pieces.push(decodeBlock(block).payload);
  return Buffer.concat(pieces);
}

describe('the sources of a compaction', () => {
  it('cost: an object that is read from front to end takes few GETs, none of them beyond its end, and each byte once', async () => {
    const { refs, payload, size } = await written(1, 64, 60_000);
    const frames = new SourceFrames(store, never);
    expect((await bytesOf(frames.blocks(refs))).equals(payload)).toBe(true);
    expect(frames.gets).toBeLessThanOrEqual(12);
    expect(frames.bytesRead).toBeLessThanOrEqual(size);
  });

  it('reads nothing twice while many objects take turns, as far as there is room for them', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, (_, plan) => written(plan, 8, 40_000)));
    const frames = new SourceFrames(store, never);
    for (let n = 0; n < 8; n++) for (const { refs, payload } of all) expect((await bytesOf(frames.blocks([refs[n] as ColdRef]))).equals(payload.subarray(n * 40_000, (n + 1) * 40_000))).toBe(true);
    expect(frames.bytesRead).toBeLessThanOrEqual(all.reduce((sum, { size }) => sum + size, 0));
    expect(all.length).toBeLessThan(SOURCE_OBJECTS_MAX);
  });

  it('jumps back and far ahead', async () => {
    const { refs, payload } = await written(1, 40, 50_000);
    const frames = new SourceFrames(store, never);
    for (const n of [30, 2, 3, 39, 0, 20, 21]) expect((await bytesOf(frames.blocks([refs[n] as ColdRef]))).equals(payload.subarray(n * 50_000, (n + 1) * 50_000))).toBe(true);
  });

  it('I9 every damage is an error that says so: missing, short, altered, another range', async () => {
    const { refs } = await written(1, 4, 50_000);
    const [first] = refs as [ColdRef];
    const read = (ref: ColdRef): Promise<Buffer> => bytesOf(new SourceFrames(store, never).blocks([ref]));
    const faults = [{ ...first, object: idOf(9) }, { ...first, frameCrc: first.frameCrc ^ 1 }, { ...first, frameBytes: first.frameBytes - 1 }, { ...first, end: (first.end + 1) as Offset }, { ...first, frameAt: 900_000_000 }];
    for (const ref of faults) expect(isSourceDamage(await read(ref).catch((error: unknown) => error)), JSON.stringify(ref)).toBe(true);
    await expect(read({ ...first, object: idOf(9) })).rejects.toBeInstanceOf(ObjectMissing);
    const body = await store.get(objectKey(idOf(1)));
    body[first.frameAt + 500] = (body[first.frameAt + 500] as number) ^ 1;
    await rm(join(dir, objectKey(idOf(1))));
    await writeFile(join(dir, objectKey(idOf(1))), body);
    expect(isSourceDamage(await read(first).catch((error: unknown) => error))).toBe(true);
  });

  it('ends with its signal', async () => {
    const { refs } = await written(1, 4, 50_000);
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    await expect(bytesOf(new SourceFrames(store, stop.signal).blocks(refs))).rejects.toThrow('enough');
  });
});
