import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { RedisServer } from '../../infra/services/redis.js';
import { createLogger } from '../observability/index.js';
import { jobRunnerContract } from './job-runner.contract.js';
import type { Redis } from 'ioredis';
import { QueueRunner, type QueueRunnerOptions } from './queue-runner.js';
import { QueueSender } from './queue-sender.js';
import { QueueWorkers } from './queue-workers.js';
import { RedisLink } from './redis-link.js';
import { ENQUEUE_MS_MAX, perKind, STATS_MS_MAX, type JobHandlers, type JobKind } from './types.js';

const logger = createLogger('silent');
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const newStore = (): string => randomBytes(6).toString('hex');

let redis: RedisServer;
const runners: QueueRunner[] = [];
beforeAll(async () => {
  redis = await RedisServer.start({ persistent: true });
}, 320_000);
afterAll(() => redis.dispose());
afterEach(async () => {
  await Promise.all(runners.splice(0).map((runner) => runner.stop(500)));
});

function runner(options: Partial<Omit<QueueRunnerOptions, 'storeId'>> & { readonly storeId?: string } = {}): QueueRunner {
  const { storeId = newStore(), ...more } = options;
  const made = new QueueRunner({ url: redis.url, role: 'both', storeId: Promise.resolve(storeId), handlers: perKind(() => async () => undefined), logger, now: Date.now, ...more });
  runners.push(made);
  return made;
}

async function until(what: string, condition: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
  for (const end = Date.now() + ms; !(await condition()); await pause(20)) if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
}

/** Handlers that note which jobs ran. */
function noting(): { handlers: JobHandlers; ran: string[] } {
  const ran: string[] = [];
  return { ran, handlers: perKind((kind) => async (id) => void ran.push(`${kind}/${id}`)) };
}

const connected = (made: QueueRunner): Promise<void> => until('Redis is there', () => made.away === null);

/** Numbers of the jobs that are queued by one and run by the others. */
async function queueAll(sender: QueueRunner, kind: JobKind, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) expect(await sender.enqueue({ kind, id: `0-1-${n}-1` })).toBe(true);
}

// A server that somebody names has to pass the same.
const others = process.env['FIRN_TEST_REDIS_URL'];
for (const [name, url] of [['BullMQ', () => redis.url], ...(others === undefined ? [] : [['BullMQ on FIRN_TEST_REDIS_URL', () => others] as const])] as const) {
  jobRunnerContract(name, async (handlers, concurrency) => {
    const made = runner({ url: url(), handlers, concurrency: perKind(() => concurrency) });
    await connected(made);
    return made;
  });
}

describe('queues in Redis (architecture section 9, I5)', () => {
  it('a job that one process queues runs in another, once, and both see it', async () => {
    const storeId = newStore();
    const { handlers, ran } = noting();
    const sender = runner({ storeId, role: 'queue' });
    await connected(sender);
    await queueAll(sender, 'seal', 20);
    for (const _ of [1, 2, 3]) runner({ storeId, role: 'worker', handlers });
    await until('all ran', async () => (await sender.stats()).seal.done === 20);
    expect([...ran].sort()).toEqual(Array.from({ length: 20 }, (_, n) => `seal/0-1-${n}-1`).sort());
    expect((await sender.stats()).seal).toMatchObject({ queued: 0, running: 0, failed: 0 });
  });

  it('keeps stores apart', async () => {
    const { handlers, ran } = noting();
    runner({ storeId: 'another', role: 'worker', handlers });
    const sender = runner({ role: 'queue' });
    await connected(sender);
    await queueAll(sender, 'seal', 3);
    await pause(300);
    expect(ran).toEqual([]);
  });

  it('leaves nothing of a job in Redis but its short report', async () => {
    const storeId = newStore();
    const sender = runner({ storeId, handlers: perKind((kind) => async () => {
      if (kind === 'offload') throw new Error('no');
    }) });
    await connected(sender);
    await queueAll(sender, 'seal', 30);
    await queueAll(sender, 'offload', 30);
    await until('all ran', async () => {
      const { seal, offload } = await sender.stats();
      return seal.done === 30 && offload.failed === 30;
    });
    const keys = (await redis.command('KEYS', `firn:${storeId}:*`)) as string[];
    expect(keys.filter((key) => key.endsWith('-1'))).toEqual([]);
    expect(await redis.command('LLEN', `firn:${storeId}:seal:runs`)).toBe(20);
  });

  it('renews the lock of a long job, so that no other worker gets it', async () => {
    const storeId = newStore();
    const started: string[] = [];
    const handlers = perKind(() => async (id: string) => {
      started.push(id);
      await pause(4_000);
    });
    const sender = runner({ storeId, role: 'queue' });
    await connected(sender);
    for (const _ of [1, 2]) runner({ storeId, role: 'worker', handlers, lockMs: 1_000 });
    await queueAll(sender, 'offload', 1);
    await until('it is over', async () => (await sender.stats()).offload.done === 1);
    expect(started).toHaveLength(1);
  });
});

describe('Redis away (R044, R045, R046, R048)', () => {
  it('is away at the start: what is handed over runs here, nobody waits, and the queues are used once it comes', async () => {
    await redis.down();
    const { handlers, ran } = noting();
    const made = runner({ handlers });
    const only = runner({ role: 'queue', handlers });
    const began = performance.now();
    expect(await made.enqueue({ kind: 'seal', id: 'here' })).toBe(true);
    expect(await only.enqueue({ kind: 'seal', id: 'nobody' })).toBe(false);
    expect(performance.now() - began).toBeLessThan(ENQUEUE_MS_MAX);
    await until('it ran', () => ran.includes('seal/here'));
    expect(made.reasons().join()).toMatch(/does not answer .*jobs run in this process/);
    expect(only.reasons().join()).toMatch(/does not answer .*jobs wait/);
    await until('it is counted', async () => (await made.stats()).seal.done === 1);
    await redis.up();
    await connected(made);
    await connected(only);
    expect(made.reasons()).toEqual([]);
    await made.enqueue({ kind: 'seal', id: 'there' });
    await until('it ran', () => ran.includes('seal/there'));
    await until('it is counted', async () => (await made.stats()).seal.done === 2);
  });

  it.each([300, 7_000])('workers take jobs again after a restart that took %i ms, idle before it (R045)', async (ms) => {
    const { handlers, ran } = noting();
    const storeId = newStore();
    const sender = runner({ storeId, role: 'queue' });
    runner({ storeId, role: 'worker', handlers });
    await connected(sender);
    await queueAll(sender, 'seal', 1);
    await until('it ran', () => ran.length === 1);
    await redis.kill();
    await pause(ms);
    await redis.up();
    await connected(sender);
    expect(await sender.enqueue({ kind: 'seal', id: 'after' })).toBe(true);
    await until('it ran', () => ran.includes('seal/after'), 30_000);
  }, 60_000);

  it('survives that all its connections are cut, again and again (R050)', async () => {
    const { handlers, ran } = noting();
    const made = runner({ handlers });
    await connected(made);
    for (let round = 0; round < 10; round += 1) {
      for (const type of ['normal', 'pubsub']) await redis.command('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
      await until('it is back', async () => made.away === null);
      await made.enqueue({ kind: 'collect', id: `round-${round}` });
      await until('it ran', () => ran.includes(`collect/round-${round}`));
    }
    expect((await made.stats()).collect.failed).toBe(0);
  }, 60_000);

  it('replaces a worker that takes nothing while jobs wait (R045)', async () => {
    let skew = 0;
    const now = (): number => Date.now() + skew;
    const { handlers, ran } = noting();
    const link = new RedisLink({ url: redis.url, logger, now });
    const opened: Redis[] = [];
    const open = link.forWorkers.bind(link);
    link.forWorkers = () => {
      const made = open();
      opened.push(made);
      return made;
    };
    await until('Redis is there', () => link.ready);
    const sender = new QueueSender(link, newStore());
    const workers = new QueueWorkers({ sender, handlers, logger, now });
    try {
      await sender.add({ kind: 'seal', id: 'first' });
      await until('it ran', () => ran.length === 1);
      // Ended for good, and nothing tells the workers.
      for (const one of opened) one.disconnect();
      await pause(6_000);
      await sender.add({ kind: 'seal', id: 'second' });
      await pause(1_000);
      expect(ran).toHaveLength(1);
      expect(workers.watch((await sender.lengths())!)).toEqual([]);
      skew += 20_000;
      expect(workers.watch((await sender.lengths())!)).toEqual(['seal']);
      await until('it ran', () => ran.length === 2);
    } finally {
      await workers.stop(200);
      link.close();
    }
  }, 40_000);

  it('loses jobs with FLUSHALL and takes the same ids again, also while one of them runs', async () => {
    const storeId = newStore();
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => { open = resolve; });
    const ran: string[] = [];
    const sender = runner({ storeId, role: 'queue' });
    const worker = runner({ storeId, role: 'worker', concurrency: { seal: 1 }, lockMs: 2_000, handlers: perKind(() => async (id: string) => {
      ran.push(id);
      await gate;
    }) });
    await connected(sender);
    await queueAll(sender, 'seal', 5);
    await until('one runs', () => ran.length === 1);
    await redis.command('FLUSHALL');
    expect((await sender.stats()).seal).toMatchObject({ queued: 0, running: 0 });
    await pause(1_500);
    await queueAll(sender, 'seal', 5);
    open();
    // The one that ran through the flush was queued again: it runs once more, which its owner finds harmless.
    await until('all ran', () => new Set(ran).size === 5);
    await until('nothing is left', async () => {
      const { queued, running } = (await sender.stats()).seal;
      return queued + running === 0;
    });
    expect(worker.away).toBeNull();
  }, 40_000);

  it('answers at once while the server takes connections and says nothing', async () => {
    const { handlers, ran } = noting();
    const made = runner({ handlers });
    await connected(made);
    await redis.freeze();
    try {
      const began = performance.now();
      expect(await made.enqueue({ kind: 'seal', id: 'frozen' })).toBe(true);
      expect(performance.now() - began).toBeLessThan(ENQUEUE_MS_MAX + 300);
      await until('it ran here', () => ran.includes('seal/frozen'));
      const asked = performance.now();
      await made.stats();
      expect(performance.now() - asked).toBeLessThan(2 * STATS_MS_MAX + 300);
      await until('it is said', () => made.reasons().length > 0);
    } finally {
      await redis.thaw();
    }
    await connected(made);
    await made.enqueue({ kind: 'seal', id: 'thawed' });
    await until('it ran', () => ran.includes('seal/thawed'));
  }, 40_000);

  it('holds no job in memory for a server that is away, however many are handed over (R046)', async () => {
    await redis.down();
    const made = runner({ role: 'queue' });
    const before = process.memoryUsage().heapUsed;
    for (let n = 0; n < 100_000; n += 1) expect(await made.enqueue({ kind: 'seal', id: `0-1-${n}-1` })).toBe(false);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(60_000_000);
    await redis.up();
    await connected(made);
    expect((await made.stats()).seal).toMatchObject({ queued: 0 });
  }, 60_000);

  it('stops soon while the server is away, was never there, or says nothing', async () => {
    const made = [runner(), runner()];
    await Promise.all(made.map(connected));
    const stopped = async (one: QueueRunner): Promise<number> => {
      const began = performance.now();
      await one.stop(10_000);
      return performance.now() - began;
    };
    await redis.freeze();
    expect(await stopped(made[0]!)).toBeLessThan(2_000);
    await redis.thaw();
    await redis.down();
    const never = runner();
    await pause(100);
    for (const one of [made[1]!, never]) expect(await stopped(one)).toBeLessThan(2_000);
    await redis.up();
  });
});

describe('a server that refuses (R048)', () => {
  it('is full: jobs run here, it is said, and the queues are used again when there is room', async () => {
    const storeId = newStore();
    const { handlers, ran } = noting();
    const made = runner({ storeId, handlers });
    await connected(made);
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      expect(await made.enqueue({ kind: 'seal', id: 'full' })).toBe(true);
      await until('it ran here', () => ran.includes('seal/full'));
      await until('it is said', () => made.reasons().join().includes('has reached its maxmemory'));
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
    expect(await made.enqueue({ kind: 'seal', id: 'after' })).toBe(true);
    await until('it ran', () => ran.includes('seal/after'));
    await until('it went over the queue', async () => (await redis.command('HGET', `firn:${storeId}:seal:counts`, 'done')) === '1');
    await until('all is well', () => made.reasons().length === 0);
  }, 60_000);

  it('has turned into a read-only replica with jobs in it: others run here, it is said, nothing spins, and all run in the end', async () => {
    const ran: string[] = [];
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => { open = resolve; });
    const made = runner({ concurrency: { seal: 1 }, lockMs: 2_000, handlers: perKind(() => async (id: string) => {
      ran.push(id);
      if (id === 'first') await gate;
    }) });
    await connected(made);
    for (const id of ['first', 'waits-1', 'waits-2']) await made.enqueue({ kind: 'seal', id });
    await until('one runs', () => ran.includes('first'));
    await redis.command('REPLICAOF', '127.0.0.1', '1');
    try {
      open();
      expect(await made.enqueue({ kind: 'seal', id: 'replica' })).toBe(true);
      await until('it ran here', () => ran.includes('replica'));
      await until('it is said', () => made.reasons().join().includes('read-only replica'));
      const calls = async (): Promise<number> => Number(/total_commands_processed:(\d+)/.exec(String(await redis.command('INFO', 'stats')))?.[1]);
      const before = await calls();
      await pause(3_000);
      // Without a rest after each failure these are tens of thousands a second.
      expect((await calls()) - before).toBeLessThan(600);
    } finally {
      await redis.command('REPLICAOF', 'NO', 'ONE');
    }
    await until('all is well', () => made.reasons().length === 0);
    await made.enqueue({ kind: 'seal', id: 'primary' });
    await until('all ran', () => ['waits-1', 'waits-2', 'primary'].every((id) => ran.includes(id)));
  }, 60_000);

  it('may drop jobs by its eviction policy: it is said', async () => {
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    try {
      const made = runner();
      await until('it is said', () => made.reasons().join().includes('maxmemory-policy is allkeys-lru'));
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    }
  });

  it('says when jobs wait and no worker takes them', async () => {
    let skew = 0;
    const made = runner({ role: 'queue', now: () => Date.now() + skew });
    await connected(made);
    await queueAll(made, 'checkpoint', 2);
    await until('it was looked at', async () => {
      skew += 10_000;
      await pause(500);
      return made.reasons().some((reason) => reason.includes('no worker takes them'));
    }, 30_000);
    expect(made.reasons()).toEqual(['queue: checkpoint jobs wait and no worker takes them']);
  }, 40_000);
});

describe('secrets', () => {
  it('never reach a log, an error or a reason, whatever goes wrong with them', async () => {
    const guarded = await RedisServer.start({ password: 'right-pass-word' });
    const lines: string[] = [];
    const loud = createLogger('trace', { write: (line: string) => void lines.push(line) });
    try {
      const [right, wrong, none] = [guarded.url, guarded.url.replace('right-pass-word', 'wrong%2Fpass-word'), guarded.url.replace(':right-pass-word@', '')];
      const { handlers, ran } = noting();
      const good = runner({ url: right, logger: loud, handlers });
      const bad = [wrong, none].map((url) => runner({ url, logger: loud, handlers }));
      await connected(good);
      for (const [n, made] of bad.entries()) expect(await made.enqueue({ kind: 'seal', id: `bad-${n}` })).toBe(true);
      await until('both ran here', () => ran.length === 2);
      await until('it is said', () => bad.every((made) => made.reasons().length === 1));
      const said = [...lines, ...bad.flatMap((made) => made.reasons())].join('\n');
      expect(said).toMatch(/WRONGPASS|NOAUTH/);
      expect(said).not.toMatch(/right-pass-word|wrong.{1,3}pass-word/);
    } finally {
      await guarded.dispose();
    }
  }, 40_000);
});
