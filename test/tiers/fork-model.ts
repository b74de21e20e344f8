/**
 * Streams and forks of forks with everything that they must hold beside, whatever becomes of their sources.
 */
import { expect } from 'vitest';
import { forkOf } from '../support/forks.js';
import type { FirnNode } from '../support/node.js';
import type { Random } from '../support/random.js';
import { JSON_TYPE, OCTETS, Stream, TEXT, twin } from '../support/stream.js';

const LF = 0x0a;

class Member {
  content = Buffer.alloc(0);
  /** End of each append, and where a fork begins. */
  ends: number[] = [0];
  forks = 0;
  retained = 0;
  /** `kept`: deleted while forks live. */
  state: 'live' | 'kept' | 'gone' = 'live';

  constructor(readonly stream: Stream, readonly type: string, readonly source: Member | null) {}

  /** End of the append that holds the byte behind `at`. */
  endBehind(at: number): number {
    return this.ends.find((end) => end > at) ?? at;
  }
}

export class Family {
  readonly members: Member[] = [];
  #count = 0;

  constructor(private readonly node: FirnNode, private readonly random: Random) {}

  get live(): Member[] {
    return this.members.filter(({ state }) => state === 'live');
  }

  get bytes(): number {
    return this.live.reduce((sum, { content }) => sum + content.length, 0);
  }

  #path(): Stream {
    // Many buckets, so that sources and forks lie in different partitions.
    const n = this.#count++;
    return new Stream(this.node.http, `/kin-${n % 7}/s-${n}`);
  }

  async create(type = this.random.pick([JSON_TYPE, TEXT, OCTETS])): Promise<Member> {
    const member = new Member(this.#path(), type, null);
    expect((await member.stream.create({ type })).status).toBe(201);
    this.members.push(member);
    return member;
  }

  async append(member: Member = this.random.pick(this.live), bytes = this.random.chance(0.05) ? 600_000 : this.random.int(1, 400)): Promise<void> {
    const [body, stored] = bodyOf(member.type, bytes, this.random);
    const answer = await member.stream.append(body, { type: member.type });
    expect(answer.status).toBe(204);
    member.content = Buffer.concat([member.content, stored]);
    member.ends.push(member.content.length);
    expect(Number(answer.next)).toBe(member.content.length);
  }

  /** Forks a stream at the end of some append, or within the one behind it, or at its tail. */
  async fork(source: Member | undefined = this.#forkable()): Promise<Member | null> {
    if (source === undefined) return null;
    const { random } = this;
    const member = new Member(this.#path(), source.type, source);
    let headers = forkOf(source.stream);
    let at = source.content.length;
    if (random.chance(0.7)) {
      const offset = random.pick(source.ends);
      const end = source.endBehind(offset);
      const steps = source.type === JSON_TYPE ? messageEnds(source.content, offset, end) : null;
      const sub = random.int(0, (steps?.length ?? end - offset) + 1);
      at = sub === 0 ? offset : (steps?.[sub - 1] ?? offset + sub);
      headers = forkOf(random.chance(0.5) ? source.stream : twin(source.stream), { offset, sub });
    }
    const [body, stored] = random.chance(0.3) ? bodyOf(source.type, 50, random) : [null, Buffer.alloc(0)];
    const answer = await member.stream.put({ headers, body });
    expect([answer.status, Number(answer.next)], answer.text).toEqual([201, at + stored.length]);
    member.content = Buffer.concat([source.content.subarray(0, at), stored]);
    member.ends = [...source.ends.filter((end) => end < at), at, ...(stored.length > 0 ? [member.content.length] : [])];
    source.forks++;
    this.members.push(member);
    return member;
  }

  #forkable(): Member | undefined {
    const from = this.live.filter(({ retained }) => retained === 0);
    return from.length === 0 ? undefined : this.random.pick(from);
  }

  async delete(member: Member): Promise<void> {
    expect((await member.stream.delete()).status).toBe(204);
    member.state = 'kept';
    settle(member);
  }

  /** Publishes a snapshot and moves the boundary up to it. */
  async retain(member: Member): Promise<void> {
    const at = this.random.pick(member.ends.filter((end) => end >= member.retained));
    const published = await member.stream.publish(String(at), 'snapshot');
    if (published.status === 409) return;
    expect(published.status).toBe(204);
    expect((await member.stream.retain(String(at))).status).toBe(204);
    member.retained = at;
  }

  /** Every stream reads as it must, whole and by windows; deleted ones are not there. */
  async compare(): Promise<void> {
    const { random } = this;
    for (const { stream, state, content, retained, type } of this.members) {
      if (state !== 'live') {
        // The end of the last fork frees its source a little later.
        for (let tries = 0; tries < 200 && state === 'gone' && (await stream.head()).status === 410; tries += 1) await new Promise((resolve) => setTimeout(resolve, 25));
        expect([stream.path, (await stream.head()).status]).toEqual([stream.path, state === 'kept' ? 410 : 404]);
        continue;
      }
      const head = await stream.head();
      expect([head.status, Number(head.next), head.header('content-type'), Number(head.need('stream-retained-offset'))], stream.path).toEqual([200, content.length, type, retained]);
      for (const maxBytes of [8_388_608, random.int(500, 40_000)]) expect((await stream.all(String(retained), { max_bytes: maxBytes })).equals(content.subarray(retained)), `${stream.path} by ${maxBytes}`).toBe(true);
      for (let i = 0; i < 4; i += 1) {
        const from = random.int(retained, content.length + 1);
        const answer = await stream.read({ offset: String(from), max_bytes: 1_000 });
        expect([answer.status, answer.body.equals(content.subarray(from, from + 1_000))], `${stream.path} at ${from}`).toEqual([200, true]);
      }
      if (type !== JSON_TYPE || retained > 0 || content.length > 1_000_000) continue;
      const read = (await twin(stream).read({ offset: '-1', max_bytes: 2_000_000 })).json();
      expect(read).toEqual(content.toString().split('\n').slice(0, -1).map((line) => JSON.parse(line) as unknown));
    }
  }
}

/** A stream that was deleted goes with its last fork, and takes its own source's reference along. */
function settle(member: Member): void {
  if (member.state !== 'kept' || member.forks > 0) return;
  member.state = 'gone';
  if (member.source === null) return;
  member.source.forks--;
  settle(member.source);
}

function bodyOf(type: string, bytes: number, random: Random): [body: Buffer, stored: Buffer] {
  if (type !== JSON_TYPE) {
    const body = type === TEXT ? Buffer.alloc(bytes, `text ${random.int(0, 1e9)};`) : random.bytes(Math.min(bytes, 5_000));
    const whole = Buffer.alloc(bytes, body);
    return [whole, whole];
  }
  const messages = Array.from({ length: random.int(1, 6) }, () => JSON.stringify({ n: random.int(0, 1e9), text: 'x'.repeat(bytes >> 2) }));
  return [Buffer.from(`[${messages.join(',')}]`), Buffer.from(messages.map((message) => `${message}\n`).join(''))];
}

function messageEnds(content: Buffer, from: number, to: number): number[] {
  const ends: number[] = [];
  for (let at = content.indexOf(LF, from); at >= 0 && at < to; at = content.indexOf(LF, at + 1)) ends.push(at + 1);
  return ends;
}
