import { rm, stat } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { expectOnlyAlive, SHORT_GRACE_MS } from './collect/collect-rig.contract.js';
import { coldMetrics } from './cold-metrics.js';
import { Rig, type RigConfig } from './cold-rig.contract.js';
import { restore } from './restore.js';
import { verifyStore } from './verify.js';

const KEYS = ['m/a', 'm/b', 'm/c'];

/** What a stream should be; `sealed` is what a restore would bring back. */
interface Stream {
  bytes: Buffer;
  retained: number;
  snapshot: { offset: number; body: Buffer } | null;
  seq: number;
}

type Streams = Map<string, Stream>;

function copyOf(streams: Streams): Streams {
  return new Map([...streams].map(([key, stream]) => [key, { ...stream }]));
}

const anyKey = fc.constantFrom(...KEYS);
const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('append' as const), key: anyKey, size: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 50_000, max: 400_000 })), keyed: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('seal' as const), prefix: fc.constantFrom('', 'm/a') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), key: anyKey }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('snapshot' as const), key: anyKey, share: fc.double({ min: 0, max: 1, noNaN: true }), large: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('retain' as const), key: anyKey, share: fc.double({ min: 0, max: 1, noNaN: true }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('checkpoint' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('compact' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('collect' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const), kill: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restore' as const) }) },
);

type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;

const OPTIONS = { collectGraceMs: SHORT_GRACE_MS };

class Run {
  streams: Streams = new Map();
  /** State at the last seal of everything: what a restore gives back at least. */
  sealed: Streams = new Map();

  private constructor(readonly dir: string, private readonly config: RigConfig, public rig: Rig) {}

  static async start(config: RigConfig): Promise<Run> {
    const dir = await Rig.dir();
    return new Run(dir, config, await Rig.open(dir, config, OPTIONS));
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'append':
        return this.#append(step.key, step.size, step.keyed);
      case 'seal':
        await this.rig.seal(step.prefix);
        if (step.prefix === '') this.sealed = copyOf(this.streams);
        return;
      case 'delete':
        if (this.streams.delete(step.key)) await this.rig.delete(step.key);
        return;
      case 'snapshot':
        return this.#snapshot(step.key, step.share, step.large);
      case 'retain':
        return this.#retain(step.key, step.share);
      case 'checkpoint':
        return void (await this.rig.cold.checkpointNow(AbortSignal.timeout(10_000)));
      case 'compact':
        return void (await this.rig.cold.compactNow(AbortSignal.timeout(20_000)));
      case 'collect':
        return void (await this.rig.collect());
      case 'restart':
        if (step.kill) await this.rig.kill();
        else await this.rig.close();
        this.rig = await Rig.open(this.dir, this.config, OPTIONS);
        return;
      case 'restore':
        return this.#restore();
      default:
        throw new Error('unknown step');
    }
  }

  async #append(key: string, size: number, keyed: boolean): Promise<void> {
    let stream = this.streams.get(key);
    if (stream === undefined) {
      await this.rig.create(key);
      stream = { bytes: Buffer.alloc(0), retained: 0, snapshot: null, seq: 0 };
      this.streams.set(key, stream);
    }
    const body = randomBytes(size);
    await this.rig.append(key, body, keyed ? { id: 'p', epoch: 0, seq: stream.seq++ } : null);
    stream.bytes = Buffer.concat([stream.bytes, body]);
  }

  async #snapshot(key: string, share: number, large: boolean): Promise<void> {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    const low = Math.max(stream.retained, (stream.snapshot?.offset ?? -1) + 1);
    const offset = Math.floor(low + (stream.bytes.length - low) * share);
    if (offset < low || offset > stream.bytes.length) return;
    const body = Buffer.alloc(large ? 1_100_000 : 100, `snapshot of ${key} at ${offset} `);
    await this.rig.snapshot(key, offset, body);
    stream.snapshot = { offset, body };
  }

  async #retain(key: string, share: number): Promise<void> {
    const stream = this.streams.get(key);
    if (stream === undefined || stream.snapshot === null) return;
    stream.retained = Math.floor(stream.retained + (stream.snapshot.offset - stream.retained) * share);
    await this.rig.log.retain(key as StreamKey, null, stream.retained as Offset);
  }

  /** Loses the machine: what was sealed comes back. */
  async #restore(): Promise<void> {
    await this.rig.seal();
    this.sealed = copyOf(this.streams);
    await this.rig.close();
    await rm(join(this.dir, 'hot'), { recursive: true });
    await rm(join(this.dir, 'staging'), { recursive: true });
    const report = await restore({
      config: { dataDir: this.dir, cold: 'fs' }, objects: await FsObjectStore.open(join(this.dir, 'objects')), newIncarnations: false, logger: createLogger('silent'),
      metrics: coldMetrics(createMetrics()), now: Date.now, nonce: () => randomBytes(16).toString('hex'), signal: AbortSignal.timeout(20_000),
    });
    expect(report.losses).toEqual([]);
    this.rig = await Rig.open(this.dir, this.config, OPTIONS);
    this.streams = copyOf(this.sealed);
  }

  async check(windowBytes: number): Promise<void> {
    for (const key of KEYS) {
      const stream = this.streams.get(key);
      if (stream === undefined) {
        await expect(this.rig.head(key)).rejects.toMatchObject({ code: 'STREAM_NOT_FOUND' });
        continue;
      }
      const record = await this.rig.head(key);
      expect([key, record.tail, record.retained, record.snapshot?.offset ?? null]).toEqual([key, stream.bytes.length, stream.retained, stream.snapshot?.offset ?? null]);
      expect((await this.rig.read(key, windowBytes)).equals(stream.bytes.subarray(stream.retained)), key).toBe(true);
      if (stream.snapshot !== null) expect((await this.rig.readSnapshot(key, stream.snapshot.offset)).equals(stream.snapshot.body), key).toBe(true);
      if (stream.seq > 0) {
        const again = await this.rig.append(key, 'a repeat', { id: 'p', epoch: 0, seq: stream.seq - 1 });
        expect(again.kind).toBe('duplicate');
      }
    }
  }

  async verify(): Promise<void> {
    const stagedBytes = (file: string): Promise<number | null> => stat(join(this.dir, 'staging', file)).then(({ size }) => size, () => null);
    const report = await verifyStore({ store: this.rig.core.store, objects: this.rig.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(20_000) });
    expect(report.findings).toEqual([]);
  }

  async end(): Promise<void> {
    await this.rig.close();
    await Rig.remove(this.dir);
  }
}

describe('any sequence of appends, seals, evictions, compactions, collections, snapshots, retention, restarts and restores (R026)', () => {
  it.each<RigConfig>([
    { hotKeepMs: 0, sealBytes: 1, sealAgeMs: 20 },
    { hotKeepMs: 600_000 },
    { hotKeepMs: 0, partitions: 4, sealAgeMs: 50 },
  ])('agrees with a model: %o', { timeout: 120_000 }, async (config) => {
    await fc.assert(fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 18 }), fc.constantFrom(8_388_608, 100_000, 77_777), async (steps, windowBytes) => {
      const run = await Run.start(config);
      try {
        for (const step of steps) {
          await run.step(step);
          await run.check(windowBytes);
        }
        await run.verify();
        await run.rig.seal();
        await run.check(windowBytes);
        await run.verify();
        expect(await run.rig.collect()).toMatchObject({ waiting: 0, unknown: 0, pinned: 0 });
        await run.check(windowBytes);
        await expectOnlyAlive(run.rig);
      } finally {
        await run.end();
      }
    }), { numRuns: Number(process.env['FIRN_TEST_RUNS'] ?? 6) });
  });
});
