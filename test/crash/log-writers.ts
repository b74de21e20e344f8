/**
 * Writers of numbered records and what they know: which writes were acknowledged, where, and which one has no answer yet.
 *
 * A keyed writer sends its unanswered write again by its key (WO-04). An unkeyed one cannot: such a write may be there once, or not at all.
 */
import { expect } from 'vitest';
import type { Answer } from '../support/http.js';
import type { Random } from '../support/random.js';
import { JSON_TYPE, OCTETS, sleep } from '../support/stream.js';
import type { Stream } from '../support/stream.js';
import { binaryRecord, jsonRecord, parseBinary, parseJson } from './records.js';
import type { Mark } from './records.js';

interface Write {
  readonly marks: readonly Mark[];
  readonly body: Buffer;
  /** Bytes as stored (JSON: one message a line). */
  readonly stored: Buffer;
  /** `Producer-Seq`. */
  readonly seq: number;
}

interface Acknowledged {
  readonly stored: Buffer;
  readonly end: number;
}

/** Size of a record: mostly small, now and then one that spans several stored values. */
function recordSize(random: Random): number {
  if (random.chance(0.005)) return random.int(200_000, 700_000);
  return random.chance(0.1) ? random.int(1_000, 12_000) : random.int(1, 400);
}

/** One stream with its writers. Both names are paths of the same stream on the two surfaces. */
export class NumberedStream {
  readonly acknowledged: Acknowledged[] = [];
  /** Acknowledged marks of each writer, in the order of the acknowledgements. */
  readonly #marks = new Map<number, Mark[]>();
  /** The write of a keyed writer that has no answer. */
  readonly #pending = new Map<number, Write>();
  /** Unkeyed writes without an answer: at most once each. */
  readonly #perhaps = new Set<string>();
  readonly #next = new Map<number, { number: number; seq: number }>();
  /** Highest end of an acknowledged write. */
  highest = 0;

  constructor(
    readonly bucketed: Stream,
    readonly base: Stream,
    readonly kind: 'binary' | 'json',
    readonly writers: readonly number[],
    readonly keyed: boolean,
  ) {}

  get type(): string {
    return this.kind === 'json' ? JSON_TYPE : OCTETS;
  }

  async create(): Promise<void> {
    expect((await this.bucketed.create({ type: this.type })).status).toBe(201);
  }

  /** Writes until `running` says no or an answer stays out. */
  async write(writer: number, random: Random, running: () => boolean): Promise<void> {
    while (running()) {
      const write = this.#pending.get(writer) ?? this.#make(writer, random);
      if (this.keyed) this.#pending.set(writer, write);
      let answer: Answer;
      try {
        answer = await this.#send(writer, write, random);
      } catch {
        if (!this.keyed) for (const mark of write.marks) this.#perhaps.add(keyOf(mark));
        return;
      }
      if (answer.status >= 500) {
        if (!this.keyed) for (const mark of write.marks) this.#perhaps.add(keyOf(mark));
        await sleep(20);
        continue;
      }
      this.#acknowledge(writer, write, answer);
    }
  }

  /** Sends the unanswered write of each keyed writer again. */
  async settle(random: Random): Promise<void> {
    for (const [writer, write] of this.#pending) {
      const answer = await this.#send(writer, write, random);
      expect([200, 204]).toContain(answer.status);
      this.#acknowledge(writer, write, answer);
    }
  }

  /** Compares the stream with what was acknowledged; `settled`: no keyed write is open, and the other surface is read as well. */
  async check(random: Random, settled: boolean): Promise<void> {
    const head = await this.bucketed.head();
    expect(head.status).toBe(200);
    expect(Number(head.next)).toBeGreaterThanOrEqual(this.highest);
    expect((await this.base.head()).next).toBe(head.next);
    const from = Number(head.need('stream-retained-offset'));
    const content = await this.bucketed.all(head.need('stream-retained-offset'), { max_bytes: random.pick([50_000, 1_000_000, 8_388_608]) });
    expect(content.length).toBe(Number(head.next) - from);
    if (settled) await this.#checkOtherSurface(content, head.need('stream-retained-offset'));
    for (const { stored, end } of this.acknowledged) {
      const start = end - stored.length;
      if (start >= from && !content.subarray(start - from, end - from).equals(stored)) throw new Error(`bytes [${start}, ${end}) of ${this.bucketed.path} are not what was acknowledged there`);
    }
    if (from === 0) this.#checkMarks(this.kind === 'json' ? parseJson(content) : parseBinary(content), settled);
  }

  async #checkOtherSurface(content: Buffer, from: string): Promise<void> {
    if (this.kind === 'binary') {
      expect((await this.base.all(from)).equals(content)).toBe(true);
      return;
    }
    const lines: string[] = [];
    for (let offset = from, upToDate = false; !upToDate; ) {
      const answer = await this.base.read({ offset });
      expect(answer.status).toBe(200);
      const array = answer.text;
      if (array !== '[]') lines.push(array.slice(1, -1).replaceAll('},{', '}\n{'), '\n');
      ({ next: offset, upToDate } = answer);
    }
    expect(Buffer.from(lines.join('')).equals(content)).toBe(true);
  }

  #checkMarks(found: readonly Mark[], settled: boolean): void {
    for (const writer of this.writers) {
      const mine = found.filter((mark) => mark.writer === writer).map((mark) => mark.number);
      const known = (this.#marks.get(writer) ?? []).map((mark) => mark.number);
      if (this.keyed) {
        const open = this.#pending.get(writer)?.marks.map((mark) => mark.number) ?? [];
        const allowed = settled ? [known] : [known, [...known, ...open]];
        expect(allowed.map((numbers) => numbers.join())).toContain(mine.join());
      } else {
        expect([...mine].sort((a, b) => a - b)).toEqual(mine);
        expect(new Set(mine).size).toBe(mine.length);
        const there = new Set(mine);
        expect(known.filter((number) => !there.has(number))).toEqual([]);
        const acknowledged = new Set(known);
        expect(mine.filter((number) => !acknowledged.has(number) && !this.#perhaps.has(keyOf({ writer, number })))).toEqual([]);
      }
    }
    expect(found.every((mark) => this.writers.includes(mark.writer))).toBe(true);
  }

  #make(writer: number, random: Random): Write {
    const next = this.#next.get(writer) ?? { number: 0, seq: 0 };
    const count = this.kind === 'json' && random.chance(0.3) ? random.int(2, 6) : 1;
    const marks = Array.from({ length: count }, (_, i) => ({ writer, number: next.number + i }));
    this.#next.set(writer, { number: next.number + count, seq: next.seq + 1 });
    if (this.kind === 'binary') {
      const body = binaryRecord(writer, next.number, recordSize(random));
      return { marks, body, stored: body, seq: next.seq };
    }
    const texts = marks.map((mark) => jsonRecord(writer, mark.number, recordSize(random)));
    const body = texts.length === 1 ? texts.join('') : `[${texts.join(' , ')}]`;
    return { marks, body: Buffer.from(body), stored: Buffer.from(texts.map((text) => `${text}\n`).join('')), seq: next.seq };
  }

  #send(writer: number, write: Write, random: Random): Promise<Answer> {
    const surface = random.chance(0.5) ? this.bucketed : this.base;
    return surface.append(write.body, this.keyed ? { type: this.type, producer: [`writer-${writer}`, 0, write.seq] } : { type: this.type });
  }

  #acknowledge(writer: number, write: Write, answer: Answer): void {
    if (![200, 204].includes(answer.status)) throw new Error(`${answer.status} ${answer.text} to write ${write.seq} of writer ${writer}`);
    this.#pending.delete(writer);
    this.#marks.set(writer, [...(this.#marks.get(writer) ?? []), ...write.marks]);
    // A repeat on the base surface shows the tail of now, not the end of the write.
    const ownEnd = !this.keyed || answer.status === 200 || answer.header('stream-offset') !== undefined;
    const end = Number(answer.next);
    if (ownEnd) this.acknowledged.push({ stored: write.stored, end });
    this.highest = Math.max(this.highest, end);
  }
}

function keyOf(mark: Mark): string {
  return `${mark.writer}:${mark.number}`;
}
