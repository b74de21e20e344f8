import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics, type Metrics } from '../observability/index.js';
import { FsObjectStore } from './fs-store.js';
import { MeasuredStore } from './measured-store.js';
import { objectStoreContract } from './object-store.contract.js';

async function newStore(metrics: Metrics): Promise<{ readonly store: MeasuredStore; readonly done: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'firn-measured-'));
  const store = new MeasuredStore(await FsObjectStore.open(directory), metrics.store);
  const done = async (): Promise<void> => {
    await store.close();
    await rm(directory, { recursive: true });
  };
  return { store, done };
}

objectStoreContract('a store that is measured', () => newStore(createMetrics()));

describe('a store that is measured', () => {
  let metrics: Metrics;
  let made: Awaited<ReturnType<typeof newStore>>;
  beforeEach(async () => {
    metrics = createMetrics();
    made = await newStore(metrics);
  });
  afterEach(() => made.done());

  async function shown(): Promise<Record<string, number>> {
    const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('firn_store_') && !line.startsWith('firn_store_poison') && !line.endsWith(' 0'));
    return Object.fromEntries(lines.map((line) => [line.slice('firn_store_'.length, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]));
  }

  it('counts calls by kind and outcome, and bytes both ways', async () => {
    const { store } = made;
    await store.putOnce('a', Buffer.from('12345'));
    await store.putOnce('a', Buffer.from('other'));
    await store.putUnique('b', (async function* () { yield Buffer.from('678'); })(), 3);
    await store.get('a');
    await store.get('none').catch(() => undefined);
    await store.get('a', { from: 0, length: 9 }).catch(() => undefined);
    await store.get('a', undefined, AbortSignal.abort()).catch(() => undefined);
    for await (const _ of store.stream('a'));
    for await (const _ of store.list(''));
    await store.size('none');
    await store.delete('a');
    await store.sweepUploads({ isOwn: () => true, olderThanMs: 0 });
    metrics.store.retry();
    expect(await shown()).toEqual({
      'requests_total{op="put",outcome="ok"}': 1, 'requests_total{op="put",outcome="exists"}': 1, 'requests_total{op="put-large",outcome="ok"}': 1,
      'requests_total{op="get",outcome="ok"}': 2, 'requests_total{op="get",outcome="missing"}': 1, 'requests_total{op="get",outcome="damaged"}': 1, 'requests_total{op="get",outcome="cancelled"}': 1,
      'requests_total{op="list",outcome="ok"}': 1, 'requests_total{op="size",outcome="missing"}': 1, 'requests_total{op="delete",outcome="ok"}': 1, 'requests_total{op="sweep",outcome="ok"}': 1,
      'bytes_total{direction="written"}': 13, 'bytes_total{direction="read"}': 10, retries_total: 1,
    });
  });

  it('counts what was refused and what failed', async () => {
    await made.store.close();
    await made.store.get('a').catch(() => undefined);
    await made.store.putOnce('..', Buffer.from('x')).catch(() => undefined);
    expect(await shown()).toEqual({ 'requests_total{op="get",outcome="unavailable"}': 1, 'requests_total{op="put",outcome="unavailable"}': 1 });
  });
});
