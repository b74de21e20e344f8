import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { idlePause, pause } from './pause.js';

describe.each([['pause', pause], ['idlePause', idlePause]])('%s', (_, wait) => {
  it('lasts its time, and leaves no listener behind', async () => {
    const { signal } = new AbortController();
    const began = performance.now();
    await wait(50, signal);
    await wait(1);
    expect(performance.now() - began).toBeGreaterThan(45);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends with the very reason of its signal, also of one that had fired before', async () => {
    const reason = new Error('enough');
    const stop = new AbortController();
    const waiting = wait(60_000, stop.signal);
    stop.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(wait(60_000, stop.signal)).rejects.toBe(reason);
  });
});

it('only a pause keeps the process alive', async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const stop = new AbortController();
  const before = timers();
  const idle = idlePause(60_000, stop.signal);
  expect(timers()).toBe(before);
  const busy = pause(60_000, stop.signal);
  expect(timers()).toBe(before + 1);
  stop.abort(new Error('enough'));
  await expect(Promise.allSettled([idle, busy])).resolves.toMatchObject([{ status: 'rejected' }, { status: 'rejected' }]);
});
