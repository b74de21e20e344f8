import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../../shared/config/index.js';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { StoreUnavailable } from '../../../shared/storage/object-store.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { openEngine, type Engine } from '../engine.js';
import { bodyRow, dataRow, dirtyRow, evictRow, streamRow } from '../hot/keys/index.js';
import { HotStoreCorrupt } from '../hot/errors.js';
import { type Rig, until, useRig } from './cold-rig.contract.js';

const place = useRig();
const { start } = place;

/** The state of this stream cannot be read any more, as when its row is damaged. */
function damageState(of: Rig, key: string): void {
  const using = of.core.using.bind(of.core);
  of.core.using = ((asked, work) => (asked === key ? Promise.reject(new HotStoreCorrupt('the row of a stream is damaged')) : using(asked, work))) as typeof using;
}

describe('a stream whose snapshot holds its plan up', () => {
  it('is sealed from its boundary on while a large snapshot waits that the log does not hold yet', async () => {
    const node = await start({ sealAgeMs: 50 });
    await node.create('demo/a');
    await node.append('demo/a', Buffer.alloc(100, 1));
    await node.snapshot('demo/a', 100, Buffer.from('small'));
    await node.log.retain('demo/a' as StreamKey, null, 100 as Offset);
    await until(async () => (await node.head('demo/a')).hotStart === 100);
    node.objects.before = (call, key) => {
      if (call === 'put' && key.includes('/snapshots/')) throw new StoreUnavailable('no large snapshots now');
    };
    await node.append('demo/a', Buffer.alloc(100, 2));
    await node.snapshot('demo/a', 150, Buffer.alloc(1_100_000, 3));
    await until(async () => (await node.head('demo/a')).sealed === 200);
    expect(node.cold.reasons().join()).not.toContain('cannot be sealed');
  });

  it('is no damage, and is sealed by the next plan, when a small snapshot is superseded meanwhile', async () => {
    const node = await start();
    await node.create('demo/a');
    await node.append('demo/a', Buffer.alloc(600_000, 1));
    await node.snapshot('demo/a', 10, Buffer.from('first'));
    const planItems = node.cold.port.planItems.bind(node.cold.port);
    let superseded = 0;
    node.cold.port.planItems = async function* (...args) {
      for await (const item of planItems(...args)) {
        if (superseded++ === 0) {
          await node.snapshot('demo/a', 20, Buffer.from('second'));
          const { incarnation } = await node.head('demo/a');
          await until(async () => {
            for await (const page of node.hot.scan(bodyRow.range(slotOf('demo/a' as StreamKey), incarnation, 10 as Offset))) if (page.length > 0) return false;
            return true;
          });
        }
        yield item;
      }
    };
    await node.seal();
    expect(superseded).toBeGreaterThan(2);
    expect(await node.head('demo/a')).toMatchObject({ sealed: 600_000, snapshot: { offset: 20 } });
    expect(node.metrics.damage.hot.value).toBe(0);
    expect(node.cold.reasons()).toEqual([]);
    expect((await node.readSnapshot('demo/a', 20)).toString()).toBe('second');
  });
});

describe('one damaged stream stops no other (I9, R123)', () => {
  it('when its state is damaged between upload and commit', async () => {
    let damaged = false;
    const node = await start({}, { steps: (name) => {
      if (name !== 'seal:uploaded' || damaged) return;
      damaged = true;
      damageState(node, 'demo/bad');
    } });
    for (const key of ['demo/bad', 'demo/good']) {
      await node.create(key);
      await node.append(key, 'x'.repeat(100));
    }
    await expect(node.seal('', 2_000)).rejects.toThrow();
    expect((await node.head('demo/good')).sealed).toBe(100);
    expect(node.objects.puts.filter((key) => key.includes('-0002-'))).toEqual([]);
    expect(node.metrics.damage.hot.value).toBeGreaterThan(0);
  });

  it('when a large snapshot behind it waits for its offload', async () => {
    const node = await start();
    for (const key of ['demo/bad', 'demo/good']) await node.create(key, { body: 'hello' });
    damageState(node, 'demo/bad');
    await node.snapshot('demo/good', 5, Buffer.alloc(1_100_000, 3));
    await until(async () => (await node.head('demo/good')).snapshot?.cold !== null);
  });

  it('when the mark of what is dirty is damaged, also at the next start', async () => {
    const node = await start({ sealAgeMs: 50 });
    await node.create('demo/bad');
    const { incarnation } = await node.head('demo/bad');
    const key = dirtyRow.key(0, slotOf('demo/bad' as StreamKey), incarnation);
    await node.core.stageOps([{ type: 'put', key, value: Buffer.from('no mark') }]);
    await node.create('demo/good');
    await node.append('demo/good', 'x');
    await until(async () => (await node.head('demo/good')).sealed === 1);
    await node.core.stageOps([{ type: 'put', key, value: Buffer.from('no mark') }]);
    const again = await node.reopen();
    place.rig = again;
    await again.append('demo/good', 'y');
    await until(async () => (await again.head('demo/good')).sealed === 2);
  });

  it('when the row that says what is to be evicted is damaged, also at the next start', async () => {
    const node = await start();
    await node.create('demo/good');
    await node.append('demo/good', 'x');
    await node.seal();
    const { incarnation } = await node.head('demo/good');
    await node.core.stageOps([{ type: 'put', key: evictRow.key(0, 1, 7, incarnation), value: Buffer.from('no eviction') }]);
    const again = await node.reopen({ hotKeepMs: 0 });
    place.rig = again;
    await again.append('demo/good', 'y');
    await again.seal();
    expect((await again.head('demo/good')).hotStart).toBe(2);
  });
});

describe('one damaged stream without a cold tier (I9, R123)', () => {
  it('does not keep the space of the others', async () => {
    const home = await mkdtemp(join(tmpdir(), 'firn-left-out-'));
    const engine: Engine = await openEngine(loadConfig({ env: { FIRN_DATA_DIR: home, FIRN_COLD: 'none' } }), { logger: createLogger('silent'), metrics: createMetrics(), now: Date.now });
    try {
      for (const key of ['demo/bad', 'demo/good'] as StreamKey[]) {
        await engine.log.create({ key, dialect: 'bucketed', precondition: null, contentType: 'text/plain', ttl: null, expiresAtMs: null, closed: false, seq: null, fork: null, body: Buffer.alloc(1_000, 'x') });
      }
      const bad = await engine.log.head('demo/bad' as StreamKey, null);
      // Due before everything else, and its stream cannot be read.
      const slot = slotOf('demo/bad' as StreamKey);
      const worse = slotOf('demo/worse' as StreamKey);
      await engine.core.stageOps([
        { type: 'put', key: evictRow.key(0, 1, slot, bad.incarnation), value: Buffer.from('no eviction') },
        { type: 'put', key: streamRow.key(worse, 'demo/worse' as StreamKey), value: Buffer.from('no state') },
        { type: 'put', key: evictRow.key(0, 2, worse, bad.incarnation), value: evictRow.encode({ key: 'demo/worse' as StreamKey, upTo: 1 as Offset }) },
      ]);
      await engine.log.publishSnapshot({ key: 'demo/good' as StreamKey, precondition: null, offset: 1_000 as Offset, contentType: 'text/plain', declaredBytes: 1, body: (async function* () { yield Buffer.from('s'); })() });
      await engine.log.retain('demo/good' as StreamKey, null, 1_000 as Offset);
      const good = await engine.log.head('demo/good' as StreamKey, null);
      await until(async () => {
        for await (const page of engine.core.store.scan(dataRow.range(slotOf('demo/good' as StreamKey), good.incarnation))) if (page.length > 0) return false;
        return true;
      }, 5_000);
      const rows = async (untilMs?: number): Promise<number> => {
        let count = 0;
        for await (const page of engine.core.store.scan(evictRow.range(0, untilMs))) count += page.length;
        return count;
      };
      // Theirs wait for a later turn; the row of the good one goes behind its values.
      await until(async () => (await rows(3)) === 0 && (await rows()) === 2, 5_000);
    } finally {
      await engine.close();
      await rm(home, { recursive: true });
    }
  });
});
