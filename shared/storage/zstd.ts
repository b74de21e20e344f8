/**
 * zstd, in a thread of its own for what takes long and in place for what does not.
 *
 * Owns: the thread and the memory through which it is given its input. Promises: `decompress` gives exactly the length that was asked for or throws `BadBytes`, and
 * takes no more memory than that, whatever the bytes say (I9, I11); a failure is that of one input, whatever went to the thread together; the native library, whose state is one per
 * process, is called by that one thread alone.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker, isMainThread } from 'node:worker_threads';
import { BadBytes } from './codec.js';
import { layDown, lengthOf } from './pieces.js';
import { ZSTD_LEVEL, decompressNow, shrinkNow } from './zstd-in-place.js';
import { compressesQuickly } from './zstd-sample.js';

export { compressNow, decompressNow } from './zstd-in-place.js';

/** Most bytes on either side of one call. */
export const ZSTD_BYTES_MAX = 2_097_152;
/** Up to here input is compressed, compressed bytes are decompressed in place: handing them over costs more than the work, which is some 2 and 10 ns a byte. */
const COMPRESS_IN_PLACE_BYTES_MAX = 16_384;
const DECOMPRESS_IN_PLACE_BYTES_MAX = 4_096;
/** What waits goes to the thread together, up to so many bytes on the longer side; or alone, if it is longer. */
const BATCH_BYTES_MAX = 524_288;
/** One batch is worked at while the next one lies ready. Further callers wait, holding nothing but their own input. */
const BATCHES = 2;

/** A piece of work that waits for the thread, or is there. */
interface Task {
  readonly input: readonly Buffer[];
  readonly inputBytes: number;
  /** Length of the result, null: compress. */
  readonly rawBytes: number | null;
  readonly resolve: (result: Buffer | null) => void;
  readonly reject: (error: Error) => void;
}

/** The same, as the thread is told: its input lies at `at` in the memory of the batch. */
interface Job {
  readonly at: number;
  readonly bytes: number;
  readonly rawBytes: number | null;
}

interface Answer {
  readonly batch: number;
  /** For each job: its result, null for input that does not shrink, or what is wrong with it. */
  readonly results: readonly (Uint8Array | null | string)[];
}

/**
 * In the thread: JavaScript as text, so that it runs the same compiled, from source and in tests. The library wants room for one byte more than there is. A result is handed over
 * when nothing else lies in its memory.
 */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
import(workerData.library).then(({ _NapiBindings: native }) => {
  const work = (input, rawBytes) => {
    const result = rawBytes === null ? native.compress(input, workerData.level) : native.decompress(input, rawBytes + 1);
    if (rawBytes === null && result.length >= input.length) return null;
    return result.length === result.buffer.byteLength ? result : new Uint8Array(result);
  };
  parentPort.on('message', ({ batch, jobs }) => {
    const results = jobs.map(({ at, bytes, rawBytes }) => {
      try {
        return work(Buffer.from(workerData.inputs[batch], at, bytes), rawBytes);
      } catch (error) {
        return String(error && error.message);
      }
    });
    parentPort.postMessage({ batch, results }, results.filter(ArrayBuffer.isView).map((result) => result.buffer));
  });
});
`;

/** The shorter form, at level 3, of input that may come in pieces; null when there is none. Off this thread when it takes long. Throws RangeError beyond `ZSTD_BYTES_MAX`. */
export async function compress(input: readonly Buffer[]): Promise<Buffer | null> {
  const inputBytes = lengthOf(input);
  if (inputBytes > ZSTD_BYTES_MAX) throw new RangeError(`zstd: ${inputBytes} bytes at once`);
  const inPlace = !isMainThread || inputBytes <= COMPRESS_IN_PLACE_BYTES_MAX || compressesQuickly(input, inputBytes);
  return inPlace ? shrinkNow(input, inputBytes) : thread().run(input, inputBytes, null);
}

/** Throws `BadBytes` when `stored` is not zstd of exactly `bytes` bytes. */
export async function decompress(stored: Buffer, bytes: number): Promise<Buffer> {
  if (stored.length > ZSTD_BYTES_MAX || bytes > ZSTD_BYTES_MAX) throw new BadBytes('zstd', `${stored.length} bytes for ${bytes} at once`);
  // Worker threads do without a thread of their own: there is to be one in a process.
  if (!isMainThread || stored.length <= DECOMPRESS_IN_PLACE_BYTES_MAX) return decompressNow(stored, bytes);
  const raw = await thread().run([stored], stored.length, bytes);
  if (raw?.length !== bytes) throw new BadBytes('zstd', `${raw?.length} bytes where ${bytes} were compressed`);
  return raw;
}

/** One worker thread, started at the first need; keeps the process alive only while it works. */
class ZstdThread {
  private worker: Worker | null = null;
  private broken: Error | null = null;
  /** Memory of both sides, one for each batch: what is put there is neither sent nor garbage. */
  private readonly inputs = Array.from({ length: BATCHES }, () => new SharedArrayBuffer(ZSTD_BYTES_MAX));
  /** Tasks of each batch that the thread has; none: it is free. */
  private readonly running: (readonly Task[])[] = Array.from({ length: BATCHES }, () => []);
  private readonly waiting: Task[] = [];

  run(input: readonly Buffer[], inputBytes: number, rawBytes: number | null): Promise<Buffer | null> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ input, inputBytes, rawBytes, resolve, reject });
      this.handOn();
    });
  }

  private handOn(): void {
    for (let batch = 0; batch < BATCHES && this.waiting.length > 0 && this.broken === null; batch++) {
      if (this.running[batch]?.length === 0) this.send(batch);
    }
    if (this.running.some((tasks) => tasks.length > 0)) this.worker?.ref();
    else this.worker?.unref();
  }

  private send(batch: number): void {
    const tasks = this.waiting.splice(0, togetherOf(this.waiting));
    const memory = new Uint8Array(this.inputs[batch] as SharedArrayBuffer);
    const jobs: Job[] = [];
    let end = 0;
    for (const { input, inputBytes, rawBytes } of tasks) {
      jobs.push({ at: end, bytes: inputBytes, rawBytes });
      end = layDown(input, memory, end);
    }
    this.running[batch] = tasks;
    this.worker ??= this.start();
    this.worker.postMessage({ batch, jobs });
  }

  private start(): Worker {
    const library = pathToFileURL(createRequire(import.meta.url).resolve('@cloudpss/zstd/napi')).href;
    const worker = new Worker(THREAD, { eval: true, workerData: { library, level: ZSTD_LEVEL, inputs: this.inputs } });
    worker.on('message', (answer: Answer) => this.settle(answer));
    worker.on('error', (error) => {
      this.broken = error;
    });
    worker.on('exit', (code) => this.gone(code));
    return worker;
  }

  private settle({ batch, results }: Answer): void {
    const tasks = this.running[batch] ?? [];
    if (results.length === 0 || results.length !== tasks.length) throw new Error(`the zstd thread answered ${results.length} of ${tasks.length} jobs`);
    this.running[batch] = [];
    for (const [n, { rawBytes, resolve, reject }] of tasks.entries()) {
      const result = results[n] as Answer['results'][number];
      if (typeof result === 'string') reject(rawBytes === null ? new Error(`zstd: ${result}`) : new BadBytes('zstd', result));
      else resolve(result === null ? null : Buffer.from(result.buffer, result.byteOffset, result.byteLength));
    }
    this.handOn();
  }

  /** The thread has ended: what it had fails, what waited goes to another, which is started now and not before. */
  private gone(code: number): void {
    const error = this.broken ?? new Error(`the zstd thread ended with code ${code}`);
    const lost = this.running.flat();
    this.running.fill([]);
    this.worker = null;
    this.broken = null;
    for (const task of lost) task.reject(error);
    this.handOn();
  }
}

/** How many of the tasks, from the first on, make a batch. */
function togetherOf(waiting: readonly Task[]): number {
  let bytes = 0;
  const over = waiting.findIndex(({ inputBytes, rawBytes }) => (bytes += Math.max(inputBytes, rawBytes ?? 0)) > BATCH_BYTES_MAX);
  return over === -1 ? waiting.length : Math.max(over, 1);
}

/** Shared over copies of this module in one process, as test runners make them. */
const SHARED = Symbol.for('firn.zstd-thread');

function thread(): ZstdThread {
  const shared = globalThis as { [SHARED]?: ZstdThread };
  return (shared[SHARED] ??= new ZstdThread());
}

if (BATCH_BYTES_MAX > ZSTD_BYTES_MAX) throw new Error('a batch does not fit into its memory');
