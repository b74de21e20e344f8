/**
 * zstd on the calling thread, compiled to WebAssembly.
 *
 * Owns: the memory of the WebAssembly instance, one a thread. Why not the native build of the same library: its compression state is one per process, so calls from two
 * threads at a time corrupt each other (seen as crashes and damaged frames); `zstd.ts` therefore keeps the native build in a single thread. Both give the same bytes.
 */
import { _WasmModule as wasm } from '@cloudpss/zstd/wasm';
import { BadBytes } from './codec.js';
import { layDown } from './pieces.js';

/** Level 3: the flight records shrink to 0.14 at 366 MB/s. */
export const ZSTD_LEVEL = 3;

type Pointer = ReturnType<typeof wasm._malloc>;

/** Most bytes that one call may give: what fits into the instance's memory beside its input. */
const RAW_BYTES_MAX = 268_435_456;

export function compressNow(raw: Buffer): Buffer {
  return withCompressed([raw], raw.length, copyOut);
}

/** The shorter form of input in pieces, `bytes` in all; null when there is none. */
export function shrinkNow(pieces: readonly Buffer[], bytes: number): Buffer | null {
  return withCompressed(pieces, bytes, (output, packed) => (packed < bytes ? copyOut(output, packed) : null));
}

function withCompressed<T>(pieces: readonly Buffer[], bytes: number, take: (output: Pointer, packed: number) => T): T {
  if (bytes > RAW_BYTES_MAX) throw new RangeError(`${bytes} bytes to compress at once`);
  return withCopy(pieces, bytes, (input) => {
    const room = wasm._ZSTD_compressBound(bytes);
    return withRoom(room, (output) => {
      const packed = wasm._compress(output, room, input, bytes, ZSTD_LEVEL);
      if (wasm._ZSTD_isError(packed) !== 0) throw new Error(`zstd: ${nameOf(packed)}`);
      return take(output, packed);
    });
  });
}

/** Throws `BadBytes` when `stored` is not zstd of exactly `bytes` bytes; no more memory than that is taken. */
export function decompressNow(stored: Buffer, bytes: number): Buffer {
  if (bytes > RAW_BYTES_MAX) throw new BadBytes('zstd', `${bytes} bytes at once`);
  return withCopy([stored], stored.length, (input) => {
    // What the compressed bytes say of their own length, over all frames in them.
    const told = wasm._ZSTD_decompressBound(input, stored.length) >>> 0;
    if (told !== bytes) throw new BadBytes('zstd', `not the compressed form of ${bytes} bytes`);
    return withRoom(bytes, (output) => {
      const written = wasm._decompress(output, bytes, input, stored.length);
      if (wasm._ZSTD_isError(written) !== 0) throw new BadBytes('zstd', nameOf(written));
      if (written !== bytes) throw new BadBytes('zstd', `${written} bytes where ${bytes} were compressed`);
      return copyOut(output, written);
    });
  });
}

function withCopy<T>(pieces: readonly Buffer[], bytes: number, work: (pointer: Pointer) => T): T {
  return withRoom(bytes, (pointer) => {
    layDown(pieces, wasm.HEAPU8, pointer);
    return work(pointer);
  });
}

function withRoom<T>(bytes: number, work: (pointer: Pointer) => T): T {
  const pointer = wasm._malloc(Math.max(bytes, 1));
  if (pointer === 0) throw new Error(`zstd: no memory for ${bytes} bytes`);
  try {
    return work(pointer);
  } finally {
    wasm._free(pointer);
  }
}

/** Copies out: the instance's memory moves when it grows. */
function copyOut(pointer: Pointer, bytes: number): Buffer {
  return Buffer.from(wasm.HEAPU8.subarray(pointer, pointer + bytes));
}

function nameOf(code: number): string {
  return wasm.UTF8ToString(wasm._ZSTD_getErrorName(code));
}
