import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Pace } from './pace.js';

const never = new AbortController().signal;

function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

async function restAfter(before: () => unknown): Promise<number> {
  const pace = new Pace();
  await before();
  const began = performance.now();
  await pace.rest(never);
  return performance.now() - began;
}

describe('the pace of long work', () => {
  it('rests longer than it worked while the loop is busy, whoever keeps it so', async () => {
    expect(await restAfter(() => work(20))).toBeGreaterThanOrEqual(30);
  });

  it('goes on at once on a loop that has time', async () => {
    expect(await restAfter(() => sleep(60))).toBeLessThan(30);
  });

  it('lets others have their turn each time, and ends with its signal', async () => {
    const pace = new Pace();
    let turns = 0;
    setImmediate(() => turns++);
    await pace.rest(never);
    expect(turns).toBe(1);
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    await expect(pace.rest(stop.signal)).rejects.toThrow('enough');
  });
});
