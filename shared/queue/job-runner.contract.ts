/**
 * What every job runner has to do: mount it with `jobRunnerContract('name', make)`.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { ENQUEUE_MS_MAX, JOB_KINDS, perKind, type JobHandler, type JobHandlers, type JobKind, type JobRunner } from './types.js';

export interface RunnerMaker {
  /** A runner with these handlers, at most `concurrency` jobs of a kind at a time. */
  (handlers: JobHandlers, concurrency: number): Promise<JobRunner>;
}

/** A handler that is steered from the test: each run waits until it is let go. */
class Steered {
  readonly started: string[] = [];
  readonly signals: AbortSignal[] = [];
  runningNow = 0;
  runningMost = 0;
  readonly #open: (() => void)[] = [];

  readonly handler: JobHandler = async (id, signal) => {
    this.started.push(id);
    this.signals.push(signal);
    this.runningNow += 1;
    this.runningMost = Math.max(this.runningMost, this.runningNow);
    await new Promise<void>((resolve) => {
      this.#open.push(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    this.runningNow -= 1;
  };

  releaseOne(): void {
    this.#open.shift()?.();
  }

  releaseAll(): void {
    for (const open of this.#open.splice(0)) open();
  }
}

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`waited in vain until ${what}`);
}

const nothing: JobHandler = async () => undefined;

function only(kind: JobKind, handler: JobHandler): JobHandlers {
  return { ...perKind(() => nothing), [kind]: handler };
}

/** The suite. Work is told apart by kind and id alone; nothing here knows how a runner is built. */
export function jobRunnerContract(name: string, make: RunnerMaker): void {
  describe(`job runner contract: ${name}`, () => {
    let runner: JobRunner | undefined;
    afterEach(() => runner?.stop(200));

    it('runs a job of each kind with its id', async () => {
      const seen: string[] = [];
      const handlers = perKind((kind) => async (id: string) => void seen.push(`${kind}/${id}`));
      runner = await make(handlers, 1);
      const started = performance.now();
      for (const kind of JOB_KINDS) expect(await runner.enqueue({ kind, id: '0-1-7-1' })).toBe(true);
      expect(performance.now() - started).toBeLessThan(ENQUEUE_MS_MAX * JOB_KINDS.length);
      await until('all kinds ran', () => seen.length === JOB_KINDS.length);
      expect([...seen].sort()).toEqual(JOB_KINDS.map((kind) => `${kind}/0-1-7-1`).sort());
    });

    it('keeps to the concurrency of a kind and takes jobs in order', async () => {
      const steered = new Steered();
      runner = await make(only('seal', steered.handler), 2);
      for (let n = 0; n < 6; n += 1) await runner.enqueue({ kind: 'seal', id: `job-${n}` });
      await until('two run', () => steered.started.length === 2);
      for (let n = 2; n < 6; n += 1) {
        steered.releaseOne();
        await until('the next runs', () => steered.started.length === n + 1);
      }
      steered.releaseAll();
      await until('all are over', async () => (await runner!.stats()).seal.done === 6);
      expect(steered.runningMost).toBe(2);
      expect(steered.started).toEqual([0, 1, 2, 3, 4, 5].map((n) => `job-${n}`));
    });

    it('runs a waiting id once, however often it is queued', async () => {
      const steered = new Steered();
      runner = await make(only('seal', steered.handler), 1);
      await runner.enqueue({ kind: 'seal', id: 'first' });
      await until('the first runs', () => steered.started.length === 1);
      for (let n = 0; n < 5; n += 1) expect(await runner.enqueue({ kind: 'seal', id: 'twin' })).toBe(true);
      expect((await runner.stats()).seal).toMatchObject({ queued: 1, running: 1 });
      await runner.enqueue({ kind: 'seal', id: 'last' });
      for (let n = 2; n <= 3; n += 1) {
        steered.releaseOne();
        await until('the next runs', () => steered.started.length === n);
      }
      steered.releaseAll();
      await until('all are over', async () => (await runner!.stats()).seal.done === 3);
      expect(steered.started).toEqual(['first', 'twin', 'last']);
    });

    it('never runs an id beside itself', async () => {
      const steered = new Steered();
      runner = await make(only('compact', steered.handler), 2);
      await runner.enqueue({ kind: 'compact', id: 'same' });
      await until('it runs', () => steered.started.length === 1);
      await runner.enqueue({ kind: 'compact', id: 'same' });
      await runner.enqueue({ kind: 'compact', id: 'other' });
      await until('another id runs beside it', () => steered.started.includes('other'));
      expect(steered.started.filter((id) => id === 'same')).toHaveLength(1);
      steered.releaseAll();
    });

    it('goes on after a failure, which is counted and not repeated', async () => {
      const runs: string[] = [];
      runner = await make(only('collect', async (id) => {
        runs.push(id);
        if (id === 'bad') throw new Error('the store is away');
      }), 1);
      await runner.enqueue({ kind: 'collect', id: 'bad' });
      await runner.enqueue({ kind: 'collect', id: 'good' });
      await until('both are over', async () => {
        const { done, failed } = (await runner!.stats()).collect;
        return done === 1 && failed === 1;
      });
      expect(runs).toEqual(['bad', 'good']);
      const { lastRuns } = (await runner.stats()).collect;
      expect(lastRuns.map((run) => [run.id, run.error])).toEqual([['good', null], ['bad', 'the store is away']]);
      expect(lastRuns.every((run) => run.endedMs >= run.startedMs)).toBe(true);
    });

    it('takes an id again once its run is over', async () => {
      const runs: string[] = [];
      runner = await make(only('checkpoint', async (id) => void runs.push(id)), 1);
      await runner.enqueue({ kind: 'checkpoint', id: 'p0-1-1' });
      await until('it ran', async () => (await runner!.stats()).checkpoint.done === 1);
      await runner.enqueue({ kind: 'checkpoint', id: 'p0-1-1' });
      await until('it ran again', () => runs.length === 2);
    });

    it('takes back a job that waits, and leaves one that runs', async () => {
      const steered = new Steered();
      runner = await make(only('deliver', steered.handler), 1);
      await runner.enqueue({ kind: 'deliver', id: 'running' });
      await until('it runs', () => steered.started.length === 1);
      for (const id of ['waiting', 'next']) await runner.enqueue({ kind: 'deliver', id });
      for (const id of ['running', 'waiting', 'unknown']) await runner.withdraw({ kind: 'deliver', id });
      steered.releaseOne();
      await until('the next runs', () => steered.started.length === 2);
      steered.releaseAll();
      await until('both are over', async () => (await runner!.stats()).deliver.done === 2);
      expect(steered.started).toEqual(['running', 'next']);
    });

    it('lets running jobs finish when it stops, and takes no more', async () => {
      const steered = new Steered();
      runner = await make(only('seal', steered.handler), 1);
      await runner.enqueue({ kind: 'seal', id: 'running' });
      await until('it runs', () => steered.started.length === 1);
      await runner.enqueue({ kind: 'seal', id: 'waiting' });
      const stopped = runner.stop(5_000);
      expect(await runner.enqueue({ kind: 'seal', id: 'late' })).toBe(false);
      expect(steered.signals[0]?.aborted).toBe(false);
      steered.releaseAll();
      await stopped;
      expect(steered.runningNow).toBe(0);
      expect(steered.started).toEqual(['running']);
      await runner.stop(5_000);
    });

    it('tells a job that does not end to give up, and stops within the grace', async () => {
      const steered = new Steered();
      runner = await make(only('offload', steered.handler), 1);
      await runner.enqueue({ kind: 'offload', id: 'slow' });
      await until('it runs', () => steered.started.length === 1);
      const started = performance.now();
      await runner.stop(300);
      expect(performance.now() - started).toBeLessThan(1_500);
      expect(steered.signals[0]?.aborted).toBe(true);
    });

    it('refuses ids that some queue could not carry', async () => {
      runner = await make(only('seal', nothing), 1);
      for (const id of ['', 'a:b', 'a b', 'x'.repeat(201)]) await expect(runner.enqueue({ kind: 'seal', id }), JSON.stringify(id)).rejects.toThrow(/cannot be the id/);
    });
  });
}
