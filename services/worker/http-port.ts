/**
 * The way of a worker to its node: the admin listener.
 *
 * Owns: the connections, and going on after one was lost. Promises: a body that was cut goes on behind its last whole item or byte, from the same plan; a node that is
 * away for a while is waited for, within stated limits; back-pressure reaches the node; what the node says of a try that is over is `PlanGone`, as in its own process.
 */
import { Agent, request, type Dispatcher } from 'undici';
import type { z } from 'zod';
import { decodeBlockSpan } from '../../shared/storage/block.js';
import type { StoreTraffic } from '../../shared/storage/measured-store.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';
import type { ObjectInfo, SnapshotObjectRef } from '../../shared/storage/records/types.js';
import { withSignal } from '../../shared/time/joined-signal.js';
import {
  aliveAnswer, BUSY_CODE, checkpointMessage, collectChoice, collectMessage, collectPlans, collectVerdict, CRC_HEADER, deliveryTry, logPosition, MESSAGE_BYTES_MAX, nodeInfo, planHead, positionQuery, WORK_ROOT, writeOffload, writeSeal,
  type NodeInfo,
} from './messages.js';
import {
  PlanGone, type CheckpointReport, type CollectChoice, type CollectPlans, type CollectReport, type CollectVerdict, type DeliveryOutcome, type DeliveryTry, type NodePort, type PlanHead, type PlanItem, type PlanPosition, type PlanSource,
  type SnapshotSource,
} from './node-port.js';
import { decodePlanStream, decodeSourceStream } from './plan-stream.js';
import { Retrier, type Retry } from './retrier.js';

/** Longest wait for an answer to something small, ms. */
const ANSWER_MS_MAX = 15_000;
/** Longest wait for a sign of life to be taken, ms: the next one follows soon. */
const ALIVE_ANSWER_MS_MAX = 5_000;
/** Longest wait until the node has taken what it is told of traffic, ms: a worker that ends does not wait longer for it. */
const TRAFFIC_MS_MAX = 1_000;
/** Longest silence of the node while it has something to send, ms. */
const SILENCE_MS_MAX = 60_000;
/** Longest wait for a commit, ms: the node reads every object back first. */
const COMMIT_MS_MAX = 900_000;
/** A node that is away for so long has given a delivery up, ms. */
const DELIVERY_AWAY_MS_MAX = 5_000;
/** Most connections to the node: each running job has one body and a few short calls. */
const CONNECTIONS_MAX = 32;
/** Most bytes of an answer that is not a body. */
const ANSWER_BYTES_MAX = 65_536;

export interface HttpPortOptions {
  /** Origin of the admin listener. */
  readonly url: string;
  /** null: the listener asks for none. */
  readonly token: string | null;
  readonly objects: ObjectStore;
  /** How long a node that is away is waited for, ms; a job gives up then, and the node starts another try. */
  readonly awayMsMax?: number;
  /** The node does not let this worker in (wrong token), or works for another store by now: nothing will succeed any more. */
  readonly onRefused?: (error: WorkRefused) => void;
}

/** The node does not let this worker work for it. */
export class WorkRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WorkRefused';
  }
}

/** The node answered with an error that stays. */
class CallFailed extends Error {}

/** Asked of the node before anything is known of it. Throws `WorkRefused`; anything else: it is away, or not ready. */
export async function askNode(options: Pick<HttpPortOptions, 'url' | 'token'>, agent: Dispatcher, signal: AbortSignal): Promise<NodeInfo> {
  return small(await send(options, agent, 'GET', '', { signal }), nodeInfo);
}

export class HttpPort implements NodePort {
  readonly objects: ObjectStore;
  readonly #options: HttpPortOptions;
  readonly #root: string;
  readonly #agent = newAgent();
  #closed = false;

  constructor(options: HttpPortOptions, storeId: string) {
    this.#options = options;
    this.#root = `/${encodeURIComponent(storeId)}`;
    this.objects = options.objects;
  }

  async plan(jobId: string): Promise<PlanHead | null> {
    try {
      return await this.#retried(undefined, async () => small(await this.#post(jobId, 'take', {}), planHead));
    } catch (error) {
      if (error instanceof PlanGone) return null;
      throw error;
    }
  }

  async alive(jobId: string): Promise<boolean> {
    return (await small(await this.#post(jobId, 'alive', {}, { headersTimeout: ALIVE_ANSWER_MS_MAX }), aliveAnswer)).wanted;
  }

  planItems(jobId: string, from: PlanPosition, signal: AbortSignal): AsyncGenerator<PlanItem> {
    return this.#pieces(jobId, from, (at) => `items?${positionQuery(at)}`, decodePlanStream, behind, signal);
  }

  planSources(jobId: string, from: number, signal: AbortSignal): AsyncGenerator<PlanSource> {
    return this.#pieces(jobId, from, (at) => `sources?from=${at}`, decodeSourceStream, ({ source }) => source + 1, signal);
  }

  /** Whole pieces of a body, asked for again behind the last one when it was cut. */
  async *#pieces<T, At>(jobId: string, from: At, pathAt: (at: At) => string, decode: (body: AsyncIterable<Uint8Array>) => AsyncIterable<T>, behindOf: (piece: T) => At, signal: AbortSignal): AsyncGenerator<T> {
    const retrier = this.#retrier(signal);
    for (let at = from; ; ) {
      try {
        const answer = await this.#send(jobId, 'GET', pathAt(at), { signal, headersTimeout: SILENCE_MS_MAX, bodyTimeout: SILENCE_MS_MAX });
        for await (const piece of decode(answer.body)) {
          // First, and whoever took the piece may do with it what they like; one that cannot be read is given to nobody.
          at = behindOf(piece);
          yield piece;
          retrier.progress();
        }
        return;
      } catch (error) {
        await retrier.wait(error);
      }
    }
  }

  async snapshot(jobId: string, signal: AbortSignal): Promise<SnapshotSource> {
    const open = async (from: number): Promise<Dispatcher.ResponseData> =>
      this.#send(jobId, 'GET', 'snapshot', { signal, headers: { range: `bytes=${from}-` }, headersTimeout: SILENCE_MS_MAX, bodyTimeout: SILENCE_MS_MAX });
    const answer = await this.#retried(signal, () => open(0));
    const bytes = Number(/^bytes \d+-\d+\/(\d+)$/.exec(headerOf(answer, 'content-range'))?.[1]);
    const crc = Number.parseInt(headerOf(answer, CRC_HEADER), 16);
    if (!Number.isSafeInteger(bytes) || !Number.isSafeInteger(crc)) {
      answer.body.on('error', () => undefined).destroy();
      throw new CallFailed('the node does not say what the snapshot is');
    }
    return { bytes, crc, body: this.#body(answer, bytes, open, signal) };
  }

  async *#body(first: Dispatcher.ResponseData, bytes: number, open: (from: number) => Promise<Dispatcher.ResponseData>, signal: AbortSignal): AsyncGenerator<Buffer> {
    const retrier = this.#retrier(signal);
    let answer: Dispatcher.ResponseData | null = first;
    for (let at = 0; at < bytes; ) {
      try {
        answer ??= await open(at);
        for await (const piece of answer.body as AsyncIterable<Buffer>) {
          at += piece.length;
          yield piece;
          retrier.progress();
        }
        if (at < bytes) throw new Error(`the body ended at ${at} of ${bytes}`);
      } catch (error) {
        answer = null;
        await retrier.wait(error);
      }
    }
  }

  commitSeal(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void> {
    return this.#tell(jobId, 'seal', writeSeal(objects), signal, COMMIT_MS_MAX);
  }

  commitCompact(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void> {
    return this.#tell(jobId, 'compact', writeSeal(objects), signal, COMMIT_MS_MAX);
  }

  commitOffload(jobId: string, ref: SnapshotObjectRef, signal: AbortSignal): Promise<void> {
    return this.#tell(jobId, 'offload', writeOffload(ref), signal, COMMIT_MS_MAX);
  }

  failed(jobId: string, why: string): Promise<void> {
    return this.#tell(jobId, 'failed', { why: why.slice(0, 1_000) });
  }

  logPosition(partition: number): Promise<{ readonly session: number; readonly seq: number }> {
    return this.#retried(undefined, async () => small(await this.#call('GET', `${this.#root}/log/${partition}`, {}), logPosition));
  }

  checkpointed(jobId: string, report: CheckpointReport): Promise<void> {
    return this.#tell(jobId, 'checkpointed', checkpointMessage.parse(report));
  }

  collectPlans(jobId: string): Promise<CollectPlans> {
    return this.#retried(undefined, async () => small(await this.#send(jobId, 'GET', 'collect', {}), collectPlans));
  }

  /** Asked again when the answer was lost: what was free then is free still, or found again by the next run. */
  collect(jobId: string, choice: CollectChoice): Promise<CollectVerdict> {
    return this.#retried(undefined, async () => small(await this.#post(jobId, 'collect', collectChoice.parse(choice), { headersTimeout: COMMIT_MS_MAX }), collectVerdict));
  }

  collected(jobId: string, report: CollectReport): Promise<void> {
    return this.#tell(jobId, 'collected', collectMessage.parse(report));
  }

  /** Not asked twice: what nobody took up is made by the node itself before long. */
  async delivery(jobId: string): Promise<DeliveryTry | null> {
    try {
      return await small(await this.#call('POST', `${this.#root}/deliveries/${encodeURIComponent(jobId)}/take`, { body: '{}' }), deliveryTry, MESSAGE_BYTES_MAX);
    } catch (error) {
      if (error instanceof Gone) return null;
      throw error;
    }
  }

  delivered(jobId: string, run: number, outcome: DeliveryOutcome): Promise<void> {
    const body = JSON.stringify({ run, outcome: outcome.kind === 'failed' ? { kind: 'failed', why: outcome.why.slice(0, 1_000) } : outcome });
    return this.#retried(undefined, async () => drain(await this.#call('POST', `${this.#root}/deliveries/${encodeURIComponent(jobId)}/outcome`, { body })), DELIVERY_AWAY_MS_MAX);
  }

  /** Tells what this worker asked of the object store. Rejects when the node did not take it in time. */
  traffic(traffic: StoreTraffic): Promise<void> {
    return withSignal([], TRAFFIC_MS_MAX, async (signal) => drain(await this.#call('POST', `${this.#root}/traffic`, { body: JSON.stringify(traffic), signal })));
  }

  /** Ends every connection: what is under way fails. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#agent.destroy();
  }

  /** Told again when the answer was lost: a commit that was made by then is a plan that is gone, which is no failure. */
  #tell(jobId: string, what: string, message: object, signal?: AbortSignal, headersTimeout?: number): Promise<void> {
    return this.#retried(signal, async () => {
      await drain(await this.#post(jobId, what, message, { signal, headersTimeout }));
    });
  }

  #post(jobId: string, what: string, message: object, options: SendOptions = {}): Promise<Dispatcher.ResponseData> {
    return this.#send(jobId, 'POST', what, { ...options, body: JSON.stringify(message) });
  }

  async #send(jobId: string, method: 'GET' | 'POST', what: string, options: SendOptions): Promise<Dispatcher.ResponseData> {
    try {
      return await this.#call(method, `${this.#root}/plans/${encodeURIComponent(jobId)}/${what}`, options);
    } catch (error) {
      if (error instanceof Gone) throw new PlanGone(jobId);
      throw error;
    }
  }

  async #call(method: 'GET' | 'POST', path: string, options: SendOptions): Promise<Dispatcher.ResponseData> {
    try {
      return await send(this.#options, this.#agent, method, path, options);
    } catch (error) {
      if (error instanceof WorkRefused) this.#options.onRefused?.(error);
      throw error;
    }
  }

  async #retried<T>(signal: AbortSignal | undefined, work: () => Promise<T>, awayMsMax = this.#options.awayMsMax): Promise<T> {
    const retrier = this.#retrier(signal, awayMsMax);
    for (;;) {
      try {
        return await work();
      } catch (error) {
        await retrier.wait(error);
      }
    }
  }

  #retrier(signal: AbortSignal | undefined, awayMsMax = this.#options.awayMsMax): Retrier {
    return new Retrier((error) => (this.#closed ? 'never' : retryOf(error)), signal, awayMsMax);
  }
}

/** Connections to one node. */
export function newAgent(): Agent {
  return new Agent({ connections: CONNECTIONS_MAX, pipelining: 1, connect: { timeout: ANSWER_MS_MAX } });
}

/** Where a reader stands behind an item. */
function behind(item: PlanItem): PlanPosition {
  return item.kind === 'block' ? { stream: item.stream, offset: decodeBlockSpan(item.block).end } : { stream: item.stream + 1, offset: 0 as PlanPosition['offset'] };
}

/** Lost connections, bytes that were altered on the way, a node that restarts: the same may succeed later. */
function retryOf(error: unknown): Retry {
  if (error instanceof PlanGone || error instanceof Gone || error instanceof WorkRefused || error instanceof CallFailed) return 'never';
  return error instanceof Busy ? 'turn' : 'again';
}

interface SendOptions {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly headersTimeout?: number;
  readonly bodyTimeout?: number;
}

/** The node says that what was named is not there any more. */
class Gone extends Error {}

/** The node serves as many workers as it can. */
class Busy extends Error {}

/** One request. Throws `Gone`, `Busy`, `WorkRefused`, `CallFailed`; anything else may pass. */
async function send({ url, token }: Pick<HttpPortOptions, 'url' | 'token'>, dispatcher: Dispatcher, method: 'GET' | 'POST', path: string, options: SendOptions): Promise<Dispatcher.ResponseData> {
  const headers = { ...options.headers, ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...(options.body === undefined ? {} : { 'content-type': 'application/json' }) };
  const { body, signal, headersTimeout = ANSWER_MS_MAX, bodyTimeout = ANSWER_MS_MAX } = options;
  const answer = await request(`${url}${WORK_ROOT}${path}`, { dispatcher, method, headers, body, signal, headersTimeout, bodyTimeout });
  const { statusCode } = answer;
  if (statusCode === 200 || statusCode === 206) return answer;
  const said = `${method} ${WORK_ROOT}: ${statusCode} ${await textOf(answer)}`;
  if (statusCode === 410) throw new Gone(said);
  if (statusCode === 401 || statusCode === 403 || statusCode === 409) throw new WorkRefused(said);
  if (statusCode === 503) throw said.includes(BUSY_CODE) ? new Busy(said) : new Error(said);
  throw new CallFailed(said);
}

function headerOf(answer: Dispatcher.ResponseData, name: string): string {
  const value = answer.headers[name];
  return typeof value === 'string' ? value : '';
}

async function textOf(answer: Dispatcher.ResponseData, bytesMax = ANSWER_BYTES_MAX): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of answer.body as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > bytesMax) throw new CallFailed(`an answer of more than ${bytesMax} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

async function drain(answer: Dispatcher.ResponseData): Promise<void> {
  await textOf(answer);
}

/** An answer of a known shape. */
async function small<T>(answer: Dispatcher.ResponseData, shape: z.ZodType<T>, bytesMax?: number): Promise<T> {
  const text = await textOf(answer, bytesMax);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new CallFailed(`the node answered ${JSON.stringify(text.slice(0, 200))}`);
  }
  const parsed = shape.safeParse(json);
  if (!parsed.success) throw new CallFailed(`the node answered ${text.slice(0, 200)}`);
  return parsed.data;
}
