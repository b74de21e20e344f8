import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../protocol/types.js';
import { BadBytes, encodeStored } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anyColdRef, sampleColdRef } from './arbitrary.contract.js';
import { decodeColdRef, encodeColdRef } from './cold-ref.js';

describe('cold reference', () => {
  it('comes back as it was written', () => {
    fc.assert(fc.property(anyColdRef, (ref) => { expect(decodeColdRef(encodeColdRef(ref))).toEqual(ref); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodeColdRef(sampleColdRef()), decodeColdRef);
  });

  it('covers at least one byte below 2^53', () => {
    expect(() => encodeColdRef(sampleColdRef({ end: 1_000 as Offset }))).toThrow();
    const ref = (start: number, bytes: number): Buffer => encodeStored(1, null, (writer) => [start, bytes].forEach((value) => writer.varint(value)));
    expect(() => decodeColdRef(ref(4, 0))).toThrow(BadBytes);
    expect(() => decodeColdRef(ref(Number.MAX_SAFE_INTEGER, 1))).toThrow(BadBytes);
  });
});
