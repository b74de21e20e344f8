import { createHash, randomBytes, type Hash } from 'node:crypto';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLogger, createMetrics } from '../../../shared/observability/index.js';
import { EmbeddedRunner, type JobHandlers } from '../../../shared/queue/index.js';
import { WebhookTargets } from '../../worker/webhooks/targets.js';
import { perKind } from '../../../shared/queue/types.js';
import { jobHandlers } from '../../worker/handlers/index.js';
import { runTry } from '../../worker/handlers/run-try.js';
import { HttpPort, type WorkRefused } from '../../worker/http-port.js';
import type { Offset } from '../../../shared/protocol/types.js';
import { decodeBlock } from '../../../shared/storage/block.js';
import { MeasuredStore, StoreTally } from '../../../shared/storage/measured-store.js';
import { PLAN_START, PlanGone, type NodePort, type PlanItem } from '../../worker/node-port.js';
import { TrafficReports } from '../../worker/traffic-reports.js';
import { until, useRig, type Rig } from '../cold/cold-rig.contract.js';
import { listen, type Listener } from '../http/server.js';
import { createAdminApp } from './app.js';
import type { AdminBackend } from './types.js';
import { WorkRoutes } from './work-routes.js';

const logger = createLogger(process.env['FIRN_TEST_LOG'] === undefined ? 'silent' : 'debug');
const place = useRig();
const never = new AbortController().signal;
/** Of each stream, so that a plan does not fit into the buffers of the sockets on the way to a worker that takes nothing. */
const STALLING_BYTES = 10_000_000;
/** Of the workers here with a node that is away. */
const AWAY_MS_MAX = 2_000;

/** A node whose jobs run over HTTP: `port` reaches it through `proxy`, which may cut what passes. */
class Over {
  readonly metrics = createMetrics();
  readonly work: WorkRoutes;
  refused: WorkRefused | null = null;
  port!: HttpPort;
  #listener!: Listener;
  proxy!: CuttingProxy;
  rig!: Rig;
  handlers: JobHandlers = perKind(() => async () => undefined);

  constructor(bodiesMax: number | undefined) {
    this.work = new WorkRoutes(() => this.rig.cold.work, this.metrics.workerStore, bodiesMax);
  }

  static async start(config: Parameters<typeof place.start>[0] = {}, options: Parameters<typeof place.start>[1] & { readonly workerToken?: string; readonly store?: string; readonly bodiesMax?: number } = {}): Promise<Over> {
    const over = new Over(options.bodiesMax);
    over.rig = await place.start(config, { ...options, runner: () => new EmbeddedRunner({ handlers: perKind((kind) => (id, signal) => over.handlers[kind](id, signal)), logger, now: Date.now }) });
    // The routes of operators are not asked here.
    const app = createAdminApp({ backend: {} as AdminBackend, token: 'right', logger, work: over.work });
    over.#listener = await listen({ host: '127.0.0.1', port: 0, handler: app.callback(), logger, endLongAnswers: () => over.work.end() });
    over.proxy = await CuttingProxy.to(over.#listener.port);
    running.push(async () => {
      await over.proxy.close();
      await over.#listener.shutdown(200);
    });
    over.port = over.client(options.workerToken, options.store);
    return over;
  }

  /** One more worker. */
  client(token = 'right', store = this.rig.cold.work!.storeId): HttpPort {
    const made = new HttpPort({ url: `http://127.0.0.1:${this.proxy.port}`, token, objects: this.rig.objects, awayMsMax: AWAY_MS_MAX, onRefused: (error) => { this.refused = error; } }, store);
    running.unshift(() => made.close());
    return made;
  }

  /** Asks for a body of a job as a worker does that never takes any of it. */
  stall(job: string, what = 'items'): Socket {
    const socket = connect(this.proxy.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(`GET /__firn/work/${this.rig.cold.work!.storeId}/plans/${job}/${what} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n\r\n`);
    return socket;
  }

  /** Handlers that work over HTTP. */
  workOver(): void {
    this.handlers = jobHandlers(this.port, Date.now, new WebhookTargets({ allow: [] }));
  }

  /** Starts a seal and holds its job open for `work`; what the node itself then sees of it is the outcome of the seal. */
  async holding<T>(work: (jobId: string) => Promise<T>): Promise<T> {
    const result = new Promise<T>((resolve, reject) => {
      this.handlers = { ...this.handlers, seal: (id) => work(id).then(resolve, reject) };
    });
    const given = new AbortController();
    const sealing = this.rig.cold.sealNow('', given.signal).catch(() => undefined);
    try {
      return await result;
    } finally {
      given.abort(new Error('the test is over'));
      await sealing;
    }
  }
}

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of running.splice(0)) await end();
});

/** Passes bytes on, and may cut the answers. */
class CuttingProxy {
  /** Cuts each connection when so many more bytes of answers have passed; null: passes all. */
  cutAfter: number | null = null;
  cuts = 0;
  passed = 0;
  readonly #sockets = new Set<Socket>();

  private constructor(readonly server: Server, readonly port: number) {}

  static async to(target: number): Promise<CuttingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const proxy = new CuttingProxy(server, (server.address() as AddressInfo).port);
    server.on('connection', (near) => proxy.#pass(near, connect(target, '127.0.0.1')));
    return proxy;
  }

  #pass(near: Socket, far: Socket): void {
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far);
    far.on('data', (piece: Buffer) => {
      this.passed += piece.length;
      if (this.cutAfter !== null && piece.length >= this.cutAfter) {
        near.write(piece.subarray(0, this.cutAfter), () => near.resetAndDestroy());
        this.cutAfter = null;
        this.cuts++;
        return;
      }
      if (this.cutAfter !== null) this.cutAfter -= piece.length;
      if (!near.write(piece)) {
        far.pause();
        near.once('drain', () => far.resume());
      }
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

async function fill(rig: Rig, bytesEach: number): Promise<Map<string, Buffer>> {
  const written = new Map<string, Buffer>();
  for (const key of ['demo/a', 'demo/b', 'demo/c']) {
    await rig.create(key);
    const bytes = randomBytes(bytesEach);
    for (let at = 0; at < bytes.length; at += 100_000) await rig.append(key, bytes.subarray(at, at + 100_000));
    written.set(key, bytes);
  }
  await rig.snapshot('demo/b', bytesEach, Buffer.from('a small snapshot'));
  return written;
}

async function all(items: AsyncIterable<PlanItem>): Promise<PlanItem[]> {
  const found: PlanItem[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe('a job over HTTP', () => {
  it('seals, offloads and checkpoints, and reads back the same bytes (I3)', async () => {
    const over = await Over.start({ hotKeepMs: 0, partitions: 4 });
    over.workOver();
    const written = await fill(over.rig, 900_000);
    const big = randomBytes(3_000_000);
    await over.rig.snapshot('demo/c', 900_000, big);
    await over.rig.seal();
    for (const [key, bytes] of written) {
      expect(await over.rig.head(key)).toMatchObject({ sealed: bytes.length, hotStart: bytes.length });
      expect((await over.rig.read(key)).equals(bytes), key).toBe(true);
    }
    expect((await over.rig.readSnapshot('demo/c', 900_000)).equals(big)).toBe(true);
    expect((await over.rig.head('demo/c')).snapshot?.cold?.at).toBe('object');
    const reports = await over.rig.cold.checkpointNow(never);
    expect(reports.reduce((sum, report) => sum + report.streams, 0)).toBe(3);
    expect(over.proxy.passed).toBeGreaterThan(5_700_000);
  });

  it('collects, in two steps, what nothing names any more (I8)', async () => {
    const over = await Over.start({ hotKeepMs: 0, partitions: 4 }, { collectGraceMs: 20 });
    over.workOver();
    const written = await fill(over.rig, 10_000);
    await over.rig.seal();
    await over.rig.create('demo/gone');
    await over.rig.append('demo/gone', 'x');
    await over.rig.seal();
    await over.rig.delete('demo/gone');
    await over.rig.seal();
    expect(await over.rig.collect()).toMatchObject({ objects: 1, orphans: 0, unknown: 0, waiting: 0 });
    expect(over.rig.objects.deletes.filter((key) => key.includes('/segments/'))).toHaveLength(1);
    for (const [key, bytes] of written) expect((await over.rig.read(key)).equals(bytes), key).toBe(true);
    await expect(over.port.collect('0000-000009-c1', { dropped: [], strays: [] })).rejects.toBeInstanceOf(PlanGone);
    await expect(over.port.collectPlans('0000-000009-c1')).rejects.toBeInstanceOf(PlanGone);
  });

  it('gives the very items that handlers in the process get', async () => {
    const over = await Over.start();
    await fill(over.rig, 700_000);
    await over.holding(async (job) => {
      const head = await over.port.plan(job);
      expect(head).toMatchObject({ kind: 'seal', streams: 3, attempt: 1 });
      expect(await over.port.plan(job)).toMatchObject({ attempt: 2 });
      const local = await all(over.rig.cold.port.planItems(job, PLAN_START, never));
      expect(local.length).toBeGreaterThan(8);
      const same = isDeepStrictEqual(await all(over.port.planItems(job, PLAN_START, never)), local.map(asSent));
      expect(same).toBe(true);
    });
  });

  it('goes on behind the last whole item when the connection is cut, wherever that is', async () => {
    const over = await Over.start();
    await fill(over.rig, 700_000);
    await over.holding(async (job) => {
      const local = await all(over.rig.cold.port.planItems(job, PLAN_START, never));
      for (const cutAfter of [1, 200, 5_000, 262_500, 400_000, 700_000, 700_300, 1_500_000, 2_100_000]) {
        over.proxy.cutAfter = cutAfter;
        const before = over.proxy.passed;
        const got = await all(over.port.planItems(job, PLAN_START, never));
        // Blocks may be joined in another way behind a cut; the bytes are the same.
        expect(got.map(({ stream }) => stream).filter((stream, at, from) => stream !== from[at - 1])).toEqual([0, 1, 2]);
        expect(contents(got)).toEqual(contents(local));
        // What lay in buffers when the line was cut came again, and not everything: for the last cut that were 4.2 MB.
        expect(over.proxy.passed - before).toBeLessThan(2_100_000 + 2_000_000);
      }
      expect(over.proxy.cuts).toBe(9);
    });
  });

  it('goes on with a snapshot at the byte where it was cut', async () => {
    const over = await Over.start({ hotKeepMs: 0 });
    over.workOver();
    await over.rig.create('demo/a', { body: 'hello' });
    const big = randomBytes(30_000_000);
    const offload = over.handlers.offload;
    over.handlers = { ...over.handlers, offload: (id, signal) => {
      over.proxy.cutAfter = 20_000_000;
      return offload(id, signal);
    } };
    await over.rig.snapshot('demo/a', 5, big);
    await until(async () => (await over.rig.head('demo/a')).snapshot?.cold !== null, 20_000);
    expect((await over.rig.readSnapshot('demo/a', 5)).equals(big)).toBe(true);
    expect(over.proxy.cuts).toBe(1);
    // From the beginning again these were 50 MB.
    expect(over.proxy.passed).toBeLessThan(40_000_000);
    expect(over.rig.objects.puts.filter((key) => key.includes('/snapshots/'))).toHaveLength(1);
  });
});

/** Of a snapshot only what identifies it goes to a worker. */
function asSent(item: PlanItem): PlanItem {
  if (item.kind === 'block') return item;
  const { offset, contentType, digest, bytes, crc, publishedAtMs } = item.record;
  return { ...item, record: { offset, contentType, digest, bytes, crc, publishedAtMs } };
}

/** Digest of what came of each stream, joined. */
function contents(items: readonly PlanItem[]): string[] {
  const hashes: Hash[] = [];
  for (const item of items) (hashes[item.stream] ??= createHash('sha256')).update(item.kind === 'block' ? decodeBlock(item.block).payload : item.body);
  return hashes.map((hash) => hash.digest('hex'));
}

describe('who may work, and what they may bring back', () => {
  it('lets in nobody without the token, and says so to the worker', async () => {
    const over = await Over.start({}, { workerToken: 'wrong' });
    await expect(over.port.plan('0000-000001-0000000001-1')).rejects.toThrow(/401/);
    expect(over.refused?.message).not.toContain('wrong');
  });

  it('refuses the worker of another store, whatever it asks', async () => {
    const over = await Over.start({}, { store: 'another' });
    await expect(over.port.plan('0000-000001-0000000001-1')).rejects.toThrow(/409/);
    await expect(over.port.failed('0000-000001-0000000001-1', 'x')).rejects.toThrow(/ANOTHER_STORE/);
    expect(over.refused).not.toBeNull();
  });

  it('says of every plan that is over that it is gone', async () => {
    const over = await Over.start();
    const jobs = ['0000-000001-0000000001-1', '0009-000001-0000000001-1', 'nonsense', '..%2f..'];
    for (const job of jobs) {
      expect(await over.port.plan(job), job).toBeNull();
      expect(await over.port.alive(job), job).toBe(false);
      await expect(all(over.port.planItems(job, PLAN_START, never)), job).rejects.toThrow(PlanGone);
      await expect(over.port.commitSeal(job, [], never), job).rejects.toThrow(PlanGone);
      await expect(over.port.snapshot(job, never), job).rejects.toThrow(PlanGone);
    }
    await expect(over.port.logPosition(7)).rejects.toThrow();
  });

  it('takes no object under the name of another plan, no checkpoint that is not there, and no message of another shape (I6)', async () => {
    const over = await Over.start();
    await fill(over.rig, 50_000);
    const own = { kind: 'segment', partition: 0, session: 1, plan: 1, attempt: 1, part: 0 } as const;
    await over.holding(async (job) => {
      await over.port.plan(job);
      for (const other of [{ plan: 2 }, { session: 2 }, { partition: 3 }, { attempt: 2 }, { kind: 'merged' as const }]) {
        await expect(over.port.commitSeal(job, [{ id: { ...own, ...other }, bytes: 1, crc: 1 }], never), JSON.stringify(other)).rejects.toThrow(/no object of plan/);
      }
      // Its own, but not there.
      await expect(over.port.commitSeal(job, [{ id: own, bytes: 1, crc: 1 }], never)).rejects.toThrow(/missing/);
      await expect(over.port.checkpointed('0000-000001-1', { partition: 0, session: 1, seq: 99, streams: 1, bytes: 1, damaged: 0 })).rejects.toThrow(/no checkpoint/);
      const root = `http://127.0.0.1:${over.proxy.port}/__firn/work/${over.rig.cold.work!.storeId}/plans/${job}`;
      const send = async (what: string, body: string): Promise<number> => (await fetch(`${root}/${what}`, { method: 'POST', headers: { authorization: 'Bearer right' }, body })).status;
      for (const body of ['', '{', '[]', '{"objects":[{"key":"store.json","bytes":1,"crc":1}]}', '{"objects":[],"more":1}', '{"objects":[{"key":"partitions/0000/segments/x","bytes":-1,"crc":1}]}']) expect([body, await send('seal', body)]).toEqual([body, 400]);
      expect(await send('seal', 'x'.repeat(5_000_000))).toBe(413);
      for (const query of ['stream=-1', 'stream=x', 'offset=1e3']) expect((await fetch(`${root}/items?${query}`, { headers: { authorization: 'Bearer right' } })).status).toBe(400);
    });
    expect((await over.rig.head('demo/a')).sealed).toBe(0);
  });
});

describe('workers that stop taking, or leave', () => {
  it('a stalled worker holds a bounded piece of the body, and nothing once it is gone', async () => {
    const over = await Over.start();
    await over.rig.create('demo/long');
    for (let n = 0; n < 30; n++) await over.rig.append('demo/long', randomBytes(2_000_000));
    await over.holding(async (job) => {
      const stalled = Array.from({ length: 4 }, () => over.stall(job));
      await until(() => over.work.bodies === 4);
      // Until nothing moves any more: what has passed lies in buffers of the sockets, and the plan itself has 60 MB for each.
      let passed = -1;
      await until(async () => {
        const before = passed;
        passed = over.proxy.passed;
        await new Promise((resolve) => setTimeout(resolve, 500));
        return passed === before;
      });
      expect(passed).toBeLessThan(4 * 15_000_000);
      for (const socket of stalled) socket.destroy();
      await until(() => over.work.bodies === 0);
    });
  });

  it('tries that fail while their plan is streaming hold no connection, and signs of life go on', async () => {
    const over = await Over.start();
    await fill(over.rig, 4_000_000);
    await over.holding(async (job) => {
      // More than the connections of one worker, and than the bodies of one node.
      for (let n = 0; n < 40; n++) {
        await expect((async () => {
          for await (const item of over.port.planItems(job, PLAN_START, never)) throw new Error(`no room for ${item.kind}`);
        })()).rejects.toThrow('no room for block');
      }
      expect(await over.port.alive(job)).toBe(true);
      await until(() => over.work.bodies === 0);
    });
  });

  it('as many plans as a worker reads at a time leave connections for signs of life', async () => {
    const over = await Over.start();
    await fill(over.rig, 4_000_000);
    await over.holding(async (job) => {
      const reading = Array.from({ length: 2 * 12 }, () => over.port.planItems(job, PLAN_START, new AbortController().signal)[Symbol.asyncIterator]());
      for (const items of reading) expect((await items.next()).done).toBe(false);
      expect(await over.port.alive(job)).toBe(true);
      for (const items of reading) await items.return?.(undefined);
      await until(() => over.work.bodies === 0);
    });
  });

  it('more jobs of several workers than a node serves at a time wait for their turn longer than for a node that is away, and none fails (I11)', { timeout: 60_000 }, async () => {
    const over = await Over.start({}, { bodiesMax: 3 });
    await fill(over.rig, STALLING_BYTES);
    await over.holding(async (job) => {
      const end = { stream: 2, offset: (STALLING_BYTES - 300_000) as Offset };
      const read = async (port: NodePort): Promise<string[]> => contents(await all(port.planItems(job, end, new AbortController().signal)));
      const whole = await read(over.rig.cold.port);
      const stalled = Array.from({ length: 3 }, () => over.stall(job));
      await until(() => over.work.bodies === 3);
      const workers = [over.port, over.client(), over.client()];
      let most = 0;
      const watch = setInterval(() => (most = Math.max(most, over.work.bodies)), 5);
      const reading = Promise.all(workers.flatMap((port) => Array.from({ length: 12 }, () => read(port))));
      await new Promise((resolve) => setTimeout(resolve, AWAY_MS_MAX * 2));
      for (const socket of stalled) socket.destroy();
      expect(await reading).toEqual(Array.from({ length: 36 }, () => whole));
      clearInterval(watch);
      expect(most).toBe(3);
    });
  });

  it('a seal and an offload wait for their turn at their first try', { timeout: 60_000 }, async () => {
    const over = await Over.start({}, { bodiesMax: 1 });
    over.workOver();
    await fill(over.rig, STALLING_BYTES);
    const { seal } = over.handlers;
    over.handlers = { ...over.handlers, seal: async (job, signal) => {
      const stalled = over.stall(job);
      await until(() => over.work.bodies === 1);
      void over.rig.snapshot('demo/c', STALLING_BYTES, randomBytes(3_000_000));
      setTimeout(() => stalled.destroy(), AWAY_MS_MAX * 2);
      return seal(job, signal);
    } };
    const began = performance.now();
    await over.rig.seal();
    await until(async () => (await over.rig.head('demo/c')).snapshot?.cold?.at === 'object');
    expect(performance.now() - began).toBeGreaterThan(AWAY_MS_MAX);
    expect(await over.rig.head('demo/a')).toMatchObject({ sealed: STALLING_BYTES });
    expect(await over.metrics.text()).toContain('firn_job_failures_total 0');
  });

  it('a try that is over leaves no body open, whatever its work left unread', async () => {
    const over = await Over.start();
    await fill(over.rig, 4_000_000);
    await over.holding(async (job) => {
      await runTry(over.port, job, 'seal', never, async (_head, signal) => {
        await over.port.planItems(job, PLAN_START, signal)[Symbol.asyncIterator]().next();
        expect(over.work.bodies).toBe(1);
      });
      await until(() => over.work.bodies === 0);
      expect(await over.port.alive(job)).toBe(true);
    });
  });

  it('a plan is read by nobody any more once its worker left, also before its first item; HEAD reads none', async () => {
    const over = await Over.start();
    await fill(over.rig, 50_000);
    const { port } = over.rig.cold;
    const planItems = port.planItems.bind(port);
    let [open, begun] = [0, 0];
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => { go = resolve; });
    vi.spyOn(port, 'planItems').mockImplementation(async function* (...args) {
      begun++;
      open++;
      try {
        await gate;
        yield* planItems(...args);
      } finally {
        open--;
      }
    });
    await over.holding(async (job) => {
      const url = `http://127.0.0.1:${over.proxy.port}/__firn/work/${over.rig.cold.work!.storeId}/plans/${job}`;
      const headers = { authorization: 'Bearer right' };
      for (const what of ['items', 'snapshot']) expect((await fetch(`${url}/${what}`, { method: 'HEAD', headers })).status, what).toBe(405);
      expect([begun, over.work.bodies]).toEqual([0, 0]);
      const left = new AbortController();
      const asked = fetch(`${url}/items`, { headers, signal: left.signal });
      await until(() => open === 1);
      left.abort();
      await expect(asked).rejects.toThrow();
      // Until the node has heard of it.
      await new Promise((resolve) => setTimeout(resolve, 200));
      go();
      await until(() => open === 0 && over.work.bodies === 0);
    });
  });

  it('a commit goes on when its worker leaves in the middle', async () => {
    let reached: () => void = () => undefined;
    const arrived = new Promise<void>((resolve) => { reached = resolve; });
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => { open = resolve; });
    const over = await Over.start({}, { steps: async (name) => {
      if (name !== 'seal:uploaded') return;
      reached();
      await gate;
    } });
    over.workOver();
    await fill(over.rig, 50_000);
    const sealing = over.rig.seal();
    await arrived;
    await over.port.close();
    open();
    await sealing;
    expect((await over.rig.head('demo/a')).sealed).toBe(50_000);
    expect(over.rig.objects.puts.filter((key) => key.includes('/segments/'))).toHaveLength(1);
  });

  it('what workers ask of the object store is counted at the node, once, and told again when the node was away', async () => {
    const over = await Over.start();
    const tally = new StoreTally();
    const store = new MeasuredStore(over.rig.objects, tally);
    const reports = new TrafficReports(tally, (traffic) => over.port.traffic(traffic));
    await store.putOnce('partitions/0/segments/x', Buffer.alloc(1_000));
    await store.get('partitions/0/segments/x', { from: 0, length: 300 });
    over.proxy.cutAfter = 1;
    await reports.report();
    await reports.report();
    await store.get('partitions/0/segments/x', { from: 0, length: 45 });
    await reports.end();
    expect(tally.take()).toBeNull();
    const text = await over.metrics.text();
    // The cut answer was one that the node had counted: about is what a lost answer costs.
    for (const line of ['firn_worker_store_requests_total{op="put",outcome="ok"} 2', 'firn_worker_store_requests_total{op="get",outcome="ok"} 3', 'firn_worker_store_bytes_total{direction="read"} 645']) expect(text).toContain(line);
    expect(text).toContain('firn_store_requests_total{op="put",outcome="ok"} 0');
    const odd = await fetch(`http://127.0.0.1:${over.proxy.port}/__firn/work/${over.rig.cold.work!.storeId}/traffic`, { method: 'POST', headers: { authorization: 'Bearer right' }, body: '{"requests":[{"op":"put","outcome":"ok","count":-1}],"written":0,"read":0,"retries":0,"hedges":0}' });
    expect(odd.status).toBe(400);
  });

  it.each(['items', 'snapshot'])('the stop of a node ends a body that is being opened: %s', async (what) => {
    const over = await Over.start({ hotKeepMs: 0 });
    await fill(over.rig, 4_000_000);
    const { port } = over.rig.cold;
    let asked: () => void = () => undefined;
    const opening = new Promise<void>((resolve) => { asked = resolve; });
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => { go = resolve; });
    // They do not look at the signal themselves, or looked just before it fired.
    const [planItems, snapshot] = [port.planItems.bind(port), port.snapshot.bind(port)];
    vi.spyOn(port, 'planItems').mockImplementation(async function* (job, from) {
      asked();
      await gate;
      yield* planItems(job, from, never);
    });
    vi.spyOn(port, 'snapshot').mockImplementation(async (job, _signal, from) => {
      asked();
      await gate;
      return snapshot(job, never, from);
    });
    const work = async (job: string): Promise<void> => {
      const socket = over.stall(job, what);
      await opening;
      over.work.end();
      go();
      await until(() => over.work.bodies === 0);
      socket.resume();
      let answer = '';
      for await (const piece of socket.setEncoding('utf8')) {
        answer += piece as string;
        if (answer.includes('NO_WORK')) break;
      }
      expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    };
    if (what === 'items') return over.holding(work);
    const done = new Promise<void>((resolve, reject) => {
      over.handlers = { ...over.handlers, offload: (job) => work(job).then(resolve, reject) };
    });
    await over.rig.snapshot('demo/c', 4_000_000, randomBytes(30_000_000));
    await done;
  });

  it('the stop of a node does not wait for bodies under way', async () => {
    const over = await Over.start();
    await over.rig.create('demo/long');
    for (let n = 0; n < 10; n++) await over.rig.append('demo/long', randomBytes(2_000_000));
    await over.holding(async (job) => {
      const items = over.port.planItems(job, PLAN_START, never)[Symbol.asyncIterator]();
      await items.next();
      expect(over.work.bodies).toBe(1);
      over.work.end();
      await until(() => over.work.bodies === 0);
      // The node is gone for good: after a while the worker gives up.
      await expect((async () => {
        while ((await items.next()).done !== true);
      })()).rejects.toThrow(/503/);
    });
  }, 30_000);
});
