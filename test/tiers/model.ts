/**
 * Streams with everything that was written to them beside, and comparison over every surface, size and position.
 */
import { expect } from 'vitest';
import type { FirnNode } from '../support/node.js';
import type { Random } from '../support/random.js';
import { JSON_TYPE, OCTETS, Stream, TEXT, twin } from '../support/stream.js';

export class Modelled {
  content = Buffer.alloc(0);
  /** End of each append. */
  readonly ends: number[] = [0];
  closed = false;
  retained = 0;
  snapshot: { offset: number; body: Buffer } | null = null;

  constructor(
    readonly stream: Stream,
    readonly type: string,
  ) {}

  get base(): Stream {
    return twin(this.stream);
  }

  async create(): Promise<void> {
    expect((await this.stream.create({ type: this.type })).status).toBe(201);
  }

  async append(random: Random, sizeMax = 3_000): Promise<void> {
    const size = random.int(1, sizeMax);
    let body: Buffer;
    let stored: Buffer;
    if (this.type === JSON_TYPE) {
      const messages = Array.from({ length: random.int(1, 4) }, () => JSON.stringify({ n: random.int(0, 1e9), text: random.bytes(size >> 2).toString('base64') }));
      body = Buffer.from(messages.length === 1 ? messages.join('') : `[${messages.join(', ')}]`);
      stored = Buffer.from(messages.map((message) => `${message}\n`).join(''));
    } else {
      body = this.type === TEXT ? Buffer.from('水é😀 line\n'.repeat(1 + (size >> 5))) : random.bytes(size);
      stored = body;
    }
    const answer = await (random.chance(0.5) ? this.stream : this.base).append(body, { type: this.type });
    expect(answer.status).toBe(204);
    this.content = Buffer.concat([this.content, stored]);
    this.ends.push(this.content.length);
    expect(Number(answer.next)).toBe(this.content.length);
  }

  async close(): Promise<void> {
    expect((await this.stream.close()).status).toBe(204);
    this.closed = true;
  }

  /** Publishes a snapshot at the end of some append. */
  async publish(random: Random, bytes: number): Promise<void> {
    const offset = random.pick(this.ends.filter((end) => end >= Math.max(this.retained, (this.snapshot?.offset ?? -1) + 1)));
    const body = random.bytes(Math.min(bytes, 4_096));
    const whole = Buffer.alloc(bytes, body);
    expect((await this.stream.publish(String(offset), whole)).status).toBe(204);
    this.snapshot = { offset, body: whole };
  }

  /** Moves the boundary to the end of some append at or below the snapshot. */
  async retain(random: Random): Promise<void> {
    const { snapshot } = this;
    if (snapshot === null) return;
    const offset = random.pick(this.ends.filter((end) => end >= this.retained && end <= snapshot.offset));
    expect((await this.stream.retain(String(offset))).status).toBe(204);
    this.retained = offset;
  }

  /** Every comparison there is: state, whole reads, random windows, both surfaces, the snapshot (R026). */
  async compare(random: Random): Promise<void> {
    const head = await this.stream.head();
    expect([head.status, Number(head.next), head.closed, Number(head.need('stream-retained-offset'))]).toEqual([200, this.content.length, this.closed, this.retained]);
    const rest = this.content.subarray(this.retained);
    for (const maxBytes of [8_388_608, random.int(1_000, 60_000)]) {
      expect((await this.stream.all(String(this.retained), { max_bytes: maxBytes })).equals(rest), `${this.stream.path} by ${maxBytes}`).toBe(true);
    }
    for (let i = 0; i < 25; i += 1) await this.#compareWindow(random);
    await this.#compareBase(random);
    if (this.snapshot !== null) {
      const read = await this.stream.sub('GET', `snapshot/${this.snapshot.offset}`);
      expect([read.status, read.body.equals(this.snapshot.body)]).toEqual([200, true]);
    }
    if (this.retained > 0) expect((await this.stream.read({ offset: String(this.retained - 1) })).status).toBe(410);
  }

  async #compareWindow(random: Random): Promise<void> {
    const from = random.chance(0.5) ? random.pick(this.ends.filter((end) => end >= this.retained)) : random.int(this.retained, this.content.length + 1);
    const maxBytes = random.pick([1, 7, 100, 4_000, 100_000, 8_388_608]);
    const answer = await this.stream.read({ offset: String(from), max_bytes: maxBytes });
    const wanted = this.content.subarray(from, from + maxBytes);
    expect([answer.status, answer.body.equals(wanted), Number(answer.next), answer.upToDate, answer.closed], `${this.stream.path} at ${from} for ${maxBytes}`).toEqual([
      200, true, from + wanted.length, from + wanted.length === this.content.length, this.closed && from + wanted.length === this.content.length,
    ]);
  }

  async #compareBase(random: Random): Promise<void> {
    if (this.type !== JSON_TYPE) {
      expect((await this.base.all(String(this.retained), { max_bytes: random.int(10_000, 300_000) })).equals(this.content.subarray(this.retained))).toBe(true);
      return;
    }
    const messages: unknown[] = [];
    for (let offset = String(this.retained), done = false; !done; ) {
      const answer = await this.base.read({ offset, max_bytes: random.pick([1, 5_000, 1_000_000]) });
      expect(answer.status).toBe(200);
      messages.push(...(answer.json() as unknown[]));
      ({ next: offset, upToDate: done } = answer);
    }
    const lines = this.content.subarray(this.retained).toString().split('\n').slice(0, -1);
    expect(messages).toEqual(lines.map((line) => JSON.parse(line) as unknown));
  }
}

/** Some streams of each kind. */
export async function modelled(node: FirnNode, random: Random, count: number): Promise<Modelled[]> {
  const streams = Array.from({ length: count }, (_, i) => new Modelled(new Stream(node.http, `/tier/${i % 3 === 0 ? 'json' : i % 3 === 1 ? 'text' : 'bytes'}-${i}-${random.int(0, 1e6)}`), [JSON_TYPE, TEXT, OCTETS][i % 3]!));
  for (const stream of streams) await stream.create();
  return streams;
}

/** Appends to all, in turns. */
export async function grow(streams: readonly Modelled[], random: Random, appends: number): Promise<void> {
  for (let i = 0; i < appends; i += 1) await random.pick(streams.filter((one) => !one.closed)).append(random, random.chance(0.03) ? 400_000 : 3_000);
}

export async function compareAll(streams: readonly Modelled[], random: Random): Promise<void> {
  for (const stream of streams) await stream.compare(random);
}
