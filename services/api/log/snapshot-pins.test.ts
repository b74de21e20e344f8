import pino from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { SnapshotPins } from './snapshot-pins.js';

const INC = 7 as Incarnation;
const AT = 10 as Offset;

async function* pieces(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

describe('snapshot pins', () => {
  let now = 0;
  let pins: SnapshotPins;

  beforeEach(() => {
    vi.useFakeTimers();
    now = 0;
    pins = new SnapshotPins(() => now, pino({ level: 'silent' }));
    pins.start();
  });

  afterEach(() => {
    pins.stop();
    vi.useRealTimers();
  });

  const pass = (ms: number): void => {
    now += ms;
    vi.advanceTimersByTime(ms);
  };

  it('a body that nobody reads goes at once', () => {
    const remove = vi.fn<() => Promise<void>>(async () => undefined);
    pins.retire(INC, AT, remove);
    expect(remove).toHaveBeenCalledOnce();
  });

  it('BOOT-26 a body whose read was opened stays until that read is over', async () => {
    const remove = vi.fn<() => Promise<void>>(async () => undefined);
    pins.take(INC, AT);
    const body = pins.during(INC, AT, pieces('a', 'b'));
    expect((await body.next()).value?.toString()).toBe('a');
    pins.retire(INC, AT, remove);
    pass(60_000);
    expect(remove).not.toHaveBeenCalled();
    expect((await body.next()).value?.toString()).toBe('b');
    await body.next();
    pass(10_000);
    expect(remove).toHaveBeenCalledOnce();
    expect(pins.isFree(INC, AT)).toBe(true);
  });

  it('a read that is broken off, or never begins, holds nothing for long', async () => {
    const remove = vi.fn<() => Promise<void>>(async () => undefined);
    pins.take(INC, AT);
    const body = pins.during(INC, AT, pieces('a', 'b'));
    await body.next();
    await body.return(undefined);
    pins.retire(INC, AT, remove);
    pass(1_000);
    expect(remove, 'it may still begin').not.toHaveBeenCalled();
    pass(10_000);
    expect(remove).toHaveBeenCalledOnce();
  });
});
