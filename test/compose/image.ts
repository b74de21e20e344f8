/**
 * The image of the Dockerfile without a container engine: its instructions, carried out in folders that stand for the file systems of its stages.
 *
 * What differs: the base is this machine's Node, and `npm ci` takes packages from the project's own `node_modules`: those that the lockfile calls for, copied for an image without
 * development packages, so that one that is missing is missing here too.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { Exit } from '../support/node.js';
import { PROJECT } from '../support/paths.js';
import { copyOf, dockerfile, inContext, type Instruction } from './dockerfile.js';

const OUTPUT_MAX = 200_000;
const WAIT_MS_MAX = 60_000;

export type Environment = Readonly<Record<string, string>>;

interface Identity {
  readonly uid?: number;
  readonly gid?: number;
}

/** The file system of one stage. */
class Layer {
  workdir = '/';
  user: readonly [uid: number, gid: number] | null = null;
  env: Record<string, string> = {};
  entrypoint: readonly string[] = [];
  cmd: readonly string[] = [];

  constructor(readonly root: string) {
    for (const folder of ['usr/local/bin', 'var/lib']) mkdirSync(join(root, folder), { recursive: true });
    chmodSync(root, 0o755);
  }

  /** A path of the image on this machine. */
  at(path: string): string {
    return join(this.root, path.startsWith('/') ? path : join(this.workdir, path));
  }

  /** The same for every absolute path in a text. */
  mapped(text: string): string {
    return text.replace(/(^|[\s=:])(\/(?:app|usr|var)\b)/g, (_all, before: string, path: string) => `${before}${this.root}${path}`);
  }
}

/** A program that runs in the image. */
export class Running {
  output = '';
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;

  constructor(image: Image, argv: readonly string[], env: Environment) {
    const [program = '', ...args] = argv;
    this.#child = spawn(program, args, { cwd: image.workdir, env: image.environment(env), stdio: ['ignore', 'pipe', 'pipe'], ...image.identity });
    this.exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => resolve({ code, signal }));
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.setEncoding('utf8').on('data', (text: string) => (this.output = (this.output + text).slice(-OUTPUT_MAX)));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async says(text: string): Promise<this> {
    let gone: Exit | null = null;
    void this.exited.then((exit) => (gone = exit));
    for (const end = Date.now() + WAIT_MS_MAX; !this.output.includes(text); await new Promise((resolve) => setTimeout(resolve, 20))) {
      if (gone !== null || Date.now() > end) throw new Error(`it ${gone === null ? 'goes on' : `ended (${JSON.stringify(gone)})`} without saying ${text}\n${this.output.slice(-4_000)}`);
    }
    return this;
  }

  end(signal: NodeJS.Signals = 'SIGTERM'): Promise<Exit> {
    this.#child.kill(signal);
    return this.exited;
  }
}

export class Image {
  readonly identity: Identity;

  private constructor(private readonly layer: Layer, private readonly scratch: string) {
    this.identity = identityOf(layer);
  }

  static async build(): Promise<Image> {
    const scratch = mkdtempSync(join(tmpdir(), 'firn-image-'));
    chmodSync(scratch, 0o755);
    const layers = new Map<string, Layer>();
    let last: Layer | null = null;
    try {
      for (const { name, instructions } of dockerfile()) {
        last = new Layer(join(scratch, name ?? 'image'));
        for (const instruction of instructions) await carryOut(instruction, last, layers);
        layers.set(name ?? 'image', last);
      }
      if (last === null) throw new Error('the Dockerfile has no stage');
      return new Image(last, scratch);
    } catch (error) {
      rmSync(scratch, { recursive: true, force: true });
      throw error;
    }
  }

  /** A path of the image on this machine. */
  at(path: string): string {
    return this.layer.at(path);
  }

  get workdir(): string {
    return this.at('.');
  }

  /** What a process of the image finds in its environment: nothing of this one. Nothing can be written but to the data directory. */
  environment(env: Environment): Environment {
    const path = `${this.at('/usr/local/bin')}:${dirname(process.execPath)}:/usr/bin:/bin`;
    return { PATH: path, HOME: '/nonexistent', TMPDIR: '/nonexistent', ...Object.fromEntries(Object.entries(this.layer.env).map(([name, value]) => [name, this.layer.mapped(value)])), ...env };
  }

  /** `command`: null for that of the image. */
  start(command: readonly string[] | null, env: Environment): Running {
    return new Running(this, [...this.layer.entrypoint, ...(command ?? this.layer.cmd)], env);
  }

  /** Beside what runs there already, as `docker exec` and health checks do. */
  exec(argv: readonly string[], env: Environment): Running {
    return new Running(this, argv, env);
  }

  dispose(): void {
    rmSync(this.scratch, { recursive: true, force: true });
  }
}

async function carryOut(instruction: Instruction, layer: Layer, layers: ReadonlyMap<string, Layer>): Promise<void> {
  const { verb, text, words } = instruction;
  switch (verb) {
    case 'WORKDIR':
      layer.workdir = text;
      mkdirSync(layer.at('.'), { recursive: true });
      return;
    case 'ENV':
      for (const pair of text.split(/\s+/)) layer.env[pair.split('=')[0] ?? ''] = pair.slice(pair.indexOf('=') + 1);
      return;
    case 'COPY':
      return copy(instruction, layer, layers);
    case 'RUN':
      return run(text, layer);
    case 'USER': {
      const [, uid, gid] = /^(\d+):(\d+)$/.exec(text) ?? [];
      if (uid === undefined || gid === undefined) throw new Error(`USER ${text}: numbers are what every runtime understands`);
      layer.user = [Number(uid), Number(gid)];
      return;
    }
    case 'EXPOSE':
      return;
    case 'ENTRYPOINT':
    case 'CMD':
      if (words === null) throw new Error(`${verb} ${text}: a shell would not pass signals on`);
      layer[verb === 'CMD' ? 'cmd' : 'entrypoint'] = words;
      return;
    default:
      throw new Error(`${verb} is not understood`);
  }
}

function copy(instruction: Instruction, layer: Layer, layers: ReadonlyMap<string, Layer>): void {
  const { from, sources, target } = copyOf(instruction);
  const stage = from === null ? null : layers.get(from);
  if (stage === undefined) throw new Error(`COPY ${instruction.text}: no stage ${from}`);
  const inside = inContext();
  for (const source of sources) {
    const path = stage === null ? join(PROJECT, source) : stage.at(source);
    if (!existsSync(path) || (stage === null && !inside(source))) throw new Error(`COPY ${instruction.text}: ${source} is not there`);
    const into = target.endsWith('/') && statSync(path).isFile() ? join(target, basename(source)) : target;
    cpSync(path, layer.at(into), { recursive: true, verbatimSymlinks: true, filter: (one) => stage !== null || inside(relative(PROJECT, one)) });
  }
}

async function run(text: string, layer: Layer): Promise<void> {
  if (text === 'npm ci') return symlinkSync(join(PROJECT, 'node_modules'), layer.at('node_modules'));
  if (text === 'npm ci --omit=dev') return installProduction(layer.at('.'));
  // Only root gives files away; else they are this user's, who then also runs the programs.
  const may = process.getuid?.() === 0 ? text : text.replace(/ -[og] \d+/g, '');
  await promisify(execFile)('bash', ['-euc', layer.mapped(may)], { cwd: layer.at('.') });
}

/** The packages that the lockfile has for production; those for other machines are not here. */
function installProduction(folder: string): void {
  const { packages } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dev?: boolean; optional?: boolean }> };
  for (const [path, { dev, optional }] of Object.entries(packages)) {
    if (path === '' || dev === true || (optional === true && !existsSync(join(PROJECT, path)))) continue;
    const own = join(PROJECT, path);
    cpSync(own, join(folder, path), { recursive: true, verbatimSymlinks: true, filter: (one) => relative(own, one) !== 'node_modules' });
  }
}

/** As whom programs of the image run: its user, where this process may become another one. */
function identityOf(layer: Layer): Identity {
  if (layer.user === null) throw new Error('the image has no user of its own: it would run as root');
  const identity = { uid: layer.user[0], gid: layer.user[1] };
  const { status } = spawnSync(process.execPath, ['-e', ''], { ...identity, cwd: layer.at('.') });
  if (status === 0) return identity;
  process.stdout.write(`programs of the image run as the user of the tests: this process may not start ${process.execPath} in ${layer.at('.')} as another one\n`);
  return {};
}
