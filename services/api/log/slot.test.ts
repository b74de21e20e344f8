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
    const table = new SlotTable(1, 2, () => true);
    const first = ['a', 'b', 'c'].map((key) => use(table, key));
    first.forEach((slot) => table.unpin(slot));
    expect(table.size).toBe(2);
    expect(table.pin('c' as StreamKey)).toBe(first[2]);
    expect(table.pin('a' as StreamKey), 'the oldest was dropped').not.toBe(first[0]);
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
    expect(new Set(table.all())).toEqual(new Set([pinned, staged, watched]));
    staged.staged = 0;
    table.settle(staged);
    expect(new Set(table.all())).toEqual(new Set([pinned, watched]));
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

  it('a second release is a programmer error', () => {
    const table = new SlotTable(1, 1, () => true);
    const slot = use(table, 'a');
    table.unpin(slot);
    expect(() => table.unpin(slot)).toThrow('released twice');
  });
});
