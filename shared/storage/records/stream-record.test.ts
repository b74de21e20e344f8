import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset } from '../../protocol/types.js';
import { BadBytes, encodeStored } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anyStreamRecord, sampleOrigin, sampleStreamRecord } from './arbitrary.contract.js';
import { copyStreamRecord, decodeStreamRecord, encodeStreamRecord } from './stream-record.js';

describe('stream record', () => {
  it('comes back as it was written', () => {
    fc.assert(fc.property(anyStreamRecord, (record) => { expect(decodeStreamRecord(encodeStreamRecord(record))).toEqual(record); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodeStreamRecord(sampleStreamRecord()), decodeStreamRecord);
    expectEveryDamageRefused(encodeStreamRecord(sampleStreamRecord({ origin: sampleOrigin, forks: 2, softDeleted: true })), decodeStreamRecord);
  });

  it('TTL-05 keeps an instant before 1970', () => {
    const record = sampleStreamRecord({ ttl: null, expiresAtMs: -1 });
    expect(decodeStreamRecord(encodeStreamRecord(record)).expiresAtMs).toBe(-1);
  });

  it('I1 is neither written nor read with frontiers out of order', () => {
    for (const changes of [
      { retained: 5_001 as Offset },
      { sealed: 5_001 as Offset },
      { hotStart: 4_001 as Offset },
      { closed: false },
      { expiresAtMs: 1 },
      { incarnation: 5 as Incarnation },
      { softDeleted: true },
      { origin: { ...sampleOrigin, at: 3_001 as Offset } },
    ]) {
      expect(() => encodeStreamRecord(sampleStreamRecord(changes))).toThrow('stream record');
    }
    expect(() => decodeStreamRecord(encodeStored(1, null, (writer) => [0, 2 ** 52, 0, 0, 5, 6, 5, 5, 0, 0, 0, 0].forEach((value) => writer.varint(value))))).toThrow(/retained 6 beyond tail 5/);
  });

  it('refuses numbers that no record has', () => {
    for (const changes of [{ tail: Number.NaN as Offset }, { createdAtMs: 1.5 }, { touchedAtMs: -1 }, { change: 2 ** 53 }]) {
      expect(() => encodeStreamRecord(sampleStreamRecord(changes))).toThrow();
    }
  });

  it('refuses fields, flags and bytes it does not know behind a good checksum', () => {
    const good = encodeStreamRecord(sampleStreamRecord({ snapshot: null, forks: 1 }));
    const fields = good.subarray(1, good.length - 4);
    expect(() => decodeStreamRecord(encodeStored(1, null, (writer) => writer.raw(Buffer.concat([fields, Buffer.from([0])]))))).toThrow('too many');
    const flags = Buffer.from(fields);
    // The last two bytes: flags and count of forks.
    flags[flags.length - 2] = 0xff;
    expect(() => decodeStreamRecord(encodeStored(1, null, (writer) => writer.raw(flags)))).toThrow('unknown flags');
    expect(() => decodeStreamRecord(encodeStored(2, null, (writer) => writer.raw(fields)))).toThrow('format version 2');
    for (let length = 0; length < fields.length; length++) {
      expect(() => decodeStreamRecord(encodeStored(1, null, (writer) => writer.raw(fields.subarray(0, length))))).toThrow(BadBytes);
    }
  });

  it('copies every member, whatever the record', () => {
    fc.assert(
      fc.property(anyStreamRecord, (record) => {
        const copy = copyStreamRecord(record);
        expect(copy).toEqual(record);
        expect(Object.keys(copy)).toEqual(Object.keys(decodeStreamRecord(encodeStreamRecord(record))));
        copy.tail = (record.tail + 1) as Offset;
        expect(record.tail).not.toBe(copy.tail);
      }),
    );
  });
});
