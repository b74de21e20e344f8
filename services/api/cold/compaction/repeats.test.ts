import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../../shared/protocol/types.js';
import type { Job, JobHandlers } from '../../../../shared/queue/index.js';
import { perKind, type JobRunner } from '../../../../shared/queue/types.js';
import { compactHandler } from '../../../worker/handlers/compact.js';
import { PlanGone, type NodePort } from '../../../worker/node-port.js';
import { until, useCounts, useRig, type Rig } from '../cold-rig.contract.js';

const MS_MAX = 20_000;
const bed = useRig();

/** Hands jobs to whoever asks for them. */
class HeldJobs implements JobRunner {
  readonly jobs: Job[] = [];
  handlers: JobHandlers | null = null;

  enqueue(job: Job): Promise<boolean> {
    if (job.kind === 'compact') this.jobs.push(job);
    else void this.handlers?.[job.kind](job.id, AbortSignal.timeout(MS_MAX)).catch(() => undefined);
    return Promise.resolve(true);
  }

  withdraw(): Promise<void> {
    return Promise.resolve();
  }

  stats(): ReturnType<JobRunner['stats']> {
    return Promise.resolve(perKind(() => ({ queued: 0, running: 0, done: 0, failed: 0, refused: 0, lastRuns: [] })));
  }

  reasons(): readonly string[] {
    return [];
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }
}

async function begun(): Promise<{ readonly of: Rig; readonly held: HeldJobs; readonly done: ReturnType<Rig['cold']['compactNow']> }> {
  const held = new HeldJobs();
  const of = await bed.start({ hotKeepMs: 0 }, { runner: (handlers) => Object.assign(held, { handlers }) });
  for (let round = 0; round < 3; round++) {
    for (const key of ['demo/a', 'demo/b']) {
      if (round === 0) await of.create(key);
      await of.append(key, `${key} ${round} ${'x'.repeat(500)}\n`);
    }
    await of.seal();
  }
  const done = of.cold.compactNow(AbortSignal.timeout(MS_MAX));
  done.catch(() => undefined);
  await until(() => held.jobs.length > 0);
  return { of, held, done };
}

/** The node's port, with one call replaced. */
function portWith(of: Rig, changes: Partial<NodePort>): NodePort {
  return new Proxy(of.cold.port as NodePort, { get: (port, name) => changes[name as keyof NodePort] ?? (typeof port[name as keyof NodePort] === 'function' ? (port[name as keyof NodePort] as () => unknown).bind(port) : port[name as keyof NodePort]) });
}

async function expectMoved(of: Rig): Promise<void> {
  for (const key of ['demo/a', 'demo/b']) {
    expect((await of.read(key)).toString()).toBe([0, 1, 2].map((round) => `${key} ${round} ${'x'.repeat(500)}\n`).join(''));
    const { incarnation } = await of.head(key);
    expect(await of.refs(of.core.slotOf(key as StreamKey), incarnation, 0 as Offset, 10)).toHaveLength(1);
  }
  const { rows, counted } = await useCounts(of);
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(counted));
}

describe('a compaction that comes twice (I6)', () => {
  it('two workers with one plan: one result counts, the objects of the other are named by nothing', async () => {
    const { of, held, done } = await begun();
    const run = compactHandler(of.cold.port);
    const { id } = held.jobs[0] as Job;
    await Promise.all([run(id, AbortSignal.timeout(MS_MAX)), run(id, AbortSignal.timeout(MS_MAX))]);
    expect((await done).plans).toBe(1);
    expect(of.objects.puts.filter((key) => key.includes('/merged/'))).toHaveLength(2);
    await expectMoved(of);
  });

  it('a commit that is told twice is made once', async () => {
    const { of, held, done } = await begun();
    let second: unknown = null;
    const port = portWith(of, {
      commitCompact: async (job, objects, signal) => {
        await of.cold.port.commitCompact(job, objects, signal);
        second = await of.cold.port.commitCompact(job, objects, signal).catch((error: unknown) => error);
      },
    });
    await compactHandler(port)((held.jobs[0] as Job).id, AbortSignal.timeout(MS_MAX));
    await done;
    expect(second).toBeInstanceOf(PlanGone);
    await expectMoved(of);
  });

  it('a try that failed is followed by another, and the late result of the first is not taken', async () => {
    const { of, held, done } = await begun();
    const late: (() => Promise<void>)[] = [];
    const port = portWith(of, {
      commitCompact: (job, objects, signal) => {
        late.push(() => of.cold.port.commitCompact(job, objects, signal));
        return Promise.reject(new Error('the line went dead'));
      },
    });
    await expect(compactHandler(port)((held.jobs[0] as Job).id, AbortSignal.timeout(MS_MAX))).rejects.toThrow('the line');
    await until(() => held.jobs.length > 1);
    await compactHandler(of.cold.port)((held.jobs.at(-1) as Job).id, AbortSignal.timeout(MS_MAX));
    await done;
    await expect((late[0] as () => Promise<void>)()).rejects.toBeInstanceOf(PlanGone);
    await expectMoved(of);
  });

  it('I3 a worker that brings other bytes, or fewer, changes nothing', async () => {
    const { of, held, done } = await begun();
    const { id } = held.jobs[0] as Job;
    const first = portWith(of, { planSources: async function* (job, from, signal) {
      for await (const source of of.cold.port.planSources(job, from, signal)) if (source.key === 'demo/a') yield { ...source, refs: source.refs.slice(0, 2) };
    } });
    await compactHandler(first)(id, AbortSignal.timeout(MS_MAX));
    const report = await done;
    expect(report).toMatchObject({ plans: 0, leftOut: 2 });
    for (const key of ['demo/a', 'demo/b']) expect((await of.read(key)).length).toBe(3 * (`${key} 0 \n`.length + 500));
    const { rows, counted } = await useCounts(of);
    expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(counted));
  });
});
