/**
 * An object store whose calls are counted, whichever kind it is.
 *
 * Owns: what a call and its outcome are called in the metrics. Promises: it changes nothing of what the store does; a body counts when it is through, a part of a stream when it was read.
 */
import { ObjectDamaged, ObjectMissing, StoreRefused, StoreUnavailable, type ByteRange, type ObjectInfoListed, type ObjectStore, type PutOutcome, type UploadSweep } from './object-store.js';
import { lengthOf } from './pieces.js';

export const STORE_OPS = ['put', 'put-large', 'get', 'size', 'list', 'delete', 'sweep'] as const;
export const STORE_OUTCOMES = ['ok', 'exists', 'missing', 'damaged', 'unavailable', 'refused', 'cancelled', 'failed'] as const;
export type StoreOp = (typeof STORE_OPS)[number];
export type StoreOutcome = (typeof STORE_OUTCOMES)[number];

export interface StoreMeter {
  request(op: StoreOp, outcome: StoreOutcome, count?: number): void;
  bytes(direction: 'written' | 'read', bytes: number): void;
  /** A request of a call was made again. */
  retry(count?: number): void;
  /** A second GET was made beside one whose answer was late. */
  hedge(count?: number): void;
}

/** What a store was asked in some time. */
export interface StoreTraffic {
  readonly requests: readonly { readonly op: StoreOp; readonly outcome: StoreOutcome; readonly count: number }[];
  /** Bytes of bodies. */
  readonly written: number;
  readonly read: number;
  readonly retries: number;
  readonly hedges: number;
}

/** Counts until somebody takes the counts: for a process that tells another one. */
export class StoreTally implements StoreMeter {
  #requests = new Map<string, StoreTraffic['requests'][number]>();
  #bytes = { written: 0, read: 0 };
  #retries = 0;
  #hedges = 0;

  request(op: StoreOp, outcome: StoreOutcome, count = 1): void {
    const name = `${op} ${outcome}`;
    this.#requests.set(name, { op, outcome, count: count + (this.#requests.get(name)?.count ?? 0) });
  }

  bytes(direction: 'written' | 'read', bytes: number): void {
    this.#bytes[direction] += bytes;
  }

  retry(count = 1): void {
    this.#retries += count;
  }

  hedge(count = 1): void {
    this.#hedges += count;
  }

  /** What was counted since the last call; null: nothing. */
  take(): StoreTraffic | null {
    const taken: StoreTraffic = { requests: [...this.#requests.values()], ...this.#bytes, retries: this.#retries, hedges: this.#hedges };
    this.#requests = new Map();
    this.#bytes = { written: 0, read: 0 };
    this.#retries = 0;
    this.#hedges = 0;
    return taken.requests.length === 0 && taken.written + taken.read + taken.retries + taken.hedges === 0 ? null : taken;
  }
}

/** Adds traffic to what a meter counted. */
export function addTraffic(meter: StoreMeter, { requests, written, read, retries, hedges }: StoreTraffic): void {
  for (const { op, outcome, count } of requests) meter.request(op, outcome, count);
  meter.bytes('written', written);
  meter.bytes('read', read);
  meter.retry(retries);
  meter.hedge(hedges);
}

export class MeasuredStore implements ObjectStore {
  constructor(
    private readonly inner: ObjectStore,
    private readonly meter: StoreMeter,
  ) {}

  get describe(): string {
    return this.inner.describe;
  }

  async putOnce(key: string, body: Buffer | readonly Buffer[], signal?: AbortSignal): Promise<PutOutcome> {
    const outcome = await this.#counted('put', signal, () => this.inner.putOnce(key, body, signal), (done) => (done === 'created' ? 'ok' : 'exists'));
    const parts: readonly Buffer[] = Buffer.isBuffer(body) ? [body] : body;
    this.meter.bytes('written', lengthOf(parts));
    return outcome;
  }

  async putUnique(key: string, body: AsyncIterable<Buffer>, bytes: number, signal?: AbortSignal): Promise<void> {
    await this.#counted('put-large', signal, () => this.inner.putUnique(key, body, bytes, signal));
    this.meter.bytes('written', bytes);
  }

  async get(key: string, range?: ByteRange, signal?: AbortSignal): Promise<Buffer> {
    const body = await this.#counted('get', signal, () => this.inner.get(key, range, signal));
    this.meter.bytes('read', body.length);
    return body;
  }

  async *stream(key: string, range?: ByteRange, signal?: AbortSignal): AsyncGenerator<Buffer> {
    let outcome: StoreOutcome = 'cancelled';
    try {
      for await (const piece of this.inner.stream(key, range, signal)) {
        this.meter.bytes('read', piece.length);
        yield piece;
      }
      outcome = 'ok';
    } catch (error) {
      outcome = outcomeOf(error, signal);
      throw error;
    } finally {
      this.meter.request('get', outcome);
    }
  }

  size(key: string, signal?: AbortSignal): Promise<number | null> {
    return this.#counted('size', signal, () => this.inner.size(key, signal), (bytes) => (bytes === null ? 'missing' : 'ok'));
  }

  async *list(prefix: string, after?: string): AsyncGenerator<ObjectInfoListed> {
    let outcome: StoreOutcome = 'ok';
    try {
      yield* this.inner.list(prefix, after);
    } catch (error) {
      outcome = outcomeOf(error, undefined);
      throw error;
    } finally {
      this.meter.request('list', outcome);
    }
  }

  delete(key: string): Promise<void> {
    return this.#counted('delete', undefined, () => this.inner.delete(key));
  }

  sweepUploads(sweep: UploadSweep): Promise<number> {
    return this.#counted('sweep', sweep.signal, () => this.inner.sweepUploads(sweep));
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  async #counted<T>(op: StoreOp, signal: AbortSignal | undefined, work: () => Promise<T>, outcomeIs: (result: T) => StoreOutcome = () => 'ok'): Promise<T> {
    try {
      const result = await work();
      this.meter.request(op, outcomeIs(result));
      return result;
    } catch (error) {
      this.meter.request(op, outcomeOf(error, signal));
      throw error;
    }
  }
}

function outcomeOf(error: unknown, signal: AbortSignal | undefined): StoreOutcome {
  if (signal?.aborted === true) return 'cancelled';
  if (error instanceof ObjectMissing) return 'missing';
  if (error instanceof ObjectDamaged) return 'damaged';
  if (error instanceof StoreRefused) return 'refused';
  return error instanceof StoreUnavailable ? 'unavailable' : 'failed';
}
