import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../protocol/types.js';
import { BadBytes, decodeStored, encodeStored } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anyNamedProducer, anyProducer, sampleProducer } from './arbitrary.contract.js';
import { decodeProducerRecord, encodeProducerRecord, readNamedProducer, writeNamedProducer } from './producer-record.js';

describe('producer record', () => {
  it('comes back as it was written, alone and with its id', () => {
    fc.assert(fc.property(anyProducer, (record) => { expect(decodeProducerRecord(encodeProducerRecord(record))).toEqual(record); }));
    fc.assert(fc.property(anyNamedProducer, (producer) => { expect(decodeStored(encodeStored(1, producer, writeNamedProducer), 'producer', 1, readNamedProducer)).toEqual(producer); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodeProducerRecord(sampleProducer()), decodeProducerRecord);
    expectEveryDamageRefused(encodeProducerRecord(sampleProducer({ lastDigest: null, closedSeq: -1 })), decodeProducerRecord);
  });

  it('refuses what cannot be', () => {
    expect(() => encodeProducerRecord(sampleProducer({ lastEnd: 1 as Offset }))).toThrow();
    expect(() => encodeProducerRecord(sampleProducer({ closedEpoch: -1 }))).toThrow();
    expect(() => encodeProducerRecord(sampleProducer({ firstDigest: 'xyz' }))).toThrow();
    expect(() => encodeProducerRecord(sampleProducer({ firstDigest: 'zz'.repeat(32) }))).toThrow();
    for (const flags of [64, 16, 18, 32]) {
      expect(() => decodeProducerRecord(encodeStored(1, null, (writer) => [flags, 1, 1, 1, 1, 1, 1].forEach((value) => writer.varint(value))))).toThrow(BadBytes);
    }
  });
});
