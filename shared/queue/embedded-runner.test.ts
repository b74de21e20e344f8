import { describe, expect, it } from 'vitest';
import { createLogger } from '../observability/index.js';
import { EmbeddedRunner } from './embedded-runner.js';
import { jobRunnerContract } from './job-runner.contract.js';
import { LAST_RUNS_MAX, perKind, type JobHandlers, type JobKind } from './types.js';

const logger = createLogger('silent');

jobRunnerContract('embedded', async (handlers, concurrency) => new EmbeddedRunner({
  handlers, logger, now: () => performance.timeOrigin + performance.now(), concurrency: perKind(() => concurrency),
}));

function handlersOf(handler: (kind: JobKind, id: string) => Promise<void>): JobHandlers {
  return perKind((kind) => (id: string) => handler(kind, id));
}

describe('embedded runner', () => {
  it('refuses jobs beyond its bound and counts them (I11)', async () => {
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => { open = resolve; });
    const runner = new EmbeddedRunner({ handlers: handlersOf(() => gate), logger, now: () => 0, concurrency: { seal: 1 }, queuedMax: 2 });
    const taken: boolean[] = [];
    for (let n = 0; n < 5; n += 1) taken.push(await runner.enqueue({ kind: 'seal', id: `job-${n}` }));
    expect(taken).toEqual([true, true, true, false, false]);
    expect((await runner.stats()).seal).toMatchObject({ queued: 2, running: 1, refused: 2 });
    open();
    await runner.stop(1_000);
  });

  it('logs and reports each failure, and remembers a bounded number of runs', async () => {
    const lines: string[] = [];
    const failures: JobKind[] = [];
    const loud = createLogger('error', { write: (line: string) => void lines.push(line) });
    const runner = new EmbeddedRunner({ handlers: handlersOf(async () => { throw new Error('no'); }), logger: loud, now: () => 5, onFailure: (kind) => void failures.push(kind) });
    for (let n = 0; n < LAST_RUNS_MAX + 5; n += 1) await runner.enqueue({ kind: 'offload', id: `job-${n}` });
    await new Promise((resolve) => setTimeout(resolve, 20));
    const { failed, lastRuns } = (await runner.stats()).offload;
    expect(failed).toBe(LAST_RUNS_MAX + 5);
    expect(lastRuns).toHaveLength(LAST_RUNS_MAX);
    expect(lastRuns[0]).toEqual({ id: `job-${LAST_RUNS_MAX + 4}`, startedMs: 5, endedMs: 5, error: 'no' });
    expect(failures).toHaveLength(LAST_RUNS_MAX + 5);
    expect(JSON.parse(lines[0] ?? '{}')).toMatchObject({ event: 'job-failed', kind: 'offload', job: 'job-0' });
  });
});
