import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HotStoreCorrupt } from './errors.js';
import { markerRow } from './keys/marker.js';
import { judgeChain, MarkerRing, type ChainVerdict } from './marker-chain.js';
import type { HotEntry, HotReads, ScanRange } from './store.js';

const sumOf = (n: number): number => (n === 0 ? 0 : (n * 2_654_435_761) >>> 0);

/** A ring after `highest` batches, without those in `lost` (the marker of one ring earlier shows up in their place). */
function ringOf(places: number, highest: number, lost: readonly number[] = []): MarkerRing {
  const ring = new MarkerRing(places);
  for (let n = 1; n <= highest; n++) {
    if (!lost.includes(n)) ring.add(n % places, n, sumOf(n), sumOf(n - 1));
  }
  return ring;
}

function judge(ring: MarkerRing, verified: number, acked: number | null): ChainVerdict {
  return judgeChain(ring, { n: verified, crc: sumOf(verified) }, acked === null ? null : { n: acked, crc: sumOf(acked) });
}

describe('the chain of commit markers', () => {
  it('is whole when every batch up to the acknowledged one is there', () => {
    expect(judge(ringOf(64, 0), 0, null)).toMatchObject({ highest: 0, missing: [], faults: [] });
    expect(judge(ringOf(64, 10), 0, 10)).toEqual({ highest: 10, crc: sumOf(10), checkedFrom: 1, missing: [], faults: [] });
    expect(judge(ringOf(64, 10), 4, null)).toMatchObject({ checkedFrom: 4, missing: [], faults: [] });
  });

  it('may reach beyond the acknowledged batch', () => {
    expect(judge(ringOf(64, 11), 0, 10)).toMatchObject({ highest: 11, missing: [], faults: [] });
  });

  it('names every missing range, in the middle and at the end', () => {
    expect(judge(ringOf(64, 20, [3, 7, 8, 9]), 0, 22).missing).toEqual([{ from: 3, to: 3 }, { from: 7, to: 9 }, { from: 21, to: 22 }]);
  });

  it('sees a hole above the acknowledged batch', () => {
    expect(judge(ringOf(64, 20, [15]), 0, 10).missing).toEqual([{ from: 15, to: 15 }]);
  });

  it('does not look below what was verified, but at that batch itself', () => {
    expect(judge(ringOf(64, 20, [3, 7]), 10, 20).missing).toEqual([]);
    expect(judge(ringOf(64, 20, [10]), 10, 20).missing).toEqual([{ from: 10, to: 10 }]);
    expect(judge(ringOf(64, 8), 10, null).missing).toEqual([{ from: 10, to: 10 }]);
  });

  it('sees another batch under a number that is known', () => {
    expect(judgeChain(ringOf(64, 20), { n: 0, crc: 0 }, { n: 20, crc: 1 }).faults).toEqual(['batch 20 is not the one that was acknowledged']);
    expect(judgeChain(ringOf(64, 20), { n: 5, crc: 1 }, null).faults).toEqual(['batch 6 continues another batch 5', 'batch 5 is not the one that was verified']);
    const mixed = ringOf(64, 20);
    mixed.add(12, 12, sumOf(12), 99);
    expect(judge(mixed, 0, 20).faults).toEqual(['batch 12 continues another batch 11']);
  });

  it('refuses a marker in the wrong place of the ring', () => {
    const ring = new MarkerRing(64);
    expect(() => ring.add(3, 4, 0, 0)).toThrow(HotStoreCorrupt);
    expect(() => ring.add(64, 64, 0, 0)).toThrow(HotStoreCorrupt);
    expect(() => ring.add(0, 0, 0, 0)).toThrow(HotStoreCorrupt);
  });

  it('reads the ring from the verified batch on, and no further than needed', async () => {
    const stored = (highest: number, lost: readonly number[] = []): { rows: HotEntry[]; pages: number; store: HotReads } => {
      const rows = new Map<number, HotEntry>();
      for (let n = 1; n <= highest; n++) {
        if (!lost.includes(n)) rows.set(n % 64, { key: markerRow.key(n, 64), value: markerRow.encode({ n, crc: sumOf(n), before: sumOf(n - 1) }) });
      }
      const bed = {
        rows: [...rows.values()].sort((a, b) => Buffer.compare(a.key, b.key)),
        pages: 0,
        store: {
          get: () => Promise.resolve(undefined),
          getMany: () => Promise.resolve([]),
          async *scan({ from, to }: ScanRange) {
            for (const row of bed.rows) {
              if (Buffer.compare(row.key, from) < 0 || Buffer.compare(row.key, to) >= 0) continue;
              bed.pages++;
              yield [row];
            }
          },
        },
      };
      return bed;
    };
    const cases = [
      // highest, lost, verified, acked, markers read
      [0, [], 0, 0, 0],
      [10, [], 0, 10, 10],
      [100, [], 90, 100, 12],
      [100, [], 90, 99, 12],
      // The acked file lags or is missing: everything is read.
      [100, [], 90, 50, 64],
      [100, [], 90, null, 64],
      // A hole, or an end below what was acknowledged.
      [100, [95], 90, 100, 64],
      [100, [], 90, 101, 64],
      // The ring turned since the verified batch.
      [200, [], 90, 200, 64],
      [200, [], 136, 200, 64],
    ] as const;
    for (const [highest, lost, verified, acked, read] of cases) {
      const bed = stored(highest, lost);
      const ring = await MarkerRing.read(bed.store, 64, verified, acked);
      expect([highest, verified, acked, ring.highest, bed.pages]).toEqual([highest, verified, acked, highest, read]);
      const verdict = judge(ring, verified, acked);
      expect(verdict.missing.length + verdict.faults.length > 0).toBe(lost.length > 0 || (acked ?? 0) > highest);
    }
  });

  it('finds any lost batch within the last turn of the ring', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 300 }), fc.nat(), fc.nat(), (highest, verifiedShare, lostShare, ackedShare) => {
        const places = 64;
        const verified = Math.min(highest - 1, verifiedShare);
        // What can be lost lies above the last open; the ring is larger than the log.
        const low = Math.max(verified + 1, highest - places + 1);
        const lost = low + (lostShare % (highest - low + 1));
        const acked = Math.max(lost, verified + (ackedShare % (highest - verified + 1)));
        const verdict = judge(ringOf(places, highest, [lost]), verified, acked);
        expect(verdict.missing).toContainEqual({ from: lost, to: lost });
        expect(judge(ringOf(places, highest), verified, acked)).toMatchObject({ missing: [], faults: [] });
      }),
    );
  });
});
