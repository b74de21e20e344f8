/**
 * Walking the directory of an object store in the byte order of its keys.
 *
 * Owns: the order. The order of names in a folder is not the order of keys: `a-b` sorts before `a/c`, so a folder sorts as its name with a slash.
 */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreUnavailable, type ObjectInfoListed } from './object-store.js';

interface Child {
  /** With a slash behind a folder. */
  readonly name: string;
  readonly folder: boolean;
}

/** Files whose path begins with `prefix` and lies behind `after`, in byte order. Names with a dot in front are not objects. */
export async function* listFiles(root: string, prefix: string, after: string): AsyncGenerator<ObjectInfoListed> {
  // Everything under the prefix lies in the deepest folder that the prefix names whole.
  const base = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  yield* walk(root, base, prefix, after);
}

async function* walk(root: string, folder: string, prefix: string, after: string): AsyncGenerator<ObjectInfoListed> {
  for (const child of await childrenOf(join(root, folder))) {
    const key = `${folder}${child.name}`;
    if (!child.folder) {
      if (!key.startsWith(prefix) || key <= after) continue;
      const bytes = await sizeOf(join(root, key));
      if (bytes !== null) yield { key, bytes };
    } else if (mayHold(key, prefix) && (key > after || after.startsWith(key))) {
      yield* walk(root, key, prefix, after);
    }
  }
}

/** Every folder, the top ('') first. */
export async function* foldersOf(root: string, folder = ''): AsyncGenerator<string> {
  yield folder;
  for (const child of await childrenOf(join(root, folder))) {
    if (child.folder) yield* foldersOf(root, `${folder}${child.name}`);
  }
}

function mayHold(folder: string, prefix: string): boolean {
  return folder.startsWith(prefix) || prefix.startsWith(folder);
}

/** Children in the order of their keys. A folder that is gone meanwhile has none. */
async function childrenOf(path: string): Promise<Child[]> {
  try {
    const entries = await readdir(path, { withFileTypes: true });
    const children = entries.filter((entry) => !entry.name.startsWith('.')).map((entry) => ({ name: entry.isDirectory() ? `${entry.name}/` : entry.name, folder: entry.isDirectory() }));
    // Keys are ASCII, so the order of code units is the order of bytes.
    return children.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (isGone(error)) return [];
    throw new StoreUnavailable(String(error), { cause: error });
  }
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isGone(error)) return null;
    throw new StoreUnavailable(String(error), { cause: error });
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}
