import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { HotStoreLocked } from './errors.js';
import { openRocksStore } from './rocks-store.js';
import { hotStoreContract } from './store.contract.js';

async function tempDir(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'firn-hot-'));
}

hotStoreContract('RocksStore', async () => {
  const dir = await tempDir();
  return { open: () => openRocksStore(dir), remove: () => rm(dir, { recursive: true }) };
});

hotStoreContract('RocksStore with a small memtable', async () => {
  const dir = await tempDir();
  return { open: () => openRocksStore(dir, { writeBufferBytes: 65_536, openFilesMax: 32 }), remove: () => rm(dir, { recursive: true }) };
});

/** Another process that opens the directory and says how that went; it holds the store until its input ends. */
function otherProcess(dir: string): { readonly said: Promise<string>; end(): Promise<void>; kill(): Promise<void> } {
  const script = `
    const rocksdb = require(${JSON.stringify(createRequire(import.meta.url).resolve('rocksdb/binding.js'))});
    const db = rocksdb.db_init();
    rocksdb.db_open(db, process.argv[1], { createIfMissing: true }, (error) => {
      process.stdout.write(error ? 'refused' : 'open');
      if (error) process.exit(1);
      process.stdin.on('end', () => rocksdb.db_close(db, () => process.exit(0))).resume();
    });`;
  const child = spawn(process.execPath, ['-e', script, dir], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const said = new Promise<string>((resolve) => child.stdout.once('data', (data: Buffer) => resolve(data.toString())));
  return {
    said,
    end: () => (child.stdin.end(), exited),
    kill: () => (child.kill('SIGKILL'), exited),
  };
}

describe('RocksStore and its lock', () => {
  it('R095 a second opener is refused with a clear error, in this process and from another one, again and again', async () => {
    const dir = await tempDir();
    const store = await openRocksStore(dir);
    await store.batch([{ type: 'put', key: Buffer.from('k'), value: Buffer.from('v') }], true);
    for (let attempt = 0; attempt < 3; attempt++) {
      const error: unknown = await openRocksStore(dir).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(HotStoreLocked);
      expect((error as HotStoreLocked).message).toContain('in use by another process');
      const other = otherProcess(dir);
      expect(await other.said).toBe('refused');
      await other.end();
    }
    expect(await store.get(Buffer.from('k'))).toEqual(Buffer.from('v'));
    await store.close();
    await rm(dir, { recursive: true });
  });

  it('R095 a killed process leaves no lock behind', async () => {
    const dir = await tempDir();
    for (let round = 0; round < 3; round++) {
      const other = otherProcess(dir);
      expect(await other.said).toBe('open');
      await expect(openRocksStore(dir)).rejects.toBeInstanceOf(HotStoreLocked);
      await other.kill();
      await (await openRocksStore(dir)).close();
    }
    await rm(dir, { recursive: true });
  });
});
