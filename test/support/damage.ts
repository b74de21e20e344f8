/** Finding and damaging the files of a stopped node. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** All files below a folder whose path ends as given, by name. */
export function filesBelow(folder: string, ending = ''): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => path.endsWith(ending))
    .sort();
}

/** Inverts one byte in place. */
export function flip(file: string, at: number): void {
  const handle = openSync(file, 'r+');
  const byte = Buffer.alloc(1);
  if (readSync(handle, byte, 0, 1, at) !== 1) throw new Error(`no byte ${at} in ${file}`);
  byte[0] = byte[0]! ^ 0xff;
  writeSync(handle, byte, 0, 1, at);
  closeSync(handle);
}

/** Inverts the byte in the middle of a file. */
export function flipMiddle(file: string): void {
  flip(file, Math.floor(statSync(file).size / 2));
}

/** Where the bytes lie: the first of the files that holds them, and the position. */
export function locate(files: readonly string[], needle: Buffer): { file: string; at: number } {
  for (const file of files) {
    const at = readFileSync(file).indexOf(needle);
    if (at >= 0) return { file, at };
  }
  throw new Error(`none of ${files.length} files holds the bytes`);
}

/** Takes bytes off the end of a file. */
export function cutEnd(file: string, bytes: number): void {
  truncateSync(file, statSync(file).size - bytes);
}
