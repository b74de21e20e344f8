import { describe, expect, it } from 'vitest';
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { SlotTable, type Slot } from './slot.js';

const EXISTS = { incarnation: 1 } as unknown as StreamRecord;

function use(table: SlotTable, key: string): Slot {
  const slot = table.pin(key as StreamKey);
  slot.durable = EXISTS;
  return slot;
}

describe('slots in memory', () => {
  it('I11 keeps the most recently used idle ones up to the limit', () => {
    const table = new SlotTable(1, 3, () => true);
    const [a, b] = ['a', 'b', 'c'].map((key) => use(table, key));
    for (const slot of table.all()) table.unpin(slot);
    table.unpin(table.pin('a' as StreamKey));
    table.unpin(use(table, 'd'));
    expect(table.size).toBe(3);
    expect(table.pin('a' as StreamKey), 'used again, so kept').toBe(a);
    expect(table.pin('b' as StreamKey), 'the oldest that was not used again').not.toBe(b);
  });

  it('I11 a thousand streams one after the other keep the table at its limit', () => {
    const table = new SlotTable(1, 10, () => true);
    for (let i = 0; i < 1_000; i++) {
      table.unpin(use(table, `k${i}`));
      expect(table.size).toBeLessThanOrEqual(10);
    }
  });

  it('never drops one that is in use, staged or watched', () => {
    const table = new SlotTable(1, 0, () => true);
    const pinned = use(table, 'pinned');
    const staged = use(table, 'staged');
    staged.staged = 1;
    table.unpin(staged);
    const watched = use(table, 'watched');
    watched.listeners = new Set([() => undefined]);
    table.unpin(watched);
    const idle = use(table, 'idle');
    table.unpin(idle);
    use(table, 'another');
    expect([...table.all()].map((slot) => slot.key)).toEqual(expect.arrayContaining([pinned.key, staged.key, watched.key, 'another']));
    expect([...table.all()]).not.toContain(idle);
  });

  it('keeps one that still has something to write', () => {
    const refused: string[] = [];
    const table = new SlotTable(1, 1, (slot) => {
      refused.push(slot.key);
      return slot.key !== 'a';
    });
    for (const key of ['a', 'b']) table.unpin(use(table, key));
    expect(refused).toEqual(['a']);
    expect([...table.all()].map((slot) => slot.key).sort()).toEqual(['a', 'b']);
  });

  it('does not keep a key without a stream', () => {
    const table = new SlotTable(1, 10, () => true);
    table.unpin(table.pin('none' as StreamKey));
    expect(table.size).toBe(0);
  });

  it('a second release is a programmer error', () => {
    const table = new SlotTable(1, 1, () => true);
    const slot = use(table, 'a');
    table.unpin(slot);
    expect(() => table.unpin(slot)).toThrow('released twice');
  });
});
