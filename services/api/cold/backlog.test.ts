/**
 * A store that is away for an hour, by the node's own clock: nothing goes that was not proven, and what waits is sealed from its oldest changes on when the store is back (I3, R028, R030).
 */
import { describe, expect, it } from 'vitest';
import { LOG_START, readLog } from '../../../shared/storage/history/log-reader.js';
import { type Rig, until, useRig } from './cold-rig.contract.js';
import { PLAN_BYTES_MAX } from './limits.js';
import { SealDue } from './seal-due.js';

const { start } = useRig();
const HOUR_MS = 3_600_000;

/** Streams in the order in which the log got them, those of one record together. */
async function sealedOrder(of: Rig): Promise<string[][]> {
  const order: string[][] = [];
  for await (const { record } of readLog({ store: of.objects, partition: 0, after: LOG_START, until: of.cold.session(0) as number, live: true })) {
    const keys = record.deltas.flatMap((delta) => (delta.kind === 'seal' && delta.refs.length > 0 ? [delta.key] : []));
    if (keys.length > 0) order.push(keys);
  }
  return order;
}

describe('a store that is away for an hour', () => {
  it('R028 R030 I3 keeps every byte readable and hot, says how old the oldest is, and takes the oldest first when it is back', { timeout: 120_000 }, async () => {
    let nowMs = 1_700_000_000_000;
    const node = await start({ sealAgeMs: 60_000, hotKeepMs: 0 }, { now: () => nowMs });
    await node.create('demo/first', { body: 'sealed before' });
    await node.seal();
    node.objects.down = true;
    const BODY = 8_000_000;
    const STREAMS = Math.ceil((PLAN_BYTES_MAX * 1.5) / BODY);
    const key = (n: number): string => `demo/s${(n * 37) % STREAMS}-${n}`;
    const beganMs = nowMs;
    for (let n = 0; n < STREAMS; n++) {
      await node.create(key(n));
      await node.append(key(n), Buffer.alloc(BODY, n));
      nowMs += Math.floor(HOUR_MS / STREAMS);
    }
    expect(node.core.unsealedBytes(0)).toBe(STREAMS * BODY);
    expect(node.cold.unsealedSinceMs(0)).toBe(beganMs);
    for (const n of [0, STREAMS >> 1, STREAMS - 1]) expect((await node.read(key(n))).equals(Buffer.alloc(BODY, n))).toBe(true);
    expect(node.metrics.evictedBytes.value).toBe('sealed before'.length);
    node.objects.down = false;
    await until(() => {
      nowMs += 1_000;
      return node.core.unsealedBytes(0) === 0;
    }, 90_000);
    const order = (await sealedOrder(node)).slice(1).map((keys) => keys.map((one) => Number(one.split('-')[1])));
    expect(order.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: STREAMS }, (_, n) => n));
    expect(order.length).toBeGreaterThanOrEqual(2);
    for (const [n, some] of order.entries()) for (const later of order.slice(n + 1)) expect(Math.max(...some)).toBeLessThan(Math.min(...later));
    await until(() => node.cold.unsealedSinceMs(0) === null);
    for (const n of [0, STREAMS - 1]) expect((await node.read(key(n))).equals(Buffer.alloc(BODY, n))).toBe(true);
  });
});

describe('the order of a backlog', () => {
  /** A partition with so many unsealed bytes, the oldest of them marked at 0. */
  function dueWith(bytes: number, nowMs: number): { readonly seals: SealDue; readonly load: { bytes: number; sinceMs: number | null; nowMs: number } } {
    const load = { bytes, sinceMs: 0 as number | null, nowMs };
    const core = { unsealedBytes: () => load.bytes, dirtySinceMs: () => load.sinceMs, noteCut: () => (load.sinceMs = null) };
    return { load, seals: new SealDue({ core, alsoSinceMs: () => null, partition: 0, sealBytes: 1, sealAgeMs: 60_000, now: () => load.nowMs }) };
  }

  it('is that of its age, in bands of about a plan; what fits into one plan, and a seal that was asked for, is taken as it lies', () => {
    expect(dueWith(PLAN_BYTES_MAX, HOUR_MS).seals.begin(true)).toBeNull();
    expect(dueWith(PLAN_BYTES_MAX * 4, HOUR_MS).seals.begin(false)).toBeNull();
    expect(dueWith(PLAN_BYTES_MAX * 400, HOUR_MS).seals.begin(true)).toBe(HOUR_MS / 8);
    const { seals, load } = dueWith(PLAN_BYTES_MAX * 4, HOUR_MS);
    const ends: (number | null)[] = [];
    for (let plan = 0; plan < 4; plan++) {
      ends.push(seals.begin(true));
      load.bytes -= PLAN_BYTES_MAX;
      seals.end({ whole: true, sealedBytes: PLAN_BYTES_MAX, retryMs: null });
      expect([seals.now, seals.sinceMs]).toEqual([plan < 3, ends.at(-1)]);
    }
    expect(ends).toEqual([HOUR_MS / 4, HOUR_MS / 2, (HOUR_MS * 3) / 4, null]);
  });

  it('is left after a band that brought nothing', () => {
    const { seals } = dueWith(PLAN_BYTES_MAX * 4, HOUR_MS);
    expect(seals.begin(true)).toBe(HOUR_MS / 4);
    seals.end({ whole: true, sealedBytes: 0, retryMs: null });
    expect([seals.now, seals.isPartial, seals.begin(true)]).toEqual([true, true, null]);
  });
});
