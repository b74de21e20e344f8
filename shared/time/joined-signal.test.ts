import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { DeadlinePassed, JoinedSignal, withSignal } from './joined-signal.js';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Collects garbage now, and again in each turn for a while. */
async function collectGarbage(ms: number): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  for (const end = Date.now() + ms; Date.now() < end; await pause(10)) gc();
}

describe('a joined signal', () => {
  it('fires at its deadline however much garbage is collected before', async () => {
    const fired = new Promise((resolve) => {
      new JoinedSignal([new AbortController().signal], 200).signal.addEventListener('abort', (event) => resolve((event.target as AbortSignal).reason));
    });
    await collectGarbage(400);
    expect(await Promise.race([fired, pause(500)])).toBeInstanceOf(DeadlinePassed);
  });

  it('fires with a time-out of somebody else that nothing refers to any more', async () => {
    const joined = new JoinedSignal([AbortSignal.timeout(200), new AbortController().signal]);
    await collectGarbage(400);
    expect(joined.signal.aborted).toBe(true);
    expect((joined.signal.reason as Error).name).toBe('TimeoutError');
  });

  it('gives the reason of the first that fires, also of one that had fired before', () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const joined = new JoinedSignal([first.signal, undefined, second.signal]);
    const reason = new Error('enough');
    second.abort(reason);
    first.abort(new Error('too late'));
    expect(joined.signal.reason).toBe(reason);
    expect(new JoinedSignal([first.signal, second.signal], 1_000).signal.reason).toBe(first.signal.reason);
  });

  it('does not fire once it was released', async () => {
    const source = new AbortController();
    const seen = await withSignal([source.signal], 20, async (signal) => signal);
    source.abort();
    await pause(40);
    expect(seen.aborted).toBe(false);
  });

  it('is released when the work fails too', async () => {
    let seen: AbortSignal | null = null;
    await expect(withSignal([], 20, async (signal) => {
      seen = signal;
      throw new Error('no');
    })).rejects.toThrow('no');
    await pause(40);
    expect((seen as AbortSignal | null)?.aborted).toBe(false);
  });
});
