import { describe, expect, it } from 'vitest';
import { Hedges } from './hedge.js';
import { HEDGE_CREDIT_MAX, HEDGE_SAMPLES, HEDGE_SAMPLES_MIN, HEDGE_SHARE, HEDGE_WAIT_MS_MIN } from './limits.js';

/** A request that is answered when the test says so. */
interface Asked {
  readonly quit: AbortSignal;
  answer(text: string): void;
  fail(error: Error): void;
}

class Server {
  readonly asked: Asked[] = [];
  readonly discarded: string[] = [];
  hedges = 0;
  hasRoom = true;
  readonly hedge = new Hedges(() => {
    this.hedges += 1;
  });

  read(): Promise<string> {
    return this.hedge.race({
      ask: (quit) => new Promise((resolve, reject) => {
        this.asked.push({ quit, answer: resolve, fail: reject });
      }),
      discard: (late) => this.discarded.push(late),
      hasRoom: () => this.hasRoom,
    });
  }

  /** GETs that were answered after so long, ms. */
  async known(ms: number, times = HEDGE_SAMPLES_MIN): Promise<void> {
    for (let n = 0; n < times; n++) {
      const read = this.read();
      this.asked.pop()?.answer('quick');
      this.hedge.answered(ms);
      await read;
    }
  }

  async until(requests: number): Promise<void> {
    for (const end = Date.now() + 2_000; this.asked.length < requests; await pause(5)) if (Date.now() > end) throw new Error('waited in vain');
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

describe('a second GET', () => {
  it('is made when the first is later than 99 of 100 were, and the first answer wins and ends the other', async () => {
    for (const winner of [0, 1] as const) {
      const server = new Server();
      await server.known(1);
      const began = performance.now();
      const read = server.read();
      await server.until(2);
      expect(performance.now() - began).toBeGreaterThanOrEqual(HEDGE_WAIT_MS_MIN - 2);
      const [won, lost] = winner === 0 ? [server.asked[0], server.asked[1]] : [server.asked[1], server.asked[0]];
      won?.answer('won');
      expect(await read).toBe('won');
      expect([won?.quit.aborted, lost?.quit.aborted, server.hedges]).toEqual([false, true, 1]);
      lost?.answer('late');
      await pause(1);
      expect(server.discarded).toEqual(['late']);
    }
  });

  it('follows the waits that there were of late', async () => {
    const server = new Server();
    await server.known(1);
    expect(server.hedge.waitMs).toBe(HEDGE_WAIT_MS_MIN);
    for (let n = 0; n < HEDGE_SAMPLES; n++) server.hedge.answered(n % 100 < 97 ? 2 : 300);
    expect(server.hedge.waitMs).toBe(300);
    for (let n = 0; n < HEDGE_SAMPLES; n++) server.hedge.answered(80);
    expect(server.hedge.waitMs).toBe(80);
  });

  it('is not made before enough is known, while there is no connection for it, and beyond its share (I11)', async () => {
    const server = new Server();
    await server.known(1, HEDGE_SAMPLES_MIN - 1);
    const early = server.read();
    await pause(HEDGE_WAIT_MS_MIN + 20);
    expect(server.asked).toHaveLength(1);
    server.asked.pop()?.answer('first');
    await early;
    await server.known(1, HEDGE_SAMPLES_MIN);
    server.hasRoom = false;
    const crowded = server.read();
    await pause(HEDGE_WAIT_MS_MIN + 20);
    expect(server.asked).toHaveLength(1);
    server.asked.pop()?.answer('first');
    await crowded;
    server.hasRoom = true;
    const reads = Array.from({ length: 200 }, () => server.read());
    await pause(HEDGE_WAIT_MS_MIN + 50);
    expect(server.hedges).toBeGreaterThan(0);
    expect(server.hedges).toBeLessThanOrEqual(HEDGE_CREDIT_MAX);
    for (const one of server.asked) one.answer('slow');
    await Promise.all(reads);
    expect(HEDGE_CREDIT_MAX).toBeLessThanOrEqual(Math.ceil(200 * HEDGE_SHARE));
  });

  it('helps when either fails, and both failures are the first one', async () => {
    const server = new Server();
    await server.known(1);
    const read = server.read();
    await server.until(2);
    server.asked[0]?.fail(new Error('cut'));
    server.asked[1]?.answer('second');
    expect(await read).toBe('second');
    server.asked.length = 0;
    await server.known(1, 20);
    const both = server.read();
    await server.until(2);
    server.asked[1]?.fail(new Error('second failure'));
    server.asked[0]?.fail(new Error('first failure'));
    await expect(both).rejects.toThrow('first failure');
    const alone = server.read();
    server.asked.at(-1)?.fail(new Error('at once'));
    await expect(alone).rejects.toThrow('at once');
  });
});
