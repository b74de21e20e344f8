/**
 * The node that a sequence drives: the built program in a process of its own, on a directory that a restore may replace by a new one; its objects in that directory or on an S3 server.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import type { RestoreReport } from '../../services/api/cold/restore.js';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';
import { PROJECT } from '../support/paths.js';
import { FolderView } from './objects-view.js';
import type { ObjectsView } from './objects-view.js';

/** Where objects lie that are not in the directory of the node; what has to run beside the node. */
export interface Remote {
  readonly view: ObjectsView;
  /** Once the node runs. */
  begin(node: FirnNode): Promise<void>;
  end(): Promise<void>;
}

export class Rig {
  readonly node: FirnNode;
  readonly view: ObjectsView;
  /** For the present run of the process. */
  #settings: Env;
  /** How far its clock is ahead of the true one, ms. */
  #aheadMs = 0;
  /** Restores so far. */
  restores = 0;

  constructor(settings: Env, readonly remote: Remote | null = null) {
    this.node = new FirnNode();
    this.node.token = settings['FIRN_ADMIN_TOKEN'] ?? null;
    this.#settings = settings;
    this.view = remote?.view ?? new FolderView(() => join(this.node.dataDir, 'objects'));
  }

  get settings(): Env {
    return this.#settings;
  }

  /** Nothing is sealed that a step did not ask for. */
  get sealsByHand(): boolean {
    return this.#settings['FIRN_SEAL_BYTES'] === undefined;
  }

  async start(): Promise<void> {
    await this.node.start(this.#settings);
    await this.remote?.begin(this.node);
  }

  /** A new run of the process, after SIGTERM or `kill -9`, with some settings changed. `between` looks at the directory that nobody holds. */
  async again(how: 'stop' | 'kill', changed: Env = {}, between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    await this.node[how]();
    await between();
    this.#settings = { ...this.#settings, ...changed };
    await this.node.start(this.#settings);
  }

  /** Settings under which the clock of a process is so much later than it was. */
  later(ms: number): Env {
    this.#aheadMs += ms;
    return { NODE_OPTIONS: `--import=${pathToFileURL(join(PROJECT, 'test/support/skewed-clock.mjs')).href}`, FIRN_TEST_SKEW_MS: String(this.#aheadMs) };
  }

  /** Loses the machine: a new directory is filled from the objects alone, and the node goes on there. */
  async restore(how: 'stop' | 'kill', args: readonly string[] = []): Promise<RestoreReport> {
    await this.node[how]();
    const dir = mkdtempSync(join(tmpdir(), 'firn-model-'));
    if (this.remote === null) cpSync(join(this.node.dataDir, 'objects'), join(dir, 'objects'), { recursive: true });
    rmSync(this.node.dataDir, { recursive: true, force: true });
    this.node.dataDir = dir;
    this.restores += 1;
    const run = await firn(['restore', ...args], settingsFor(this.node, this.#settings));
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    await this.node.start(this.#settings);
    return JSON.parse(run.stdout) as RestoreReport;
  }

  async dispose(): Promise<void> {
    await this.remote?.end();
    await this.node.dispose();
  }
}
