import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import type { ObjectId } from '../../../shared/storage/records/types.js';
import { objectRow } from '../hot/keys/index.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { DurableStore } from '../hot/durable.js';
import { ObjectCounts } from './object-counts.js';

const ID: ObjectId = { kind: 'segment', partition: 0, session: 1, plan: 1, attempt: 1, part: 0 };
let dir: string;
let store: DurableStore;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-counts-'));
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger: createLogger('silent') });
});
afterEach(async () => {
  await store.close();
  await rm(dir, { recursive: true });
});

function refsOf(ops: ReturnType<ObjectCounts['move']>): number | null {
  const [op] = ops;
  return op?.type === 'put' ? objectRow.decode(op.value).refs : null;
}

describe('counts of references', () => {
  it.each(['known', 'new'])('of a %s object are lost by none of several streams that prepare and move them at once', async (object) => {
    const info = { id: ID, bytes: 10, crc: 7 };
    if (object === 'known') await store.commit([{ type: 'put', key: objectRow.key(ID), value: objectRow.encode({ bytes: 10, crc: 7, refs: 5, live: 50, total: 60 }) }]);
    const counts = new ObjectCounts(store);
    counts.begin();
    // Both reads are under way before either count moves, and the later one ends behind the first move.
    const get = store.get.bind(store);
    let reads = 0;
    store.get = async (key) => {
      const later = ++reads > 1;
      const value = await get(key);
      if (later) await new Promise((resolve) => setTimeout(resolve, 20));
      return value;
    };
    const move = async (by: number): Promise<number | null> => {
      if (object === 'known') await counts.prepare([ID]);
      else await counts.prepare([], [info]);
      return refsOf(counts.move(ID, by, 10 * by));
    };
    const seen = await Promise.all([move(1), move(2)]);
    const before = object === 'known' ? 5 : 0;
    expect(seen).toEqual([before + 1, before + 3]);
    expect(refsOf(counts.move(ID, 0, 0))).toBe(before + 3);
  });

  it('of an object that has no row are left alone', async () => {
    const counts = new ObjectCounts(store);
    counts.begin();
    await counts.prepare([ID]);
    expect(counts.move(ID, 1, 1)).toEqual([]);
  });
});
