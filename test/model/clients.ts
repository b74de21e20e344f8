/**
 * Clients that write to, read and end streams at once, over a line that loses answers, and keep a record of everything that they saw and when (`history.ts` judges it).
 */
import type { Answer, Http } from '../support/http.js';
import type { Random } from '../support/random.js';
import { controlsOf, dataOf } from '../support/sse.js';
import { JSON_TYPE, sleep, Stream } from '../support/stream.js';
import type { AppendOp, Op } from './history.js';

/** Tries of a keyed write before the run counts as stuck. */
const TRIES_MAX = 400;

export class Recorded {
  readonly history: Op[] = [];
  ended = false;

  constructor(
    readonly path: string,
    readonly type: string,
  ) {}

  on(http: Http, base = false): Stream {
    return new Stream(http, base ? `/v1/stream${this.path}` : this.path);
  }
}

export class Client {
  readonly #seqs = new Map<Recorded, number>();
  #count = 0;
  /** Requests without an answer. */
  lost = 0;

  constructor(
    readonly name: string,
    private readonly http: Http,
    private readonly luck: Random,
  ) {}

  /** Does something to a stream. */
  async act(on: Recorded): Promise<void> {
    const { luck } = this;
    const what = luck.next();
    if (what < 0.35) await this.#append(on);
    else if (what < 0.6) await this.#keyed(on);
    else if (what < 0.78) await this.#read(on);
    else if (what < 0.9) await this.#head(on);
    else await this.#events(on);
  }

  /** Asks for the end, by a bare close or with a last append, until it is known to be there. */
  async end(on: Recorded): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const invoked = performance.now();
      on.history.push({ kind: 'close', invoked });
      const answer = await this.#answered(() => on.on(this.http, this.luck.chance(0.5)).close());
      if (answer?.status !== 204) {
        await sleep(20);
        continue;
      }
      on.ended = true;
      return void on.history.push({ kind: 'tail', invoked, returned: performance.now(), tail: Number(answer.next), closed: answer.closed });
    }
    throw new Error(`${on.path} could not be closed`);
  }

  /** One or some lines that nobody else writes, as they are sent and stored. */
  #lines(on: Recorded): { readonly body: string; readonly stored: string } {
    const n = (this.#count += 1);
    const lines = Array.from({ length: this.luck.int(1, 4) }, (_, i) => `${this.name}.${n}.${i} ${'x'.repeat(this.luck.int(0, 120))}`);
    if (on.type !== JSON_TYPE) return { body: lines.map((line) => `${line}\n`).join(''), stored: lines.map((line) => `${line}\n`).join('') };
    return { body: JSON.stringify(lines), stored: lines.map((line) => `${JSON.stringify(line)}\n`).join('') };
  }

  #begin(on: Recorded, stored: string): AppendOp {
    const op: AppendOp = { kind: 'append', invoked: performance.now(), returned: Infinity, stored, outcome: 'lost', end: null };
    on.history.push(op);
    return op;
  }

  async #append(on: Recorded): Promise<void> {
    const { body, stored } = this.#lines(on);
    const op = this.#begin(on, stored);
    this.#settle(on, op, await this.#answered(() => on.on(this.http, this.luck.chance(0.5)).append(body, { type: on.type })));
  }

  /** Repeats until the outcome is known; the base surface hides it once the stream is closed (CLO-17). */
  async #keyed(on: Recorded): Promise<void> {
    const { body, stored } = this.#lines(on);
    const seq = this.#seqs.get(on) ?? 0;
    const op = this.#begin(on, stored);
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const answer = await this.#answered(() => on.on(this.http).append(body, { type: on.type, producer: [this.name, 0, seq] }));
      if (this.#settle(on, op, answer)) {
        if (op.outcome === 'applied') this.#seqs.set(on, seq + 1);
        return;
      }
      await sleep(20);
    }
    throw new Error(`${this.name} never learned what became of its write to ${on.path}`);
  }

  /** What an answer says about an append; false: nothing. */
  #settle(on: Recorded, op: AppendOp, answer: Answer | null): boolean {
    const returned = performance.now();
    if (answer === null || answer.status >= 500) return false;
    if (answer.status === 200 || answer.status === 204) {
      Object.assign(op, { returned, outcome: 'applied', end: Number(answer.next) } satisfies Partial<AppendOp>);
      return true;
    }
    if (answer.status !== 409 || !answer.closed) throw new Error(`${on.path}: ${answer.status} ${answer.text}`);
    op.outcome = 'refused';
    on.history.push({ kind: 'tail', invoked: op.invoked, returned, tail: Number(answer.next), closed: true });
    return true;
  }

  async #read(on: Recorded): Promise<void> {
    const { luck } = this;
    const known = on.history.flatMap((op) => (op.kind === 'append' && op.end !== null ? [op.end] : []));
    const from = luck.chance(0.3) || known.length === 0 ? 0 : luck.pick(known.slice(-30));
    const invoked = performance.now();
    const live = luck.chance(0.3) ? { live: 'long-poll', timeout_ms: luck.int(1, 200) } : {};
    const answer = await this.#answered(() => on.on(this.http).read({ offset: from, max_bytes: luck.pick([50, 3_000, 8_388_608]), ...live }));
    if (answer === null || answer.status >= 500) return;
    if (answer.status !== 200 && answer.status !== 204) throw new Error(`${on.path}: ${answer.status} ${answer.text}`);
    on.history.push({ kind: 'read', invoked, returned: performance.now(), from, body: answer.text, next: Number(answer.next), upToDate: answer.upToDate, closed: answer.closed });
  }

  async #head(on: Recorded): Promise<void> {
    const invoked = performance.now();
    const answer = await this.#answered(() => on.on(this.http, this.luck.chance(0.5)).head());
    if (answer?.status === 200) on.history.push({ kind: 'tail', invoked, returned: performance.now(), tail: Number(answer.next), closed: answer.closed });
  }

  /** Follows for a moment: each event with its control is a range that was read, in one go with those before it. */
  async #events(on: Recorded): Promise<void> {
    const invoked = performance.now();
    try {
      const sse = await on.on(this.http).sse('-1', { max_bytes: 8_388_608 });
      if (sse.answer.status !== 200) return sse.close();
      let from = 0;
      try {
        for (let more = this.luck.int(1, 4); more > 0; more -= 1) {
          const events = await sse.through(() => true, 300);
          const control = controlsOf(events).at(-1)!;
          const next = Number(control.streamNextOffset);
          on.history.push({ kind: 'read', invoked, returned: performance.now(), from, body: dataOf(events), next, upToDate: control.upToDate === true || control.streamClosed === true, closed: control.streamClosed === true });
          from = next;
          if (control.streamClosed === true) return;
        }
      } finally {
        sse.close();
      }
    } catch {
      // Cut, or nothing came in time: what was seen stands.
      this.lost += 1;
    }
  }

  /** null: the answer is lost. */
  async #answered(request: () => Promise<Answer>): Promise<Answer | null> {
    try {
      return await request();
    } catch {
      this.lost += 1;
      return null;
    }
  }
}
