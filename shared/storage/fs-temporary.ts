/**
 * Unfinished files of the object store in a directory.
 *
 * Owns: the folder `.tmp` and the names in it: `{process id}-{random}`. No key begins with a dot, so no object can lie there. Promises: a file of a running process
 * stays, also when another process opens the directory meanwhile; one of a process that is gone goes at the next open or sweep.
 */
import { randomUUID } from 'node:crypto';
import { readdir, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export const TEMPORARY_FOLDER = '.tmp';
/** A process id may have been given to another process: after this long nobody is still writing the file, ms. */
const ABANDONED_AFTER_MS = 86_400_000;

/** Unfinished files of this process. */
const live = new Set<string>();

/** A path for a new unfinished file, kept from removal until `releaseTemporary`. */
export function newTemporary(root: string): string {
  const path = join(root, TEMPORARY_FOLDER, `${process.pid}-${randomUUID()}`);
  live.add(path);
  return path;
}

/** Removes the file if it is still there. */
export async function releaseTemporary(path: string): Promise<void> {
  await unlink(path).catch(() => undefined);
  live.delete(path);
}

/** Removes the files of processes that are gone, and those that nobody wrote to for `idleMs`; answers how many. */
export async function removeLeftovers(root: string, idleMs = ABANDONED_AFTER_MS): Promise<number> {
  const folder = join(root, TEMPORARY_FOLDER);
  const sinceMs = (await clockOf(root)) - idleMs;
  let removed = 0;
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (live.has(path) || !(await isLeftover(path, Number(name.split('-')[0]), sinceMs))) continue;
    removed += await unlink(path).then(() => 1, () => 0);
  }
  return removed;
}

/** The clock that file times are told by, which may be another machine's. */
async function clockOf(root: string): Promise<number> {
  const probe = newTemporary(root);
  try {
    await writeFile(probe, '');
    return (await stat(probe)).mtimeMs;
  } finally {
    await releaseTemporary(probe);
  }
}

async function isLeftover(path: string, processId: number, sinceMs: number): Promise<boolean> {
  if (!Number.isSafeInteger(processId) || processId <= 0 || processId === process.pid || !isRunning(processId)) return true;
  const stats = await stat(path).catch(() => null);
  return stats !== null && stats.mtimeMs < sinceMs;
}

function isRunning(processId: number): boolean {
  try {
    process.kill(processId, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
