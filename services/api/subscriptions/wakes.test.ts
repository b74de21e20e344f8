import { expect, it } from 'vitest';
import { RETRY_MS_MAX, RETRY_MS_MIN } from './limits.js';
import { retryDelayMs } from './wakes.js';

it('SUB-36 the gaps of a back-off double from 1 s to 60 s, a fifth more or less', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 100, 100_000].map((failures) => retryDelayMs(failures, 0.5))).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]);
  for (const random of [0, 0.25, 0.999]) {
    expect(retryDelayMs(1, random)).toBeGreaterThanOrEqual(0.8 * RETRY_MS_MIN);
    expect(retryDelayMs(50, random)).toBeLessThanOrEqual(1.2 * RETRY_MS_MAX);
  }
  expect([retryDelayMs(1, 0), retryDelayMs(1, 0.999999)]).toEqual([800, 1_200]);
});
