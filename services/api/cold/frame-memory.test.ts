import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameMemory } from './frame-memory.js';

const ROOM = 1_000;

describe('the memory of frames', () => {
  it('holds what was put last, as it was put, within its bytes, whatever the lengths (I11)', () => {
    fc.assert(fc.property(fc.array(fc.integer({ min: 1, max: 600 }), { maxLength: 60 }), (lengths) => {
      const memory = new FrameMemory(ROOM);
      const bodies = lengths.map((length, n) => Buffer.alloc(length, n + 1));
      for (const [n, body] of bodies.entries()) {
        memory.put(`${n}`, body);
        const held = bodies.map((_, m) => memory.get(`${m}`));
        const first = held.findIndex((one) => one !== undefined);
        // The newest, without a hole, each with its own bytes.
        for (let m = 0; m <= n; m++) expect(held[m]?.equals(bodies[m] as Buffer) ?? false).toBe(m >= first);
        const bytes = held.reduce((sum, one) => sum + (one?.length ?? 0), 0);
        expect(memory.bytes).toBe(bytes);
        expect(bytes).toBeLessThanOrEqual(ROOM);
      }
    }));
  });

  it('gives copies: what was given stays when its place is taken', () => {
    const memory = new FrameMemory(10);
    memory.put('a', Buffer.from('aaaaaaaaaa'));
    const given = memory.get('a');
    memory.put('b', Buffer.from('bbbbbbbbbb'));
    expect(String(given)).toBe('aaaaaaaaaa');
    expect([memory.has('a'), String(memory.get('b'))]).toEqual([false, 'bbbbbbbbbb']);
  });

  it('takes nothing that does not fit', () => {
    const memory = new FrameMemory(10);
    memory.put('a', Buffer.alloc(11));
    expect([memory.has('a'), memory.bytes]).toEqual([false, 0]);
  });
});
