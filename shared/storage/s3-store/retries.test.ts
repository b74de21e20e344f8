import { describe, expect, it } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../object-store.js';
import { TryFailed } from './failures.js';
import { OPERATION_MS } from './limits.js';
import { Answered, Retries, type RetryRules } from './retries.js';

function retriesOf(options: Partial<Pick<RetryRules, 'signal' | 'random' | 'extraMs' | 'answers'>> = {}): { readonly retries: Retries; readonly whys: string[] } {
  const whys: string[] = [];
  return { whys, retries: new Retries({ signal: undefined, random: (): number => 0, ...options, what: 'get k in s3://b', onRetry: (why) => whys.push(why) }) };
}

/** Fails so often, then succeeds. */
function failing(times: number, error: () => Error): () => Promise<string> {
  let left = times;
  return async () => {
    if (left-- > 0) throw error();
    return 'done';
  };
}

describe('retries', () => {
  it('go on while it may pass', async () => {
    const { retries, whys } = retriesOf();
    expect(await retries.run(failing(30, () => new TryFailed('cut')))).toBe('done');
    expect(whys).toEqual(Array.from({ length: 30 }, () => 'cut'));
  });

  it('end at once for a refusal, an answer, and an error of this program', async () => {
    const { retries, whys } = retriesOf();
    const answer = (status: number, name: string) => (): Error => Object.assign(new Error('no'), { name, $metadata: { httpStatusCode: status } });
    await expect(retries.run(failing(1, answer(403, 'AccessDenied')))).rejects.toThrow(new StoreRefused('get k in s3://b: 403 AccessDenied: no'));
    await expect(retries.run(failing(1, () => new RangeError('bug')))).rejects.toThrow(RangeError);
    expect(whys).toEqual([]);
  });

  it('give an operation the answers that it asked for, and take every other one for a try that failed', async () => {
    const { retries, whys } = retriesOf({ answers: ['missing'] });
    const answer = (status: number, name: string) => (): Error => Object.assign(new Error(''), { name, $metadata: { httpStatusCode: status } });
    await expect(retries.run(failing(1, answer(404, 'NoSuchKey')))).rejects.toBeInstanceOf(Answered);
    for (const [status, name] of [[412, 'PreconditionFailed'], [416, 'InvalidRange'], [404, 'NoSuchUpload']] as const) expect(await retries.run(failing(2, answer(status, name)))).toBe('done');
    expect(whys).toHaveLength(6);
    expect(await retriesOf().retries.run(failing(1, answer(404, 'NoSuchKey')))).toBe('done');
  });

  it('wait longer and longer, up to a limit, spread over the whole wait', async () => {
    const waits: number[] = [];
    for (const share of [0.2, 0.4]) {
      const { retries } = retriesOf({ random: () => share });
      const began = performance.now();
      await retries.run(failing(4, () => new TryFailed('cut')));
      waits.push(performance.now() - began);
    }
    // 50, 100, 200 and 400 ms, each times the share.
    expect(waits[0]).toBeGreaterThan(145);
    expect(waits[1]).toBeGreaterThan(295);
  });

  it('give up when the next wait would end behind the deadline, which bytes move on', async () => {
    const { retries } = retriesOf({ extraMs: 100 - OPERATION_MS, random: () => 0.9 });
    await expect(retries.run(failing(30, () => new TryFailed('cut')))).rejects.toThrow(/^object store unavailable: get k in s3:\/\/b: cut \(gave up after \d tries\)$/);
    await expect(retries.after(new TryFailed('cut'))).rejects.toBeInstanceOf(StoreUnavailable);
    retries.progressed(1);
    expect(retries.leftMs).toBeLessThan(100);
    retries.progressed(1_000_000_000);
    await retries.after(new TryFailed('cut'));
    expect(retries.leftMs).toBeGreaterThan(OPERATION_MS - 5_000);
    expect(retries.leftMs).toBeLessThanOrEqual(OPERATION_MS);
  });

  it('end with the reason of the signal, in a wait too', async () => {
    const abort = new AbortController();
    const { retries } = retriesOf({ signal: abort.signal, random: () => 0.99 });
    const running = retries.run(failing(100, () => new TryFailed('cut')));
    setTimeout(() => abort.abort(new Error('nobody waits')), 30);
    await expect(running).rejects.toThrow('nobody waits');
  });
});
