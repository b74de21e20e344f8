import { describe, expect, it } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { createLogger } from '../../../shared/observability/logger.js';
import { EmbeddedRunner, type JobHandler } from '../../../shared/queue/index.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { dataRow, dirtyRow } from '../hot/keys/index.js';
import { type Rig, until, useRig } from './cold-rig.contract.js';
import { JOB_REMIND_MS, JOB_SILENT_MS } from './limits.js';

const place = useRig();
const { start } = place;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Takes a stream's only hot value away: its range cannot be read any more. */
async function loseValue(of: Rig, key: string): Promise<void> {
  const { incarnation, tail } = await of.head(key);
  await of.core.stageOps([{ type: 'del', key: dataRow.key(slotOf(key as StreamKey), incarnation, tail) }]);
}

describe('what is dirty is never forgotten (I5)', () => {
  it('a burst that ends while a plan is being collected is sealed without another write', async () => {
    const node = await start({ sealAgeMs: 300 });
    for (let n = 0; n < 100; n++) await node.create(`demo/s${n}`);
    await node.seal();
    const producersSince = node.core.producersSince.bind(node.core);
    let looked = 0;
    node.core.producersSince = async (...args) => {
      const found = await producersSince(...args);
      // The very stream that the walk has passed already.
      if (++looked === 99) await node.append('demo/s3', 'last');
      return found;
    };
    for (let n = 0; n < 100; n++) await node.append(`demo/s${n}`, 'x');
    await until(async () => (await node.head('demo/s3')).tail === 5);
    await until(async () => (await node.head('demo/s3')).sealed === 5, 5_000);
    expect(looked).toBeGreaterThanOrEqual(99);
  });

  it('a pass that fails is followed by another one', async () => {
    const node = await start({ sealAgeMs: 50 });
    await node.create('demo/a');
    await node.seal();
    const producersSince = node.core.producersSince.bind(node.core);
    let failed = 0;
    node.core.producersSince = (...args) => (failed++ === 0 ? Promise.reject(new FirnError('OUTCOME_UNKNOWN')) : producersSince(...args));
    await node.append('demo/a', 'x');
    await until(async () => (await node.head('demo/a')).sealed === 1, 5_000);
    expect(failed).toBeGreaterThan(1);
  });

  it('a search for large snapshots that fails is repeated', async () => {
    const node = await start();
    await node.create('demo/a', { body: 'hello' });
    await sleep(50);
    const scan = node.hot.scan.bind(node.hot);
    const dirty = dirtyRow.range(0).from;
    let failed = 0;
    node.hot.scan = (range) => {
      if (!range.from.equals(dirty) || failed++ > 0) return scan(range);
      throw new FirnError('OUTCOME_UNKNOWN');
    };
    await node.snapshot('demo/a', 5, Buffer.alloc(1_100_000, 3));
    await until(async () => (await node.head('demo/a')).snapshot?.cold !== null, 8_000);
    expect(failed).toBeGreaterThan(1);
  });
});

describe('a stream that cannot be sealed', () => {
  it('does not make a seal due by its bytes again and again (cost follows bytes)', async () => {
    const node = await start({ sealBytes: 100_000, sealAgeMs: 60_000 });
    await node.create('demo/bad');
    await node.create('demo/good');
    // The seal that is due at once must not get through before the value is gone.
    node.objects.down = true;
    await node.append('demo/bad', Buffer.alloc(200_000, 1));
    await loseValue(node, 'demo/bad');
    node.objects.down = false;
    await until(() => node.cold.partitions[0]?.parking.list().length === 1);
    await sleep(200);
    node.objects.puts = [];
    for (const end = Date.now() + 2_000; Date.now() < end; await sleep(10)) await node.append('demo/good', 'tiny');
    // One pass may come along with the first retry of the parked stream; nothing else is due.
    expect(node.objects.puts.length).toBeLessThanOrEqual(2);
    await node.append('demo/good', Buffer.alloc(100_000, 2));
    await until(async () => (await node.head('demo/good')).sealed >= 100_000);
  });
});

describe('a job that is heard of', () => {
  it('is not taken for lost however long its one stream takes', async () => {
    let skewMs = 0;
    const node = await start({}, { now: () => Date.now() + skewMs });
    await node.create('demo/long');
    for (let n = 0; n < 12; n++) await node.append('demo/long', Buffer.alloc(3_900_000, n));
    node.objects.before = async (call, key) => {
      if (call !== 'put' || !key.includes('/segments/')) return;
      skewMs += JOB_SILENT_MS * 0.6;
      // Long enough for the regular look at silent jobs.
      await sleep(1_300);
    };
    await node.seal();
    expect((await node.head('demo/long')).sealed).toBe(46_800_000 as Offset);
    expect(node.objects.puts.filter((key) => key.includes('/segments/')).map((key) => key.slice(-10))).toEqual(['0001-00000', '0001-00001']);
  });

  it('is not taken for lost while a large snapshot goes up piece by piece', async () => {
    let skewMs = 0;
    const node = await start({}, { now: () => Date.now() + skewMs });
    const putUnique = node.objects.inner.putUnique.bind(node.objects.inner);
    node.objects.inner.putUnique = (key, body, bytes, signal) => {
      const slow = async function* (): AsyncGenerator<Buffer> {
        let pieces = 0;
        for await (const piece of body) {
          if (++pieces <= 3) {
            skewMs += JOB_SILENT_MS * 0.6;
            await node.cold.partitions[0]?.board.tick();
          }
          yield piece;
        }
      };
      return putUnique(key, slow(), bytes, signal);
    };
    await node.create('demo/a', { body: 'hello' });
    await node.snapshot('demo/a', 5, Buffer.alloc(1_500_000, 3));
    await until(async () => (await node.head('demo/a')).snapshot?.cold !== null);
    expect(node.objects.puts.filter((key) => key.includes('/snapshots/')).map((key) => key.slice(-10))).toEqual(['0001-00000']);
  });
});

describe('a job that is not heard of', () => {
  /** A node whose first seal job is taken by somebody else: `first` gets it, later ones run. */
  async function withFirst(first: (id: string, handler: JobHandler, signal: AbortSignal) => Promise<void>, options: { readonly now?: () => number } = {}): Promise<{ node: Rig; ids: string[] }> {
    const ids: string[] = [];
    const node = await start({}, { ...options, runner: (handlers) => new EmbeddedRunner({ logger: createLogger('silent'), now: Date.now, handlers: { ...handlers, seal: (id, signal) => {
      ids.push(id);
      return ids.length === 1 ? first(id, handlers.seal, signal) : handlers.seal(id, signal);
    } } }) });
    await node.create('demo/a');
    await node.append('demo/a', 'hello');
    return { node, ids };
  }

  it('is handed over again when its queue lost it, under the same name (I5)', async () => {
    let skewMs = 0;
    const { node, ids } = await withFirst(async () => {
      skewMs += JOB_REMIND_MS + 1;
    }, { now: () => Date.now() + skewMs });
    await node.seal();
    expect(ids).toHaveLength(2);
    expect(ids[1]).toBe(ids[0]);
    expect((await node.head('demo/a')).sealed).toBe(5);
  });

  it('counts as lost when it was taken up and is silent for long: another try follows, and the late one finds its plan gone (I6)', async () => {
    let skewMs = 0;
    let late: Promise<void> | null = null;
    let wake = (): void => undefined;
    const asleep = new Promise<void>((resolve) => { wake = resolve; });
    const { node, ids } = await withFirst((id, handler, signal) => {
      const take = node.cold.port.plan.bind(node.cold.port);
      node.cold.port.plan = async (job) => {
        const head = await take(job);
        if (job === id) {
          skewMs += JOB_SILENT_MS + 1;
          await asleep;
        }
        return head;
      };
      late = handler(id, signal);
      return late;
    }, { now: () => Date.now() + skewMs });
    await node.seal();
    expect(ids).toHaveLength(2);
    expect(ids[1]).toBe(ids[0]!.replace(/-1$/, '-2'));
    const puts = node.objects.puts.length;
    wake();
    await late;
    // The late one may have begun with an upload of its own; it changes nothing.
    expect(node.objects.puts.slice(puts).every((key) => key.includes('/segments/'))).toBe(true);
    expect((await node.read('demo/a')).toString()).toBe('hello');
  });
});
