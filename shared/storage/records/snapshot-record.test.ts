import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes, encodeStored } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anySnapshot, sampleColdRef, sampleStreamRecord } from './arbitrary.contract.js';
import { decodeSnapshotRecord, encodeSnapshotRecord } from './snapshot-record.js';
import type { SnapshotRecord } from './types.js';

const sample = sampleStreamRecord().snapshot as SnapshotRecord;

describe('snapshot record', () => {
  it('comes back as it was written', () => {
    fc.assert(fc.property(anySnapshot, (record) => { expect(decodeSnapshotRecord(encodeSnapshotRecord(record))).toEqual(record); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodeSnapshotRecord(sample), decodeSnapshotRecord);
    const { start: _start, end: _end, ...ref } = sampleColdRef();
    expectEveryDamageRefused(encodeSnapshotRecord({ ...sample, hot: { at: 'inline' }, cold: { at: 'block', ref } }), decodeSnapshotRecord);
  });

  it('SNAP-35 takes only a whole digest, and only known places', () => {
    expect(() => encodeSnapshotRecord({ ...sample, digest: 'ab' })).toThrow();
    const good = encodeSnapshotRecord({ ...sample, hot: null, cold: null });
    for (const place of [good.length - 5, good.length - 6]) {
      const fields = Buffer.from(good.subarray(1, good.length - 4));
      fields[place - 1] = 3;
      expect(() => decodeSnapshotRecord(encodeStored(1, null, (writer) => writer.raw(fields)))).toThrow(BadBytes);
    }
  });
});
