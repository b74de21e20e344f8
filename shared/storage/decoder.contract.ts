/**
 * The contract of every decoder of stored bytes: damaged ones are refused (I9). For tests.
 *
 * Owns: the list of damages that each format is tried with: every cut, every flipped bit, bytes added.
 */
import { expect } from 'vitest';
import { BadBytes } from './codec.js';

export function expectEveryDamageRefused(value: Buffer, decode: (buffer: Buffer) => unknown): void {
  expect(() => decode(value)).not.toThrow();
  for (const [name, damaged] of damages(value)) {
    let outcome: unknown = 'taken';
    try {
      decode(damaged);
    } catch (error) {
      outcome = error;
    }
    if (!(outcome instanceof BadBytes)) expect.fail(`${name}: ${String(outcome)}`);
  }
}

/** The same for decoders that answer later. */
export async function expectEveryDamageRefusedLater(value: Buffer, decode: (buffer: Buffer) => Promise<unknown>, isRefusal: (error: unknown) => boolean = (error) => error instanceof BadBytes): Promise<void> {
  await decode(value);
  for (const [name, damaged] of damages(value)) {
    const outcome = await decode(damaged).then(() => 'taken', (error: unknown) => error);
    if (!isRefusal(outcome)) expect.fail(`${name}: ${String(outcome)}`);
  }
}

function* damages(value: Buffer): Generator<[string, Buffer]> {
  for (let length = 0; length < value.length; length++) yield [`cut to ${length} of ${value.length} bytes`, Buffer.from(value.subarray(0, length))];
  for (let at = 0; at < value.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const damaged = Buffer.from(value);
      damaged[at] = (damaged[at] as number) ^ (1 << bit);
      yield [`bit ${bit} of byte ${at} flipped`, damaged];
    }
  }
  yield ['a byte added', Buffer.concat([value, Buffer.from([0])])];
  yield ['all zeros', Buffer.alloc(value.length)];
  yield ['all ones', Buffer.alloc(value.length, 0xff)];
}
