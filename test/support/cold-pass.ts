/**
 * The second pass of the public suite and of the row tests: everything goes cold within milliseconds, with compaction, collection and checkpoints all the time; a plain read waits until its stream is cold.
 *
 * Owns: the settings of that pass and the requests that keep a node busy with its cold tier. Promises: every node of a test is in the pass, unless the test itself says when that node seals; an operation that a version does not have (501) is asked for once; one that fails in any way that no
 * fault of the test explains ends in a failure of the test file, as does whatever `verify` finds when its tests are over.
 */
import type { Answer } from './http.js';

/** The admin listener of a node under test. */
interface Operated {
  send(method: string, path: string, signal?: AbortSignal): Promise<Answer>;
}

type Env = Readonly<Record<string, string>>;

/** Set by the vitest project `cold`; without it tests run on hot data. */
export const COLD_PASS = process.env['FIRN_TEST_PASS'] === 'cold';

/** What nodes of this pass start with. */
export const COLD_SETTINGS: Env = { FIRN_SEAL_BYTES: '1', FIRN_SEAL_AGE_MS: '20', FIRN_HOT_KEEP_MS: '0' };

/** Whether a test that starts a node of its own is about what is sealed and when: its settings stay as they are. */
export function saysWhenToSeal(settings: Env): boolean {
  return ['FIRN_SEAL_BYTES', 'FIRN_SEAL_AGE_MS', 'FIRN_COLD'].some((name) => name in settings) && !Object.entries(COLD_SETTINGS).every(([name, value]) => settings[name] === value);
}

/** What a test expects in the pass that it runs in: only a bootstrap tells hot data from cold (requirements section 21). */
export function hotOrCold<T>(hot: T, cold: T): T {
  return COLD_PASS ? cold : hot;
}

const OPERATIONS = ['compact', 'checkpoint', 'collect'] as const;
/** Pause between two requests of a kind: a node that did nothing else would show how tests behave on a machine with no time, and not how they behave on cold data. */
const PAUSE_MS = 200;

/** Asks a node for compaction, checkpoints and collection again and again, each by itself, until it is ended. */
export class Upkeep {
  readonly #node: Operated;
  readonly #running: Promise<unknown>;
  readonly #over = new AbortController();
  #failure: string | null = null;

  constructor(node: Operated) {
    this.#node = node;
    this.#running = Promise.all(OPERATIONS.map((operation) => this.#repeat(operation)));
  }

  /** Gives up what is under way; nothing is asked for any more when this resolves. Before a node is stopped. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#running;
  }

  /** What went wrong on the way; null: nothing. A node that is killed answers nothing, which is no failure. */
  get failure(): string | null {
    return this.#failure;
  }

  async #repeat(operation: string): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      const answer = await this.#node.send('POST', `/__firn/${operation}`, signal).catch(() => null);
      if (answer === null || answer.status === 501) return;
      // 503: a store that a test made fail, or a node on its way out.
      if (answer.status >= 300 && answer.status !== 503) this.#failure ??= `${operation}: ${answer.status} ${answer.text}`;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/** What the tests of a file left behind is whole, in both tiers. */
export async function expectSound(node: Operated): Promise<void> {
  const answer = await node.send('POST', '/__firn/verify?deep=1');
  if (answer.status !== 200 || (answer.json() as { findings: readonly unknown[] }).findings.length > 0) throw new Error(`after the tests verify says: ${answer.status} ${answer.text.slice(0, 4_000)}`);
}

/** Resolves when nothing of the stream at a path is in the hot tier any more, as far as it was written before. */
export async function sealedAway(node: Operated, path: string): Promise<void> {
  const key = keyOf(path);
  if (key === null) return;
  const answer = await node.send('POST', `/__firn/seal?prefix=${encodeURIComponent(key)}`);
  if (answer.status !== 200) throw new Error(`${path} could not be sealed: ${answer.status} ${answer.text}`);
}

/** null: no path of a stream. */
function keyOf(path: string): string | null {
  const text = path.startsWith('/v1/stream/') ? path.slice('/v1/stream/'.length) : path.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
