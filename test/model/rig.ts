/**
 * The node that a sequence drives: the built program in a process of its own, on a directory that a restore may replace by a new one.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';

export class Rig {
  readonly node: FirnNode;
  /** For the present run of the process. */
  #settings: Env;
  /** Restores so far: each makes an object store of its own. */
  restores = 0;

  constructor(settings: Env) {
    this.node = new FirnNode();
    this.#settings = settings;
  }

  get objectsDir(): string {
    return join(this.node.dataDir, 'objects');
  }

  get settings(): Env {
    return this.#settings;
  }

  start(): Promise<void> {
    return this.node.start(this.#settings);
  }

  /** A new run of the process, after SIGTERM or `kill -9`, with some settings changed. `between` looks at the directory that nobody holds. */
  async again(how: 'stop' | 'kill', changed: Env = {}, between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.node[how]();
    await between();
    this.#settings = { ...this.#settings, ...changed };
    await this.node.start(this.#settings);
  }

  /** Loses the machine: a new directory is filled from the objects alone, and the node goes on there. */
  async restore(how: 'stop' | 'kill'): Promise<void> {
    await this.node[how]();
    const dir = mkdtempSync(join(tmpdir(), 'firn-model-'));
    cpSync(this.objectsDir, join(dir, 'objects'), { recursive: true });
    rmSync(this.node.dataDir, { recursive: true, force: true });
    this.node.dataDir = dir;
    this.restores += 1;
    const run = await firn(['restore'], settingsFor(this.node, this.#settings));
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    await this.start();
  }

  dispose(): Promise<void> {
    return this.node.dispose();
  }
}
