import { describe, expect, it } from 'vitest';
import type { Offset } from '../../../shared/protocol/types.js';
import { Frame } from './frame.js';
import type { Reach } from './representation.js';
import { StoredEvents, type StoredEvent } from './stored-events.js';

function eventOf(end: number, reach: Reach = 'below', bytes = 1_000): StoredEvent {
  return { frame: new Frame(Buffer.alloc(bytes, 'e')), end: end as Offset, reach, rest: Buffer.alloc(0) };
}

describe('events read from storage', () => {
  it('R052 are read once for all who come to them together or soon after', async () => {
    const events = new StoredEvents();
    let reads = 0;
    const read = async (): Promise<StoredEvent> => {
      reads++;
      await new Promise((resolve) => setTimeout(resolve, 5));
      return eventOf(7);
    };
    const together = await Promise.all(Array.from({ length: 100 }, () => events.take('a', read)));
    const later = await events.take('a', read);
    expect(reads).toBe(1);
    expect(new Set([...together, later].map((event) => (event as StoredEvent).frame)).size).toBe(1);
    await events.take('b', read);
    expect(reads).toBe(2);
  });

  it('are not kept when they lie at the tail, are too large, or could not be read', async () => {
    const events = new StoredEvents();
    const given: (StoredEvent | number | Error)[] = [eventOf(1, 'tail'), eventOf(2, 'end'), 500_000, new Error('the store is away'), { ...eventOf(3, 'tail'), frame: null }, eventOf(4)];
    for (const next of given) {
      const taken = await events.take('a', () => (next instanceof Error ? Promise.reject(next) : Promise.resolve(next))).catch((error: unknown) => error);
      expect(taken).toEqual(next);
    }
    expect(await events.take('a', () => Promise.resolve(eventOf(5)))).toMatchObject({ end: 4 });
  });

  it('I11 take a bounded number of bytes, and the newest stay', async () => {
    const events = new StoredEvents(10_000);
    for (let n = 0; n < 50; n++) {
      await events.take(`${n}`, () => Promise.resolve(eventOf(n)));
      expect(events.bytes).toBeLessThanOrEqual(10_000);
    }
    expect(events.bytes).toBeGreaterThan(8_000);
    const found = await Promise.all(Array.from({ length: 50 }, (_, n) => events.take(`${n}`, () => Promise.resolve(-1))));
    expect(found.flatMap((event, n) => (event === -1 ? [] : [n]))).toEqual([41, 42, 43, 44, 45, 46, 47, 48, 49]);
    await events.take('larger than all', () => Promise.resolve(eventOf(1, 'below', 20_000)));
    expect(events.bytes).toBe(0);
  });
});
