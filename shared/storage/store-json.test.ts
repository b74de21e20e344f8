import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from './codec.js';
import { SLOT_HASH, STORE_FORMAT, encodeSessionDocument, encodeStoreDocument, parseSessionDocument, parseStoreDocument, type SessionDocument, type StoreDocument } from './store-json.js';

const store: StoreDocument = { format: STORE_FORMAT, storeId: 'b7Qx-1', slotHash: SLOT_HASH, partitions: 4, cold: 's3', tokenKey: Buffer.alloc(32, 7) };
const session: SessionDocument = { format: STORE_FORMAT, partition: 0, session: 7, node: 'n0de', claimedAtMs: 1_700_000_000_000 };

const changed = (document: Buffer, changes: Record<string, unknown>): Buffer => Buffer.from(JSON.stringify({ ...(JSON.parse(document.toString()) as object), ...changes }));

describe('store.json', () => {
  it('comes back as it was written', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/), fc.integer({ min: 1, max: 1_024 }), fc.constantFrom('fs' as const, 's3' as const), (storeId, partitions, cold) => {
        const document = { ...store, storeId, partitions, cold, tokenKey: randomBytes(32) };
        expect(parseStoreDocument(encodeStoreDocument(document))).toEqual(document);
        expect(encodeStoreDocument(document).equals(encodeStoreDocument(document))).toBe(true);
      }),
    );
  });

  it('refuses every cut and every value that is not known', () => {
    const good = encodeStoreDocument(store);
    for (let length = 0; length < good.length - 1; length++) expect(() => parseStoreDocument(good.subarray(0, length))).toThrow(BadBytes);
    for (const changes of [{ format: 2 }, { slotHash: 'crc32c-17' }, { partitions: 0 }, { partitions: 1_025 }, { partitions: 1.5 }, { cold: 'none' }, { tokenKey: 'AAAA' }, { tokenKey: '***' }, { storeId: '' }, { storeId: 'a/b' }, { storeId: undefined }, { extra: 1 }]) {
      expect(() => parseStoreDocument(changed(good, changes))).toThrow(BadBytes);
    }
    for (const bytes of ['null', '[]', '7', '"x"']) expect(() => parseStoreDocument(Buffer.from(bytes))).toThrow(BadBytes);
    expect(() => parseStoreDocument(Buffer.from([0xff, 0xfe]))).toThrow(BadBytes);
    expect(() => parseStoreDocument(Buffer.alloc(70_000, 0x20))).toThrow(BadBytes);
  });

  it('is not written when it would not parse', () => {
    expect(() => encodeStoreDocument({ ...store, partitions: 0 })).toThrow();
    expect(() => encodeStoreDocument({ ...store, tokenKey: Buffer.alloc(31) })).toThrow();
  });
});

describe('session document', () => {
  it('comes back as it was written', () => {
    expect(parseSessionDocument(encodeSessionDocument(session))).toEqual(session);
  });

  it('refuses what is not known', () => {
    const good = encodeSessionDocument(session);
    for (const changes of [{ format: 2 }, { session: 262_144 }, { partition: -1 }, { node: '' }, { claimedAtMs: -1 }, { extra: 1 }]) expect(() => parseSessionDocument(changed(good, changes))).toThrow(BadBytes);
    for (let length = 0; length < good.length - 1; length++) expect(() => parseSessionDocument(good.subarray(0, length))).toThrow(BadBytes);
    expect(() => encodeSessionDocument({ ...session, session: -1 })).toThrow();
  });
});
