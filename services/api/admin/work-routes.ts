/**
 * The node's side of workers elsewhere: `/__firn/work/…` (architecture sections 3 and 9).
 *
 * Owns: routes, bodies and limits of what workers ask and bring back; what it means is the port's business, the same as for handlers in the node's own process. Promises:
 * a worker of another store gets 409 and nothing else; bodies have back-pressure, and one that nobody takes or whose worker is gone frees what it holds; a commit goes on
 * when its worker leaves, so that no finished upload is wasted.
 */
import { setMaxListeners } from 'node:events';
import { Readable } from 'node:stream';
import type Router from '@koa/router';
import type { Context } from 'koa';
import type { z } from 'zod';
import {
  aliveAnswer, BUSY_CODE, checkpointMessage, collectChoice, collectMessage, CRC_HEADER, failedMessage, MESSAGE_BYTES_MAX, offloadMessage, outcomeMessage, parsePosition, PLAN_STREAM_TYPE, sealMessage, trafficMessage, WORK_ROOT,
  WORK_VERSION, writeDelivery,
} from '../../worker/messages.js';
import { PlanGone } from '../../worker/node-port.js';
import { encodePlanStream } from '../../worker/plan-stream.js';
import type { WorkSide } from '../cold/types.js';
import { addTraffic, type StoreMeter } from '../../../shared/storage/measured-store.js';
import { JoinedSignal, withSignal } from '../../../shared/time/joined-signal.js';
import { AdminRefusal } from './refusal.js';

/** Bytes of one body that wait in memory for its worker. */
const BODY_BUFFER_BYTES = 1_048_576;
/** Bodies under way at most: workers that ask for more are told so, and come again until it is their turn. */
const BODIES_MAX = 32;
/** Longest time for a message to arrive, ms. */
const MESSAGE_MS_MAX = 15_000;
/** Longest time for a commit, ms. */
const COMMIT_MS_MAX = 900_000;

/** Characters of a wrong value that its refusal repeats. */
const VALUE_CHARS_MAX = 100;

const RANGE = /^bytes=(\d{1,15})-$/;

export class WorkRoutes {
  readonly #side: () => WorkSide | null;
  readonly #meter: StoreMeter;
  readonly #bodiesMax: number;
  readonly #stop = new AbortController();
  #bodies = 0;

  /** `side`: null without a store, or before it is known. `meter`: what workers ask of the object store. `bodiesMax`: fewer bodies at a time, for tests. */
  constructor(side: () => WorkSide | null, meter: StoreMeter, bodiesMax = BODIES_MAX) {
    this.#side = side;
    this.#meter = meter;
    this.#bodiesMax = bodiesMax;
    setMaxListeners(bodiesMax, this.#stop.signal);
  }

  /** The node is closing: bodies under way are cut, their workers go on elsewhere or later. */
  end(): void {
    this.#stop.abort(new Error('the node is stopping'));
  }

  /** Bodies that are being sent now. */
  get bodies(): number {
    return this.#bodies;
  }

  mount(router: Router): void {
    const at = `${WORK_ROOT}/:store`;
    router.get(WORK_ROOT, (ctx) => {
      ctx.body = { version: WORK_VERSION, storeId: this.#known().storeId };
    });
    router.get(`${at}/log/:partition`, async (ctx) => {
      const partition = ctx.params['partition'] as string;
      if (!/^\d{1,4}$/.test(partition)) throw invalid('partition', partition, 'the number of a partition');
      ctx.body = await this.#own(ctx).logPosition(Number(partition));
    });
    router.post(`${at}/traffic`, (ctx) => this.#take(ctx, trafficMessage, async (traffic) => addTraffic(this.#meter, traffic)));
    const delivery = `${at}/deliveries/:job`;
    router.post(`${delivery}/take`, async (ctx) => {
      const found = await this.#own(ctx).delivery(jobOf(ctx));
      if (found === null) throw new AdminRefusal(410, 'DELIVERY_GONE', 'nobody waits for this delivery any more');
      ctx.body = writeDelivery(found);
    });
    router.post(`${delivery}/outcome`, (ctx) => this.#take(ctx, outcomeMessage, ({ run, outcome }, port, job) => port.delivered(job, run, outcome)));
    const plan = `${at}/plans/:job`;
    router.post(`${plan}/take`, (ctx) => gone(async () => {
      const head = await this.#own(ctx).plan(jobOf(ctx));
      if (head === null) throw new PlanGone(jobOf(ctx));
      ctx.body = head;
    }));
    router.get(`${plan}/items`, (ctx) => gone(() => this.#items(ctx)));
    router.get(`${plan}/sources`, (ctx) => gone(() => this.#sources(ctx)));
    router.get(`${plan}/snapshot`, (ctx) => gone(() => this.#snapshot(ctx)));
    router.post(`${plan}/alive`, (ctx) => gone(async () => {
      ctx.body = aliveAnswer.parse({ wanted: await this.#own(ctx).alive(jobOf(ctx)) });
    }));
    router.post(`${plan}/seal`, (ctx) => this.#take(ctx, sealMessage, ({ objects }, port, job, signal) => port.commitSeal(job, objects, signal)));
    router.post(`${plan}/compact`, (ctx) => this.#take(ctx, sealMessage, ({ objects }, port, job, signal) => port.commitCompact(job, objects, signal)));
    router.post(`${plan}/offload`, (ctx) => this.#take(ctx, offloadMessage, (ref, port, job, signal) => port.commitOffload(job, ref, signal)));
    router.post(`${plan}/failed`, (ctx) => this.#take(ctx, failedMessage, ({ why }, port, job) => port.failed(job, why)));
    router.get(`${plan}/collect`, (ctx) => gone(async () => {
      ctx.body = await this.#own(ctx).collectPlans(jobOf(ctx));
    }));
    router.post(`${plan}/collect`, (ctx) => this.#take(ctx, collectChoice, (choice, port, job) => port.collect(job, choice)));
    router.post(`${plan}/collected`, (ctx) => this.#take(ctx, collectMessage, (report, port, job) => port.collected(job, report)));
    router.post(`${plan}/checkpointed`, (ctx) => this.#take(ctx, checkpointMessage, (report, port, job) => port.checkpointed(job, report)));
  }

  #known(): WorkSide {
    const side = this.#side();
    if (side === null || this.#stop.signal.aborted) throw noWork();
    return side;
  }

  /** The port, for workers of this very store. */
  #own(ctx: Context): WorkSide['port'] {
    const { storeId, port } = this.#known();
    if (ctx.params['store'] !== storeId) throw new AdminRefusal(409, 'ANOTHER_STORE', `this node belongs to store ${storeId}, the worker to another one`);
    return port;
  }

  /** Takes a message and does what it says; the answer means that it is done, and holds what came of it, if anything did. */
  #take<T>(ctx: Context, shape: z.ZodType<T>, work: (message: T, port: WorkSide['port'], job: string, signal: AbortSignal) => Promise<object | void>): Promise<void> {
    return gone(async () => {
      const port = this.#own(ctx);
      const message = shape.safeParse(await readJson(ctx));
      if (!message.success) throw new AdminRefusal(400, 'INVALID_REQUEST', `this is no message of a worker: ${wrongIn(message.error)}`);
      ctx.body = (await withSignal([], COMMIT_MS_MAX, (signal) => work(message.data, port, jobOf(ctx), signal))) ?? {};
    });
  }

  async #items(ctx: Context): Promise<void> {
    const from = parsePosition(new URLSearchParams(ctx.querystring));
    if (from === null) throw invalid('position', ctx.querystring, 'stream and offset, each a whole number');
    const port = this.#own(ctx);
    await this.#send(ctx, PLAN_STREAM_TYPE, (signal) => begun(encodePlanStream(port.planItems(jobOf(ctx), from, signal))));
  }

  async #sources(ctx: Context): Promise<void> {
    const from = new URLSearchParams(ctx.querystring).get('from') ?? '0';
    if (!/^\d{1,9}$/.test(from)) throw invalid('from', from, 'the number of a source');
    const port = this.#own(ctx);
    await this.#send(ctx, PLAN_STREAM_TYPE, (signal) => begun(encodePlanStream(port.planSources(jobOf(ctx), Number(from), signal))));
  }

  async #snapshot(ctx: Context): Promise<void> {
    const range = RANGE.exec(ctx.get('range') || 'bytes=0-');
    if (range === null) throw invalid('range', ctx.get('range'), 'bytes={from}-');
    const from = Number(range[1]);
    const port = this.#own(ctx);
    await this.#send(ctx, 'application/octet-stream', async (signal) => {
      const { bytes, crc, body } = await port.snapshot(jobOf(ctx), signal, from);
      if (from >= bytes) throw new AdminRefusal(416, 'RANGE_NOT_SATISFIABLE', `the body has ${bytes} bytes`);
      ctx.status = 206;
      ctx.set('Content-Range', `bytes ${from}-${bytes - 1}/${bytes}`);
      ctx.set(CRC_HEADER, crc.toString(16).padStart(8, '0'));
      ctx.length = bytes - from;
      return body;
    });
  }

  /** Answers with a body as fast as it is taken. It ends with its connection, and at the stop of the node. */
  async #send(ctx: Context, type: string, open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>): Promise<void> {
    if (ctx.method === 'HEAD') throw new AdminRefusal(405, 'METHOD_NOT_ALLOWED', 'a body of this route is opened only for who takes it', { Allow: 'GET' });
    if (this.#bodies >= this.#bodiesMax) throw new AdminRefusal(503, BUSY_CODE, 'as many workers as this node serves at a time are reading', { 'Retry-After': '1' });
    // What ends the body is heard of from the first moment, also while it is being opened.
    const ended = new JoinedSignal([this.#stop.signal]);
    this.#bodies++;
    try {
      const body = Readable.from(await open(ended.signal), { objectMode: false, highWaterMark: BODY_BUFFER_BYTES });
      // Whoever pipes it hears of errors; between here and there nobody does.
      body.on('error', () => undefined);
      if (ended.signal.aborted) {
        body.destroy();
        throw ended.signal.reason;
      }
      ended.signal.addEventListener('abort', () => body.destroy(ended.signal.reason as Error), { once: true });
      body.once('close', () => this.#over(ended));
      ctx.type = type;
      ctx.body = body;
    } catch (error) {
      const stopping = ended.signal.aborted;
      this.#over(ended);
      throw stopping ? noWork() : error;
    }
  }

  #over(ended: JoinedSignal): void {
    this.#bodies--;
    ended.abort(new Error('the worker left'));
  }
}

function noWork(): AdminRefusal {
  return new AdminRefusal(503, 'NO_WORK', 'this node has no work to give: it has no cold tier, does not know its store yet, or is closing', { 'Retry-After': '1' });
}

/** Where the first fault of a message is, and what was expected there. */
function wrongIn({ issues: [issue] }: z.ZodError): string {
  return issue === undefined ? 'it has another shape' : `${issue.path.join('.') || 'the whole'}: ${issue.message}`;
}

function jobOf(ctx: Context): string {
  return ctx.params['job'] as string;
}

function invalid(what: string, value: string, allowed: string): AdminRefusal {
  return new AdminRefusal(400, 'INVALID_REQUEST', `${what} is ${JSON.stringify(value.slice(0, VALUE_CHARS_MAX))}, allowed is ${allowed}`);
}

/** What names a plan that is over is answered with 410. */
async function gone(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof PlanGone) throw new AdminRefusal(410, 'PLAN_GONE', error.message);
    throw error;
  }
}

/** The same pieces, with the first one read: what is wrong from the start becomes a status. No generator: the end of one that was never asked would not reach `pieces`. */
async function begun(pieces: AsyncGenerator<Buffer>): Promise<AsyncIterable<Buffer>> {
  let first: IteratorResult<Buffer> | null = await pieces.next();
  const next = async (): Promise<IteratorResult<Buffer>> => {
    const given = first ?? (await pieces.next());
    first = null;
    return given;
  };
  return { [Symbol.asyncIterator]: () => ({ next, return: () => pieces.return(undefined) }) };
}

/** The JSON body of a request. */
async function readJson(ctx: Context): Promise<unknown> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  const late = setTimeout(() => ctx.req.destroy(new Error('too slow')), MESSAGE_MS_MAX);
  try {
    for await (const piece of ctx.req) {
      bytes += (piece as Buffer).length;
      if (bytes > MESSAGE_BYTES_MAX) throw new AdminRefusal(413, 'REQUEST_TOO_LARGE', `a message has at most ${MESSAGE_BYTES_MAX} bytes`, { Connection: 'close' });
      pieces.push(piece as Buffer);
    }
  } finally {
    clearTimeout(late);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString('utf8'));
  } catch {
    throw new AdminRefusal(400, 'INVALID_REQUEST', 'this is no JSON');
  }
}
