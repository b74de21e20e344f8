import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes, decodeStored, encodeStored } from '../codec.js';
import { anyObjectId } from './arbitrary.contract.js';
import { objectKey, objectPrefix, parseObjectKey, readObjectId, sameObject, writeObjectId } from './object-id.js';
import type { ObjectId } from './types.js';

const numbers = (id: ObjectId): number[] => [id.partition, id.session, id.plan, id.attempt, id.part];

describe('object id', () => {
  it('comes back from its key and from its bytes', () => {
    fc.assert(
      fc.property(anyObjectId, (id) => {
        expect(parseObjectKey(objectKey(id))).toEqual(id);
        expect(objectKey(id).startsWith(objectPrefix(id.partition, id.kind))).toBe(true);
        expect(decodeStored(encodeStored(1, id, writeObjectId), 'object id', 1, readObjectId)).toEqual(id);
        expect(sameObject(id, { ...id })).toBe(true);
        expect(sameObject(id, { ...id, part: id.part + 1 })).toBe(false);
      }),
    );
  });

  it('has the key that docs/formats.md gives it', () => {
    expect(objectKey({ kind: 'segment', partition: 0, session: 3, plan: 41, attempt: 1, part: 2 })).toBe('partitions/0000/segments/0000-000003-0000000041-0001-00002');
  });

  it('sorts by key as by number within a kind', () => {
    fc.assert(
      fc.property(anyObjectId, anyObjectId, (a, b) => {
        const other = { ...b, kind: a.kind };
        const first = numbers(a).findIndex((value, index) => value !== numbers(other)[index]);
        const expected = first === -1 ? 0 : Math.sign((numbers(a)[first] as number) - (numbers(other)[first] as number));
        expect(Math.sign(Buffer.compare(Buffer.from(objectKey(a)), Buffer.from(objectKey(other))))).toBe(expected);
      }),
    );
  });

  it('takes nothing else for a key', () => {
    const good = 'partitions/0000/segments/0000-000003-0000000041-0001-00002';
    for (const bad of ['', 'store.json', `${good}0`, `x${good}`, good.replace('0000/', '0001/'), good.replace('segments', 'segment'), good.replaceAll('0000/', '2000/').replace('0000-', '2000-'), good.replace('000003', '999999')]) {
      expect(parseObjectKey(bad)).toBeNull();
    }
  });

  it('refuses numbers beyond the digits of the key', () => {
    const id = { kind: 'segment', partition: 0, session: 0, plan: 0, attempt: 0, part: 0 } as const;
    for (const changes of [{ partition: 1_024 }, { session: 262_144 }, { plan: 10_000_000_000 }, { attempt: 10_000 }, { part: 100_000 }, { part: -1 }, { plan: 1.5 }]) {
      expect(() => objectKey({ ...id, ...changes })).toThrow(RangeError);
      expect(() => encodeStored(1, { ...id, ...changes }, writeObjectId)).toThrow(RangeError);
    }
    expect(() => decodeStored(encodeStored(1, null, (writer) => writer.raw(Buffer.from([3, 0, 0, 0, 0, 0]))), 'object id', 1, readObjectId)).toThrow(BadBytes);
  });
});
