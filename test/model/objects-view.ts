/** The objects of a store as a test sees them beside the node: in its folder, or on its S3 server. Nothing is ever written. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import { ObjectMissing } from '../../shared/storage/object-store.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';
import { filesBelow } from '../support/damage.js';

export interface ObjectsView {
  keys(): Promise<string[]>;
  /** null: it is not there. */
  read(key: string): Promise<Buffer | null>;
  /** Bytes, null: it is not there. */
  size(key: string): Promise<number | null>;
  /** The store itself, while no node holds it: opening a folder clears what a killed node left there. */
  inside<T>(look: (store: ObjectStore) => Promise<T>): Promise<T>;
}

/** A folder; `of` tells which one it is now. */
export class FolderView implements ObjectsView {
  constructor(private readonly of: () => string) {}

  keys(): Promise<string[]> {
    const folder = this.of();
    return Promise.resolve(filesBelow(folder).map((file) => file.slice(folder.length + 1)).filter((name) => !name.startsWith('.tmp')));
  }

  read(key: string): Promise<Buffer | null> {
    return readFile(join(this.of(), key)).catch(() => null);
  }

  size(key: string): Promise<number | null> {
    return stat(join(this.of(), key)).then(({ size }) => size, () => null);
  }

  async inside<T>(look: (store: ObjectStore) => Promise<T>): Promise<T> {
    const store = await FsObjectStore.open(this.of());
    try {
      return await look(store);
    } finally {
      await store.close();
    }
  }
}

/** On a server. */
export class StoreView implements ObjectsView {
  constructor(private readonly store: ObjectStore) {}

  async keys(): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.store.list('')) keys.push(key);
    return keys;
  }

  async read(key: string): Promise<Buffer | null> {
    try {
      return await this.store.get(key);
    } catch (error) {
      if (error instanceof ObjectMissing) return null;
      throw error;
    }
  }

  size(key: string): Promise<number | null> {
    return this.store.size(key);
  }

  inside<T>(look: (store: ObjectStore) => Promise<T>): Promise<T> {
    return look(this.store);
  }
}
