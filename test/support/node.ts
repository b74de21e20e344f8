/**
 * A node under test: the built program in a process of its own, with a data directory and ports of its own.
 *
 * `useNode()` gives a test file one node for all of its tests. With `FIRN_TEST_URL` (and `FIRN_TEST_ADMIN_URL`) the same tests run against a
 * server that is there already; tests that stop or damage their node do not.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { COLD_PASS, COLD_SETTINGS, expectSound, saysWhenToSeal, sealedAway, Upkeep } from './cold-pass.js';
import { Http } from './http.js';
import type { Answer } from './http.js';
import { FIRN, PROJECT } from './paths.js';

const READY_MS_MAX = 30_000;
const STOP_MS_MAX = 30_000;
const OUTPUT_LINES_MAX = 2_000;

export type Env = Readonly<Record<string, string>>;

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A free port below the range from which the kernel takes ports for outgoing connections, so that it stays free over a restart. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries += 1) {
    const port = 10_300 + Math.floor(Math.random() * 20_000);
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
  throw new Error('no free port');
}

/** The environment of a child process: this one's, without the settings of the project, with those given. */
export function cleanEnv(settings: Env): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(process.env)) if (!name.startsWith('FIRN_') && !name.startsWith('VITEST')) env[name] = value;
  delete env['NODE_OPTIONS'];
  return { ...env, ...settings };
}

export class FirnNode {
  url = '';
  adminUrl = '';
  dataDir = '';
  /** Bearer token of its admin listener. */
  token: string | null = null;
  #http: Http | null = null;
  #admin: Http | null = null;
  #child: ChildProcess | null = null;
  #exited: Promise<Exit> | null = null;
  #lines: string[] = [];
  #upkeep: Upkeep | null = null;

  readonly #settings: Env;
  /** In the pass on cold data; not where the test itself says what is sealed when. */
  readonly #cold: boolean;

  constructor(settings: Env = {}) {
    this.#cold = COLD_PASS && !saysWhenToSeal(settings);
    this.#settings = this.#cold ? { ...COLD_SETTINGS, ...settings } : settings;
  }

  /** The client listener. */
  get http(): Http {
    if (this.#http === null) throw new Error('the node was not started');
    return this.#http;
  }

  /** The admin listener. */
  get admin(): Http {
    if (this.#admin === null) throw new Error('the node was not started');
    return this.#admin;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** What the process wrote, newest lines. */
  get output(): string {
    return this.#lines.join('\n');
  }

  /** Resolves when the process is gone. */
  get exited(): Promise<Exit> {
    if (this.#exited === null) throw new Error('the node was not started');
    return this.#exited;
  }

  /** Points this node at a server that runs already. */
  attach(url: string, adminUrl: string): void {
    this.url = url;
    this.adminUrl = adminUrl;
    this.#http = new Http(url);
    this.#admin = new Http(adminUrl);
  }

  /** Starts the process and waits for its ready line. `settings` go over those of the constructor, for this run. */
  async start(settings: Env = {}): Promise<void> {
    await this.launch(settings);
    const deadline = Date.now() + READY_MS_MAX;
    let gone: Exit | null = null;
    void this.exited.then((exit) => {
      gone = exit;
    });
    while (!this.#lines.some(isReadyLine)) {
      if (gone !== null) throw new Error(`the node ended at start: ${JSON.stringify(gone)}\n${this.output.slice(-4_000)}`);
      if (Date.now() > deadline) throw new Error(`no ready line\n${this.output.slice(-4_000)}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    if (!this.#cold) return;
    this.#upkeep = new Upkeep(this);
    this.http.beforeRead = (path) => sealedAway(this, path);
  }

  /** Starts the process without waiting for anything. */
  async launch(settings: Env = {}): Promise<void> {
    if (this.dataDir === '') this.dataDir = mkdtempSync(join(tmpdir(), 'firn-test-'));
    if (this.url === '') {
      const port = await freePort();
      this.url = `http://127.0.0.1:${port}`;
      this.adminUrl = `http://127.0.0.1:${await freePort()}`;
      this.attach(this.url, this.adminUrl);
    }
    this.#lines = [];
    const env = cleanEnv({
      FIRN_PORT: new URL(this.url).port,
      FIRN_ADMIN_PORT: new URL(this.adminUrl).port,
      FIRN_DATA_DIR: this.dataDir,
      ...this.#settings,
      ...settings,
    });
    const child = spawn(process.execPath, [FIRN, 'serve'], { cwd: PROJECT, env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (piece: string) => {
        const lines = (rest + piece).split('\n');
        rest = lines.pop() ?? '';
        this.#lines.push(...lines);
        if (this.#lines.length > OUTPUT_LINES_MAX) this.#lines.splice(1, this.#lines.length - OUTPUT_LINES_MAX);
      });
    }
  }

  /** SIGTERM, and how the process ended. */
  async stop(): Promise<Exit> {
    const child = this.#child;
    if (child === null) return { code: 0, signal: null };
    await this.#upkeep?.end();
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
    const exit = await this.exited;
    clearTimeout(late);
    return exit;
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    void this.#upkeep?.end();
    this.#child?.kill('SIGKILL');
    if (this.#exited !== null) await this.#exited;
  }

  /** Stops in good order and starts again on the same directory and ports. */
  async restart(settings: Env = {}): Promise<void> {
    await this.stop();
    await this.start(settings);
  }

  /** Ends the process and removes its directory. Fails when the upkeep of the cold pass did. */
  async dispose(): Promise<void> {
    await this.kill();
    await this.#upkeep?.end();
    await this.#http?.close();
    await this.#admin?.close();
    if (this.dataDir !== '') rmSync(this.dataDir, { recursive: true, force: true });
    const failure = this.#upkeep?.failure ?? null;
    if (failure !== null) throw new Error(`in the background of the tests: ${failure}`);
  }

  /** Sends an admin request. */
  send(method: string, path: string, signal?: AbortSignal): Promise<Answer> {
    return this.admin.send(method, path, { signal, ...(this.token === null ? {} : { headers: { authorization: `Bearer ${this.token}` } }) });
  }

  /** Sends an admin request that must succeed; returns its JSON. */
  async ask(method: string, path: string): Promise<unknown> {
    const answer = await this.send(method, path);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body.length === 0 ? null : answer.json();
  }

  /** Seals everything that is unsealed now (with `FIRN_HOT_KEEP_MS=0` it is evicted too). */
  async seal(prefix = ''): Promise<{ segments: number; bytes: number; streams: number }> {
    return (await this.ask('POST', `/__firn/seal${prefix === '' ? '' : `?prefix=${encodeURIComponent(prefix)}`}`)) as { segments: number; bytes: number; streams: number };
  }
}

function isReadyLine(line: string): boolean {
  if (!line.includes('"listening"')) return false;
  try {
    return (JSON.parse(line) as { event?: unknown }).event === 'listening';
  } catch {
    return false;
  }
}

/** A node for all tests of the file, started before the first and ended after the last. */
export function useNode(settings: Env = {}): FirnNode {
  const node = new FirnNode(COLD_PASS ? { ...settings, ...COLD_SETTINGS } : settings);
  const given = process.env['FIRN_TEST_URL'];
  beforeAll(async () => {
    if (given === undefined) await node.start();
    else node.attach(given, process.env['FIRN_TEST_ADMIN_URL'] ?? given);
  }, 60_000);
  afterAll(async () => {
    if (given === undefined && COLD_PASS) await expectSound(node);
    await node.dispose();
  }, 120_000);
  return node;
}

/** A node that tests may stop, kill and damage: always a process of its own. Ended after the file's last test. */
export function ownNode(settings: Env = {}): FirnNode {
  const node = new FirnNode(settings);
  afterAll(async () => {
    await node.dispose();
  }, 60_000);
  return node;
}
