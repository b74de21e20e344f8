import { describe, expect, it } from 'vitest';
import { Gate } from './gate.js';

const never = (): AbortSignal => new AbortController().signal;

describe('gate', () => {
  it('I11 lets so many in, and the others in the order in which they came', async () => {
    const gate = new Gate(2);
    const order: number[] = [];
    let inside = 0;
    let most = 0;
    await Promise.all(Array.from({ length: 20 }, async (_, n) => {
      const leave = await gate.enter(never());
      order.push(n);
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 1));
      inside--;
      leave();
      leave();
    }));
    expect(most).toBe(2);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  });

  it('forgets who gave up waiting, and loses no place by it', async () => {
    const gate = new Gate(1);
    const leave = await gate.enter(never());
    const abort = new AbortController();
    const waiting = gate.enter(abort.signal);
    const next = gate.enter(never());
    abort.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    leave();
    (await next)();
    (await gate.enter(never()))();
    await expect(gate.enter(AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
  });
});
