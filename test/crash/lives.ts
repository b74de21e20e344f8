/**
 * A writer of short lives: streams that are created, appended to, given snapshots and boundaries, closed and deleted, one operation after the other.
 *
 * Of each stream the state after the last acknowledged operation is known, and the one that the operation without an answer would make: after a
 * crash it is in one of the two.
 */
import { expect } from 'vitest';
import type { Answer } from '../support/http.js';
import type { Random } from '../support/random.js';
import { OCTETS } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

interface State {
  readonly exists: boolean;
  readonly content: string;
  readonly closed: boolean;
  readonly retained: number;
  readonly snapshot: { readonly offset: number; readonly body: string } | null;
}

const NOTHING: State = { exists: false, content: '', closed: false, retained: 0, snapshot: null };

class Life {
  known: State = NOTHING;
  /** The state that the unanswered operation would make. */
  perhaps: State | null = null;

  constructor(readonly stream: Stream) {}

  /** Runs one operation; false when its answer stayed out. */
  async step(after: State, operation: () => Promise<Answer>): Promise<boolean> {
    this.perhaps = after;
    let answer: Answer;
    try {
      answer = await operation();
    } catch {
      return false;
    }
    if (answer.status >= 500) return false;
    if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text} on ${this.stream.path}`);
    this.known = after;
    this.perhaps = null;
    return true;
  }

  async check(): Promise<void> {
    const found = await this.observe();
    expect([this.known, this.perhaps].map((state) => JSON.stringify(state))).toContain(JSON.stringify(found));
    this.known = found;
    this.perhaps = null;
  }

  private async observe(): Promise<State> {
    const head = await this.stream.head();
    if (head.status === 404) return NOTHING;
    expect(head.status).toBe(200);
    const retained = Number(head.need('stream-retained-offset'));
    const hidden = this.known.content.slice(0, retained);
    const content = hidden + (await this.stream.all(head.need('stream-retained-offset'))).toString();
    expect(Number(head.next)).toBe(content.length);
    const offset = head.header('stream-snapshot-offset');
    const snapshot = offset === undefined ? null : { offset: Number(offset), body: (await this.stream.sub('GET', `snapshot/${offset}`)).text };
    return { exists: true, content, closed: head.closed, retained, snapshot };
  }
}

export class Lives {
  readonly #lives: Life[] = [];

  constructor(private readonly make: () => Stream) {}

  /** Lives stream lives until `running` says no or an answer stays out. */
  async run(random: Random, running: () => boolean): Promise<void> {
    while (running()) {
      const life = new Life(this.make());
      this.#lives.push(life);
      if (!(await this.#live(life, random))) return;
    }
  }

  /** Checks the newest lives, and some old ones. */
  async check(random: Random): Promise<void> {
    const newest = this.#lives.slice(-12);
    const old = Array.from({ length: Math.min(8, this.#lives.length) }, () => random.pick(this.#lives));
    for (const life of new Set([...newest, ...old])) await life.check();
  }

  async #live(life: Life, random: Random): Promise<boolean> {
    const s = life.stream;
    const first = `born ${random.int(0, 1e9)} `;
    if (!(await life.step({ ...NOTHING, exists: true, content: first }, () => s.create({ type: OCTETS, body: first })))) return false;
    for (let i = 0; i < random.int(1, 4); i += 1) {
      const piece = `piece ${i} ${'x'.repeat(random.int(0, 3_000))} `;
      if (!(await life.step({ ...life.known, content: life.known.content + piece }, () => s.append(piece)))) return false;
    }
    if (random.chance(0.5)) {
      const offset = random.int(1, life.known.content.length);
      const body = `snapshot at ${offset} ${'s'.repeat(random.chance(0.1) ? 1_200_000 : 10)}`;
      if (!(await life.step({ ...life.known, snapshot: { offset, body } }, () => s.publish(String(offset), body)))) return false;
      if (random.chance(0.6)) {
        const retained = random.int(0, offset + 1);
        if (!(await life.step({ ...life.known, retained }, () => s.retain(String(retained))))) return false;
      }
    }
    if (random.chance(0.4) && !(await life.step({ ...life.known, closed: true }, () => s.close()))) return false;
    if (random.chance(0.3) && !(await life.step(NOTHING, () => s.delete()))) return false;
    return true;
  }
}
