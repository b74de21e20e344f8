/**
 * zstd, in a thread of its own for what is large and in place for what is small.
 *
 * Owns: the thread and the limit of what it is given at a time. Promises: `decompress` gives exactly the length that was asked for or throws `BadBytes`, and
 * takes no more memory than that, whatever the bytes say (I9, I11); the native library, whose state is one per process, is called by that one thread alone.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker, isMainThread } from 'node:worker_threads';
import { BadBytes } from './codec.js';
import { ZSTD_LEVEL, compressNow, decompressNow } from './zstd-in-place.js';

export { compressNow, decompressNow } from './zstd-in-place.js';

/** Shorter input is done in place: handing it over costs more than the work. */
const IN_PLACE_BYTES_MAX = 8_192;
/** Pieces handed to the thread at a time; further callers wait, holding nothing but their own input. */
const IN_FLIGHT_MAX = 16;

interface Task {
  readonly data: Buffer;
  /** Length of the result, null: compress. */
  readonly bytes: number | null;
  readonly resolve: (result: Buffer) => void;
  readonly reject: (error: Error) => void;
}

interface Answer {
  readonly id: number;
  readonly result?: Uint8Array;
  readonly error?: string;
}

/**
 * In the thread: JavaScript as text, so that it runs the same compiled, from source and in tests. The library wants room for one byte more than there is. A result is copied,
 * since the library's own memory cannot be handed over.
 */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
import(workerData.library).then(({ _NapiBindings: native }) => {
  parentPort.on('message', ({ id, data, bytes }) => {
    try {
      const input = Buffer.from(data.buffer);
      const result = new Uint8Array(bytes === null ? native.compress(input, workerData.level) : native.decompress(input, bytes + 1));
      parentPort.postMessage({ id, result }, [result.buffer]);
    } catch (error) {
      parentPort.postMessage({ id, error: String(error && error.message) });
    }
  });
});
`;

/** At level 3, off this thread when it is long. */
export function compress(raw: Buffer): Promise<Buffer> {
  return inPlace(raw.length) ? attempt(() => compressNow(raw)) : thread().run(raw, null);
}

/** Throws `BadBytes` when `stored` is not zstd of exactly `bytes` bytes. */
export async function decompress(stored: Buffer, bytes: number): Promise<Buffer> {
  if (inPlace(bytes)) return decompressNow(stored, bytes);
  const raw = await thread().run(stored, bytes);
  if (raw.length !== bytes) throw new BadBytes('zstd', `${raw.length} bytes where ${bytes} were compressed`);
  return raw;
}

/** Worker threads do without a thread of their own: there is to be one in a process. */
function inPlace(bytes: number): boolean {
  return bytes <= IN_PLACE_BYTES_MAX || !isMainThread;
}

async function attempt<T>(work: () => T): Promise<T> {
  return work();
}

/** One worker thread, started at the first need; keeps the process alive only while it works. */
class ZstdThread {
  private worker: Worker | null = null;
  private broken: Error | null = null;
  private readonly running = new Map<number, Task>();
  private readonly waiting: Task[] = [];
  private nextId = 0;

  run(data: Buffer, bytes: number | null): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ data, bytes, resolve, reject });
      this.handOn();
    });
  }

  private handOn(): void {
    while (this.running.size < IN_FLIGHT_MAX && this.broken === null) {
      const task = this.waiting.shift();
      if (task === undefined) break;
      this.worker ??= this.start();
      if (this.running.size === 0) this.worker.ref();
      const id = this.nextId++;
      this.running.set(id, task);
      // A copy that is handed over: sending a view would copy all of the memory behind it, a whole object for one frame of it.
      const data = new Uint8Array(task.data);
      this.worker.postMessage({ id, data, bytes: task.bytes }, [data.buffer]);
    }
    if (this.running.size === 0) this.worker?.unref();
  }

  private start(): Worker {
    const library = pathToFileURL(createRequire(import.meta.url).resolve('@cloudpss/zstd/napi')).href;
    const worker = new Worker(THREAD, { eval: true, workerData: { library, level: ZSTD_LEVEL } });
    worker.on('message', (answer: Answer) => this.settle(answer));
    worker.on('error', (error) => {
      this.broken = error;
    });
    worker.on('exit', (code) => this.gone(code));
    return worker;
  }

  private settle({ id, result, error }: Answer): void {
    const task = this.running.get(id);
    if (task === undefined) throw new Error(`the zstd thread answered ${id}, which was not asked`);
    this.running.delete(id);
    if (result !== undefined) task.resolve(Buffer.from(result.buffer, result.byteOffset, result.byteLength));
    else task.reject(task.bytes === null ? new Error(`zstd: ${error}`) : new BadBytes('zstd', error ?? 'failed'));
    this.handOn();
  }

  /** The thread has ended: what it had fails, what waited goes to another, which is started now and not before. */
  private gone(code: number): void {
    const error = this.broken ?? new Error(`the zstd thread ended with code ${code}`);
    const lost = [...this.running.values()];
    this.running.clear();
    this.worker = null;
    this.broken = null;
    for (const task of lost) task.reject(error);
    this.handOn();
  }
}

/** Shared over copies of this module in one process, as test runners make them. */
const SHARED = Symbol.for('firn.zstd-thread');

function thread(): ZstdThread {
  const shared = globalThis as { [SHARED]?: ZstdThread };
  return (shared[SHARED] ??= new ZstdThread());
}
