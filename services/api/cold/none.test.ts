import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../../shared/config/index.js';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { openEngine, type Engine } from '../engine.js';
import { dataRow, doomedRow } from '../hot/keys/index.js';
import { verifyStore } from './verify.js';

const KEY = 'demo/a' as StreamKey;
let dir: string;
let engine: Engine | null = null;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-none-'));
});
afterEach(async () => {
  await engine?.close();
  engine = null;
  await rm(dir, { recursive: true, force: true });
});

async function open(cold = 'none'): Promise<Engine> {
  const config = loadConfig({ env: { FIRN_DATA_DIR: dir, FIRN_COLD: cold } });
  engine = await openEngine(config, { logger: createLogger('silent'), metrics: createMetrics(), now: Date.now });
  return engine;
}

async function create(of: Engine): Promise<number> {
  const { record } = await of.log.create({ key: KEY, dialect: 'bucketed', precondition: null, contentType: 'text/plain', ttl: null, expiresAtMs: null, closed: false, seq: null, fork: null, body: Buffer.alloc(0) });
  return record.incarnation;
}

async function values(of: Engine): Promise<number> {
  let count = 0;
  for await (const page of of.core.store.scan(dataRow.slots())) count += page.length;
  return count;
}

async function until(check: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('not in time');
}

describe('FIRN_COLD=none', () => {
  it('seals, checkpoints and purges of the log are NO_COLD_STORE or nothing to do', async () => {
    const { cold } = await open();
    await expect(cold.sealNow('', AbortSignal.timeout(1_000))).rejects.toMatchObject({ code: 'NO_COLD_STORE', status: 501 });
    await expect(cold.checkpointNow(AbortSignal.timeout(1_000))).rejects.toMatchObject({ code: 'NO_COLD_STORE' });
    await cold.logPurge('demo');
    expect(cold.session(0)).toBeNull();
    expect(cold.refusal(0)).toBeNull();
  });

  it('tokens differ over deletes and restarts (INC-02)', async () => {
    const seen = new Set<number>();
    for (let run = 0; run < 3; run++) {
      const node = await open();
      for (let n = 0; n < 3; n++) {
        seen.add(await create(node));
        await node.log.delete(KEY, null);
      }
      await node.close();
      engine = null;
    }
    expect(seen.size).toBe(9);
  });

  it('retention and deletes free space', async () => {
    const node = await open();
    await create(node);
    for (let n = 0; n < 10; n++) {
      await node.log.append({ key: KEY, dialect: 'bucketed', precondition: null, contentType: 'text/plain', producer: null, seq: null, close: false, body: Buffer.alloc(5_000, 'x') });
    }
    await node.log.publishSnapshot({ key: KEY, precondition: null, offset: 40_000 as Offset, contentType: 'text/plain', declaredBytes: 1, body: (async function* () { yield Buffer.from('s'); })() });
    await node.log.retain(KEY, null, 37_500 as Offset);
    await until(async () => (await values(node)) === 3);
    expect((await node.log.head(KEY, null)).hotStart).toBe(35_000);
    const report = await verifyStore({ store: node.core.store, objects: null, deep: true, stagedBytes: async () => null, signal: AbortSignal.timeout(5_000) });
    expect(report).toMatchObject({ ok: true, streams: 1, bytes: 12_500 });
    await node.log.delete(KEY, null);
    await until(async () => (await values(node)) === 0);
    await until(async () => {
      for await (const page of node.core.store.scan(doomedRow.range())) if (page.length > 0) return false;
      return true;
    });
  });

  it('a directory keeps the cold tier that it was created with', async () => {
    await (await open('none')).close();
    engine = null;
    await expect(open('fs')).rejects.toThrow(/FIRN_COLD=none/);
    await rm(dir, { recursive: true });
    await (await open('fs')).close();
    engine = null;
    await expect(open('none')).rejects.toThrow(/FIRN_COLD=fs/);
  });
});
