import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { subscriptionBaseRow, subscriptionCursorRow } from '../hot/keys/index.js';
import { PAGED_FROM } from './limits.js';
import { LinkedStreams } from './linked-streams.js';
import { Subscription } from './subscription.js';

function state(incarnation: number, tail: number): StreamRecord {
  return {
    incarnation: (2 ** 52 + incarnation) as Incarnation, contentType: 'text/plain', createdAtMs: 0, tail: tail as Offset, retained: 0 as Offset, sealed: 0 as Offset, hotStart: 0 as Offset, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 0, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
  };
}

class Bed {
  readonly pending: Subscription[] = [];
  readonly gone: number[] = [];
  #number = 1;
  readonly streams = new LinkedStreams<Subscription>({
    onPending: (subscription) => {
      subscription.isWaiting = false;
      subscription.group?.waiting.delete(subscription);
      this.pending.push(subscription);
    },
    onGone: (_incarnation, of) => void this.gone.push(...of.map(({ number }) => number)),
    onFull: (key) => expect.fail(key),
  });

  subscription(pattern: string | null, wakeStream: string | null = null): Subscription {
    const subscription = new Subscription(`s${this.#number}`, {
      number: this.#number++, pages: 1, type: 'pull-wake', pattern, webhookUrl: null, wakeStream: wakeStream as StreamKey | null, leaseTtlMs: 1_000, description: null, digest: '0'.repeat(64), createdAtMs: 0, origin: 'http://x', generation: 0,
      wake: null, failures: 0, nextAttemptAtMs: null,
    });
    if (pattern !== null) {
      subscription.group = this.streams.group(pattern);
      this.streams.join(subscription.group, subscription);
      subscription.startAtTails();
    }
    this.wait(subscription);
    return subscription;
  }

  wait(subscription: Subscription): void {
    subscription.isWaiting = true;
    subscription.group?.waiting.add(subscription);
  }

  change(key: string, record: StreamRecord | null): void {
    this.streams.changed({ key: key as StreamKey }, record);
  }
}

function linksOf(subscription: Subscription): [string, number, number][] {
  return [...subscription.links()].map(({ path, acked, tail }) => [path, acked, tail]);
}

describe('linked streams', () => {
  it('SUB-14 SUB-25 tell those who wait, once', () => {
    const bed = new Bed();
    const a = bed.subscription('x/*');
    const b = bed.subscription('x/*');
    const c = bed.subscription('y/*');
    bed.change('x/1', state(1, 0));
    expect(bed.pending).toEqual([]);
    bed.change('x/1', state(1, 5));
    bed.change('x/1', state(1, 9));
    expect(bed.pending).toEqual([a, b]);
    expect([a.hasPending, b.hasPending, c.hasPending]).toEqual([true, true, false]);
    expect(linksOf(a)).toEqual([['x/1', -1, 9]]);
  });

  it('SUB-13 SUB-53 cursors start at the tail and only go forward', () => {
    const bed = new Bed();
    bed.subscription('x/*');
    bed.change('x/1', state(1, 5));
    const late = bed.subscription('x/*');
    expect([linksOf(late), late.hasPending]).toEqual([[['x/1', 5, 5]], false]);
    const stream = bed.streams.get('x/1' as StreamKey)!;
    bed.change('x/1', state(1, 8));
    expect(late.advance([{ stream, offset: 3 }])).toEqual([]);
    expect(late.advance([{ stream, offset: 8 }])).toHaveLength(1);
    expect([late.ackedOf(stream), late.hasPending]).toEqual([8, false]);
  });

  it('SUB-52 the end of a stream ends its cursors', () => {
    const bed = new Bed();
    const glob = bed.subscription('x/*');
    const named = bed.subscription(null);
    const link = named.name(bed.streams.follow('x/1' as StreamKey));
    bed.change('x/1', state(1, 5));
    glob.advance([{ stream: link.stream, offset: 5 }]);
    named.advance([{ stream: link.stream, offset: 5 }]);
    bed.change('x/1', null);
    expect([linksOf(glob), linksOf(named), bed.gone]).toEqual([[], [['x/1', -1, 0]], [1]]);
    bed.wait(glob);
    bed.wait(named);
    bed.pending.length = 0;
    bed.change('x/1', state(2, 2));
    expect(bed.pending).toEqual([glob, named]);
    expect([linksOf(glob), linksOf(named)]).toEqual([[['x/1', -1, 2]], [['x/1', -1, 2]]]);
    // Recreated before anybody looked.
    bed.change('x/1', state(3, 1));
    expect(linksOf(glob)).toEqual([['x/1', -1, 1]]);
  });

  it('SUB-54 a wake stream wakes nobody by its own pattern', () => {
    const bed = new Bed();
    const own = bed.subscription('w/*', 'w/1');
    const other = bed.subscription('w/*');
    bed.change('w/1', state(1, 5));
    expect([bed.pending, own.hasPending, linksOf(own), own.ackedOf(bed.streams.get('w/1' as StreamKey)!)]).toEqual([[other], false, [], null]);
  });

  it('follow nothing once the last subscription has left', () => {
    const bed = new Bed();
    const a = bed.subscription('x/*');
    bed.change('x/1', state(1, 5));
    expect([bed.streams.size, bed.streams.globLinks]).toEqual([1, 1]);
    bed.streams.leave(a.group!, a);
    expect([bed.streams.size, bed.streams.globLinks, bed.streams.hasPatterns]).toEqual([0, 0, false]);
    bed.change('x/2', state(2, 5));
    expect(bed.streams.size).toBe(0);
  });

  it('a thousand subscriptions of ten thousand streams: an append costs none of them anything while they are busy', () => {
    const bed = new Bed();
    const first = bed.subscription('x/*');
    for (let n = 0; n < 10_000; n++) bed.change(`x/${n}`, state(n, 1));
    const all = [first, ...Array.from({ length: 999 }, () => bed.subscription('x/*'))];
    expect(bed.streams.globLinks).toBe(10_000_000);
    bed.pending.length = 0;
    bed.change('x/5', state(5, 2));
    expect(bed.pending).toHaveLength(999);
    const startedMs = performance.now();
    for (let n = 0; n < 20_000; n++) bed.change(`x/${n % 10_000}`, state(n % 10_000, 3 + n));
    expect((performance.now() - startedMs) / 20_000).toBeLessThan(0.05);
    expect(all.every((subscription) => subscription.hasPending)).toBe(true);
  });

  it('writes whole pages of cursors when many move, and all of them say what memory says', () => {
    const bed = new Bed();
    bed.subscription('x/*');
    for (let n = 0; n < 1_000; n++) bed.change(`x/${n}`, state(n, 1));
    const subscription = bed.subscription('x/*');
    const read = (ops: ReturnType<Subscription['allOps']>): Map<number, number> => {
      const cursors = new Map<number, number>();
      for (const op of ops) {
        if (op.type !== 'put') continue;
        if (op.key[0] === subscriptionBaseRow.kind) for (const { incarnation, acked } of subscriptionBaseRow.decode(op.value)) cursors.set(incarnation - 2 ** 52, acked);
        if (op.key[0] === subscriptionCursorRow.kind) cursors.set(subscriptionCursorRow.decodeKey(op.key).incarnation - 2 ** 52, subscriptionCursorRow.decode(op.value));
      }
      return cursors;
    };
    for (let n = 0; n < 1_000; n++) bed.change(`x/${n}`, state(n, 2));
    const moves = (count: number) => Array.from({ length: count }, (_, n) => ({ stream: bed.streams.get(`x/${n}` as StreamKey)!, offset: 2 }));
    const few = subscription.advance(moves(PAGED_FROM - 1));
    expect(few).toHaveLength(PAGED_FROM - 1);
    const many = subscription.advance(moves(1_000));
    expect(many).toHaveLength(4);
    expect(read(many)).toEqual(new Map(Array.from({ length: 1_000 }, (_, n) => [n, 2])));
    expect(read(subscription.allOps())).toEqual(read(many));
  });
});
