/** What lies on the disk. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

export interface Usage {
  readonly files: number;
  readonly bytes: number;
}

/** Files below a folder and their bytes; a folder that is not there is empty. */
export async function usage(folder: string): Promise<Usage> {
  let files = 0;
  let bytes = 0;
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    files += 1;
    bytes += (await stat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))).size;
  }
  return { files, bytes };
}
