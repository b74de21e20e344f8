import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { anyCount, anyIncarnation, anyKey, anyTimeMs } from '../../../../shared/storage/records/arbitrary.contract.js';

import { BadBytes, encodeStored } from '../../../../shared/storage/codec.js';
import { subscriptionBaseRow, subscriptionCursorRow, subscriptionEndRow, subscriptionKeysRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow } from './index.js';
import { rowContract, valueContract } from './row.contract.js';

const anyId = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const anyNumber = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const anyCursor = fc.integer({ min: -1, max: 2 ** 50 });
const anyLink = fc.record({ incarnation: anyIncarnation, acked: anyCursor });
const anyText = fc.option(fc.string({ unit: 'grapheme', maxLength: 20 }));
const anyPast = fc.option(fc.integer({ min: 0, max: 2 ** 42 }));
const anyRecord = fc.record({
  number: anyNumber, pages: fc.integer({ min: 1, max: 1_000 }), type: fc.constantFrom('webhook' as const, 'pull-wake' as const), pattern: anyText, webhookUrl: anyText, wakeStream: fc.option(anyKey), leaseTtlMs: fc.nat(), description: anyText,
  digest: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex')), createdAtMs: fc.integer({ min: 0, max: 2 ** 42 }), origin: anyId, generation: anyCount,
  wake: fc.option(fc.record({ id: anyId, phase: fc.constantFrom('issued' as const, 'delivered' as const, 'claimed' as const), leaseUntilMs: anyPast, holder: anyText })), failures: fc.nat(), nextAttemptAtMs: anyPast,
});
const anyBytes = fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes));
const anyKeys = fc.record({
  nextNumber: anyCount, tokenSecret: anyBytes, signing: fc.array(fc.record({ privateKey: anyBytes, publicKey: anyBytes, createdAtMs: fc.nat(), retiredAtMs: fc.nat() }), { maxLength: 3 }), generationFloor: anyCount,
});

function kind<P extends readonly (number | string)[], V>(name: string, row: Parameters<typeof rowContract<P, V>>[1]): void {
  rowContract(name, row);
  valueContract(name, row);
}

kind('subscription', {
  kind: subscriptionRow.kind, parts: fc.tuple(anyId), key: ([id]) => subscriptionRow.key(id), decodeKey: (key) => [subscriptionRow.decodeKey(key).id] as [string],
  ranges: [{ fixed: 0, range: () => subscriptionRow.range() }], values: anyRecord, encode: subscriptionRow.encode, decode: subscriptionRow.decode,
});

kind('subscription end', {
  kind: subscriptionEndRow.kind, parts: fc.tuple(anyId), key: ([id]) => subscriptionEndRow.key(id), decodeKey: (key) => [subscriptionEndRow.decodeKey(key).id] as [string],
  ranges: [{ fixed: 0, range: () => subscriptionEndRow.range() }], values: fc.record({ generation: anyCount, number: anyNumber, atMs: anyTimeMs.map(Math.abs) }), encode: subscriptionEndRow.encode, decode: subscriptionEndRow.decode,
});

kind('subscription base', {
  kind: subscriptionBaseRow.kind, parts: fc.tuple(anyNumber, anyNumber), key: ([number, page]) => subscriptionBaseRow.key(number, page),
  decodeKey: (key) => {
    const { number, page } = subscriptionBaseRow.decodeKey(key);
    return [number, page] as [number, number];
  },
  ranges: [{ fixed: 1, range: ([number]) => subscriptionBaseRow.range(number) }], values: fc.array(anyLink, { maxLength: 5 }), encode: subscriptionBaseRow.encode, decode: subscriptionBaseRow.decode,
});

kind('subscription cursor', {
  kind: subscriptionCursorRow.kind, parts: fc.tuple(anyNumber, anyIncarnation), key: ([number, incarnation]) => subscriptionCursorRow.key(number, incarnation),
  decodeKey: (key) => {
    const { number, incarnation } = subscriptionCursorRow.decodeKey(key);
    return [number, incarnation] as [number, typeof incarnation];
  },
  ranges: [{ fixed: 1, range: ([number]) => subscriptionCursorRow.range(number) }], values: anyCursor, encode: subscriptionCursorRow.encode, decode: subscriptionCursorRow.decode,
});

kind('subscription link', {
  kind: subscriptionLinkRow.kind, parts: fc.tuple(anyNumber, anyKey), key: ([number, key]) => subscriptionLinkRow.key(number, key),
  decodeKey: (row) => {
    const { number, key } = subscriptionLinkRow.decodeKey(row);
    return [number, key] as [number, StreamKey];
  },
  ranges: [{ fixed: 1, range: ([number]) => subscriptionLinkRow.range(number) }], values: anyLink, encode: subscriptionLinkRow.encode, decode: subscriptionLinkRow.decode,
});

kind('subscription keys', {
  kind: subscriptionKeysRow.kind, parts: fc.tuple(anyId), key: ([name]) => subscriptionKeysRow.key(name), decodeKey: (key) => [subscriptionKeysRow.decodeKey(key).name] as [string],
  ranges: [{ fixed: 0, range: () => subscriptionKeysRow.range() }], values: anyKeys, encode: subscriptionKeysRow.encode, decode: subscriptionKeysRow.decode,
});

rowContract('subscription logged', {
  kind: subscriptionLoggedRow.kind, parts: fc.tuple(anyId), key: ([id]) => subscriptionLoggedRow.key(id), decodeKey: (key) => [subscriptionLoggedRow.decodeKey(key).id] as [string],
  ranges: [{ fixed: 0, range: () => subscriptionLoggedRow.range() }], values: fc.constant(undefined), encode: () => subscriptionLoggedRow.encode(), decode: (value) => subscriptionLoggedRow.decode(value) ?? undefined,
});

it('reads the keys of a version without a floor', () => {
  fc.assert(fc.property(anyKeys, (keys) => {
    const before = encodeStored(1, keys, (writer, { nextNumber, tokenSecret, signing }) => {
      writer.varint(nextNumber);
      writer.bytes(tokenSecret);
      writer.varint(signing.length);
      for (const { privateKey, publicKey, createdAtMs, retiredAtMs } of signing) {
        writer.bytes(privateKey);
        writer.bytes(publicKey);
        writer.varint(createdAtMs);
        writer.varint(retiredAtMs);
      }
    });
    expect(subscriptionKeysRow.decode(before)).toEqual({ ...keys, generationFloor: 0 });
  }));
  expect(() => subscriptionKeysRow.decode(encodeStored(3, null, () => undefined))).toThrow(BadBytes);
  expect(() => subscriptionLoggedRow.decode(Buffer.from('x'))).toThrow(BadBytes);
});

it('refuses a subscription of an unknown type and one without a page', () => {
  const value = (pages: number, type: number): Buffer => encodeStored(1, null, (writer) => {
    writer.varint(1);
    writer.varint(pages);
    writer.u8(type);
  });
  for (const bad of [value(0, 0), value(1, 2)]) expect(() => subscriptionRow.decode(bad)).toThrow(BadBytes);
});
