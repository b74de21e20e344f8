import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { refRow } from '../hot/keys/index.js';
import { Rig } from './cold-rig.contract.js';

const KEY = 'demo/a' as StreamKey;
const SLOT = slotOf(KEY);
let dir: string;
let rig: Rig;
let bytes: Buffer;

beforeEach(async () => {
  dir = await Rig.dir();
  rig = await Rig.open(dir, { hotKeepMs: 0 });
  await rig.create('demo/a');
  bytes = randomBytes(3_000_000);
  for (let at = 0; at < bytes.length; at += 100_000) await rig.append('demo/a', bytes.subarray(at, at + 100_000));
  await rig.seal();
  rig.objects.gets = 0;
});
afterEach(async () => {
  await rig.close();
  await Rig.remove(dir);
});

async function read(from: number, to: number, signal?: AbortSignal): Promise<Buffer> {
  const { incarnation } = await rig.head('demo/a');
  const pieces: Buffer[] = [];
  for await (const piece of rig.cold.read(SLOT, incarnation, from as Offset, to as Offset, signal)) {
    expect(piece.length).toBeLessThanOrEqual(1_048_576);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

describe('cold reads', () => {
  it('give exactly the range, with few GETs', async () => {
    expect((await read(0, bytes.length)).equals(bytes)).toBe(true);
    expect(rig.objects.gets).toBeLessThanOrEqual(4);
    for (const [from, to] of [[0, 1], [99_999, 100_001], [262_143, 262_145], [2_999_999, 3_000_000], [123, 2_345_678]] as const) {
      expect((await read(from, to)).equals(bytes.subarray(from, to)), `${from}..${to}`).toBe(true);
    }
  });

  it('a range without a reference is a gap, never a short answer (I1)', async () => {
    await expect(read(0, bytes.length + 1)).rejects.toMatchObject({ name: 'HotGap' });
    const { incarnation } = await rig.head('demo/a');
    const refs = await rig.refs(SLOT, incarnation, 0 as Offset, 100);
    await rig.core.stageOps([{ type: 'del', key: refRow.key(SLOT, incarnation, refs[4]!.end) }]);
    await expect(read(0, bytes.length)).rejects.toMatchObject({ name: 'HotGap', at: refs[4]!.start });
    // The stream says that it is there, so the log calls it damage after a second look.
    await expect(rig.read('demo/a')).rejects.toMatchObject({ status: 500 });
  });

  it('stop at the signal, and end their fetches when the client leaves', async () => {
    const leave = new AbortController();
    const { incarnation } = await rig.head('demo/a');
    const started = rig.cold.read(SLOT, incarnation, 0 as Offset, bytes.length as Offset, leave.signal)[Symbol.asyncIterator]();
    await started.next();
    leave.abort(new Error('gone'));
    await expect((async () => {
      for (;;) if ((await started.next()).done === true) return;
    })()).rejects.toThrow('gone');
    const early = rig.cold.read(SLOT, incarnation, 0 as Offset, bytes.length as Offset)[Symbol.asyncIterator]();
    await early.next();
    await early.return?.();
    expect((await read(0, 1_000)).equals(bytes.subarray(0, 1_000))).toBe(true);
  });

  it('an unreachable store is COLD_STORE_FAILED, and no damage', async () => {
    rig.objects.down = true;
    await expect(rig.read('demo/a')).rejects.toMatchObject({ code: 'COLD_STORE_FAILED', status: 502 });
    expect(rig.metrics.damage.object.value).toBe(0);
    rig.objects.down = false;
    expect((await rig.read('demo/a')).equals(bytes)).toBe(true);
  });

  it('large snapshots stream by range; a whole one with a wrong byte never ends cleanly', async () => {
    const body = randomBytes(2_000_000);
    await rig.snapshot('demo/a', 100, body);
    await rig.seal();
    const { snapshot } = await rig.head('demo/a');
    expect(snapshot?.hot).toBeNull();
    const part = async (from: number, length: number): Promise<Buffer> => {
      const pieces: Buffer[] = [];
      for await (const piece of rig.cold.readSnapshot(snapshot!, from, length)) pieces.push(piece);
      return Buffer.concat(pieces);
    };
    expect((await part(0, 2_000_000)).equals(body)).toBe(true);
    expect((await part(1_234_567, 1_000)).equals(body.subarray(1_234_567, 1_235_567))).toBe(true);
    expect((await part(5, 0)).length).toBe(0);
    if (snapshot?.cold?.at !== 'object') throw new Error('a large snapshot has an object of its own');
    const wrong = { ...snapshot, cold: { at: 'object' as const, ref: { ...snapshot.cold.ref, crc: 1 } } };
    await expect((async () => {
      for await (const _ of rig.cold.readSnapshot(wrong, 0, 2_000_000)) continue;
    })()).rejects.toMatchObject({ code: 'COLD_STORE_FAILED' });
  });
});
