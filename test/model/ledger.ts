/**
 * What a restore may bring back. Acknowledged data may lie on the lost machine alone until it is sealed (architecture section 6), so each stream comes back as it was at its last seal, or at a
 * moment since, if a seal that nobody asked for came then; never older, never a mixture.
 */
import { expect } from 'vitest';
import type { Answer } from '../support/http.js';
import { bucketOf } from './spec.js';
import type { Life, Spec } from './spec.js';

/** null: nobody lived there. */
type Version = Life | null;

/** What a client can see of a stream. */
export interface Seen {
  readonly head: Answer;
  /** From the retained offset on. */
  readonly content: Buffer;
}

export class Ledger {
  /** Each stream since its last seal, oldest first. */
  readonly #told = new Map<string, Version[]>();

  constructor(private readonly paths: readonly string[]) {
    for (const path of paths) this.#told.set(path, [null]);
  }

  /** After each step: one request changes a stream once. */
  note(spec: Spec): void {
    for (const path of this.paths) {
      const told = this.#told.get(path)!;
      const life = spec.lives.get(path);
      if (stateOf(life ?? null) !== stateOf(told.at(-1)!)) told.push(life?.copy() ?? null);
    }
  }

  /** Everything below a prefix of stream keys is in the object store as it is now. */
  sealed(spec: Spec, prefix = ''): void {
    this.note(spec);
    for (const [path, told] of this.#told) if (path.slice(1).startsWith(prefix)) told.splice(0, told.length - 1);
  }

  /** A purge goes to the log at once, alone. */
  purged(spec: Spec, bucket: string): void {
    this.note(spec);
    for (const [path, told] of this.#told) if (bucketOf(path) === bucket) told.splice(0, told.length - 1);
  }

  /** The newest state that looks like this. null: the stream is gone, or a source that nothing holds any more. Fails when there is none. */
  find(path: string, { head, content }: Seen): Version {
    const told = this.#told.get(path)!;
    if (head.status === 404) {
      // A source goes with its last fork, whose end the log may hold without that of the source.
      if (told.some((life) => life === null || life.deleted)) return null;
    } else if (head.status === 410) {
      const life = told.findLast((one) => one?.deleted === true);
      if (life !== undefined && life !== null) return life.copy();
    } else {
      const at = told.findLastIndex((one) => one !== null && !one.deleted && looksLike(one, head, content));
      const life = told[at];
      // The log learns of a large snapshot when that has become an object, which no seal waits for.
      const offset = head.header('stream-snapshot-offset');
      const snapshot = told.slice(at).find((one) => one?.id === life?.id && String(one?.snapshot?.offset) === String(offset === undefined ? undefined : Number(offset)));
      if (life !== undefined && life !== null && snapshot !== undefined && snapshot !== null) return Object.assign(life.copy(), { snapshot: snapshot.snapshot });
    }
    const had = told.map((life) => (life === null ? 'nobody' : `${life.deleted ? 'deleted' : ''} ${life.type} [${life.retained}, ${life.tail}) ${life.closed ? 'closed' : 'open'} snapshot ${life.snapshot?.offset}`));
    return expect.fail(`${path} came back as it never was since its last seal: ${head.status} ${head.status === 200 ? `${head.header('content-type')} [${head.header('stream-retained-offset')}, ${head.next}) closed ${head.closed}, snapshot ${head.header('stream-snapshot-offset')}` : ''}\nit was, oldest first: ${had.join('; ')}`);
  }

  /** All streams begin anew from what a restore found in the object store. */
  restart(spec: Spec): void {
    for (const path of this.paths) this.#told.set(path, [spec.lives.get(path)?.copy() ?? null]);
  }
}

/** Changes with whatever a request can change. */
function stateOf(life: Version): string {
  if (life === null) return '';
  const { id, tail, closed, retained, snapshot, lastSeq, deleted, producers } = life;
  return JSON.stringify([id, tail, closed, retained, snapshot?.offset, lastSeq, deleted, [...producers]]);
}

function looksLike(life: Life, head: Answer, content: Buffer): boolean {
  return Number(head.next) === life.tail && head.closed === life.closed && head.header('content-type') === life.type && (head.header('stream-ttl') ?? null) === life.ttl &&
    Number(head.need('stream-retained-offset')) === life.retained && content.equals(life.content.subarray(life.retained));
}
