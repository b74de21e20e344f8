import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from './codec.js';
import { crc32c } from './crc.js';
import { expectEveryDamageRefused } from './decoder.contract.js';
import { anySnapshot, sampleStreamRecord } from './records/arbitrary.contract.js';
import type { SnapshotRecord } from './records/types.js';
import { SMALL_SNAPSHOT_BYTES_MAX, decodeSnapshotBody, encodeSnapshotBody } from './snapshot-body.js';

const sample = sampleStreamRecord().snapshot as SnapshotRecord;
const of = (record: SnapshotRecord, body: Buffer): SnapshotRecord => ({ ...record, bytes: body.length, crc: crc32c(body) });

describe('snapshot body', () => {
  it('comes back with its identity', () => {
    fc.assert(
      fc.property(anySnapshot, fc.uint8Array({ maxLength: 2_000 }), (record, bytes) => {
        const body = Buffer.from(bytes);
        const { hot: _hot, cold: _cold, ...identity } = of(record, body);
        expect(decodeSnapshotBody(encodeSnapshotBody(of(record, body), body))).toEqual({ ...identity, body });
      }),
    );
  });

  it('I9 refuses every cut and every flipped bit', () => {
    for (const body of [Buffer.alloc(0), Buffer.from('{"total":9}')]) expectEveryDamageRefused(encodeSnapshotBody(of(sample, body), body), decodeSnapshotBody);
  });

  it('I3 takes only the body that was published', () => {
    const body = Buffer.from('{"total":9}');
    expect(() => encodeSnapshotBody(of(sample, body), Buffer.from('{"total":8}'))).toThrow(BadBytes);
    expect(() => encodeSnapshotBody(of(sample, body), body.subarray(1))).toThrow(BadBytes);
    const large = Buffer.alloc(SMALL_SNAPSHOT_BYTES_MAX + 1);
    expect(() => encodeSnapshotBody(of(sample, large), large)).toThrow(RangeError);
  });
});
