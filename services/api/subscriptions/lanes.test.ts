import { describe, expect, it } from 'vitest';
import { Lanes } from './lanes.js';
import { DELIVERIES_MAX, DELIVERIES_PER_ORIGIN, PACE_MS, STARTS_MAX, STARTS_WHEN_BUSY } from './limits.js';

class Work {
  readonly started: string[] = [];
  readonly #ends = new Map<string, () => void>();
  most = 0;
  share = 0;
  readonly lanes = new Lanes<string>({
    run: (item) => {
      this.started.push(item);
      this.most = Math.max(this.most, this.lanes.running);
      return new Promise((resolve) => this.#ends.set(item, resolve));
    },
    busyShare: () => this.share,
  });

  end(item: string): void {
    this.#ends.get(item)!();
    this.#ends.delete(item);
  }

  endAll(): void {
    for (const item of Array.from(this.#ends.keys())) this.end(item);
  }

  async until(holds: () => boolean): Promise<void> {
    for (let tries = 0; tries < 400 && !holds(); tries++) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(holds()).toBe(true);
  }
}

describe('lanes', () => {
  it('run each item once, in order, and no more at a time than one origin takes', async () => {
    const work = new Work();
    const items = Array.from({ length: 3 * DELIVERIES_PER_ORIGIN }, (_, n) => `i${n}`);
    for (const item of items) work.lanes.add('a', item);
    // What waits waits once.
    for (const item of items) if (!work.started.includes(item)) work.lanes.add('a', item);
    await work.until(() => work.lanes.running === DELIVERIES_PER_ORIGIN);
    while (work.started.length < items.length) {
      work.endAll();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    work.endAll();
    await work.until(() => work.lanes.running === 0);
    expect(work.started).toEqual(items);
    expect(work.most).toBeLessThanOrEqual(DELIVERIES_PER_ORIGIN);
    expect(work.lanes.waiting).toBe(0);
  });

  it('an origin that hangs holds up no other', async () => {
    const work = new Work();
    for (let n = 0; n < 200; n++) work.lanes.add('slow', `slow${n}`);
    await work.until(() => work.lanes.running === DELIVERIES_PER_ORIGIN);
    work.lanes.add('fast', 'fast');
    await work.until(() => work.started.includes('fast'));
  });

  it('are bounded in all, and take turns', async () => {
    const work = new Work();
    for (let lane = 0; lane < 20; lane++) for (let n = 0; n < 40; n++) work.lanes.add(`lane${lane}`, `${lane}-${n}`);
    await work.until(() => work.lanes.running === DELIVERIES_MAX);
    expect(work.most).toBeLessThanOrEqual(DELIVERIES_MAX);
    expect(new Set(work.started.map((item) => item.split('-')[0])).size).toBe(20);
  });

  it('start little while the event loop is busy', async () => {
    const work = new Work();
    work.share = 1;
    for (let n = 0; n < 60; n++) work.lanes.add('a', `i${n}`);
    await new Promise((resolve) => setTimeout(resolve, 10 * PACE_MS));
    expect(work.started.length).toBeGreaterThanOrEqual(STARTS_MAX + STARTS_WHEN_BUSY);
    expect(work.started.length).toBeLessThanOrEqual(STARTS_MAX + 12 * STARTS_WHEN_BUSY);
    work.share = 0;
    await work.until(() => work.started.length === 60);
  });

  it('forget what is taken out, and stop when all that runs has ended', async () => {
    const work = new Work();
    for (let n = 0; n < 100; n++) work.lanes.add('a', `i${n}`);
    await work.until(() => work.lanes.running === DELIVERIES_PER_ORIGIN);
    work.lanes.remove('a', 'i99');
    work.lanes.remove('a', 'i99');
    work.lanes.remove('b', 'i99');
    let stopped = false;
    const stopping = work.lanes.stop().then(() => {
      stopped = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(stopped).toBe(false);
    work.endAll();
    await stopping;
    work.lanes.add('a', 'late');
    expect(work.started).toHaveLength(DELIVERIES_PER_ORIGIN);
  });
});
