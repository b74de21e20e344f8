import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes, ByteReader, ByteWriter, decodeStored, encodeStored, STRING_BYTES_MAX } from './codec.js';
import { expectEveryDamageRefused } from './decoder.contract.js';

function written(write: (writer: ByteWriter) => void): Buffer {
  const writer = new ByteWriter(4);
  write(writer);
  return writer.take();
}

const readerOf = (bytes: Buffer | number[]): ByteReader => new ByteReader(Buffer.from(bytes), 'sample');

describe('varint', () => {
  it('comes back over the whole range, in the shortest form', () => {
    const borders = [0, 1, 127, 128, 16_383, 16_384, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 35 - 1, 2 ** 49, Number.MAX_SAFE_INTEGER];
    fc.assert(
      fc.property(fc.oneof(fc.maxSafeNat(), fc.constantFrom(...borders)), (value) => {
        const bytes = written((writer) => writer.varint(value));
        expect(bytes.length).toBe(Math.max(1, Math.ceil(BigInt(value).toString(2).length / 7)));
        const reader = readerOf(bytes);
        expect(reader.varint()).toBe(value);
        reader.end();
      }),
    );
  });

  it('refuses longer forms, more than 53 bits, and a cut', () => {
    expect(() => readerOf([0x80, 0x00]).varint()).toThrow('longer form');
    expect(() => readerOf([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10]).varint()).toThrow('allowed');
    expect(() => readerOf(Array.from({ length: 30 }, () => 0xff)).varint()).toThrow('2^53-1');
    expect(() => readerOf([0x80]).varint()).toThrow('cut short');
    expect(() => readerOf([5]).varint(4)).toThrow('at most 4');
    for (const value of [-1, 1.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY]) expect(() => written((writer) => writer.varint(value))).toThrow(RangeError);
  });

  it('zigzag carries the sign', () => {
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 52) + 1, max: 2 ** 52 - 1 }), (value) => {
        expect(readerOf(written((writer) => writer.zigzag(value))).zigzag()).toBe(value);
      }),
    );
  });
});

describe('fields', () => {
  it('come back in their order through a writer that grows', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.uint8Array({ maxLength: 5_000 }), fc.nat(0xffff), fc.nat(0xffff_ffff), fc.boolean(), (text, bytes, short, long, flag) => {
        const value = written((writer) => {
          writer.string(text);
          writer.bytes(bytes);
          writer.u16(short);
          writer.u32(long);
          writer.bool(flag);
          writer.hex('00ff', 2);
        });
        const reader = readerOf(value);
        expect([reader.string(), Buffer.from(reader.bytes(5_000)), reader.u16(), reader.u32(), reader.bool(), reader.hex(2)]).toEqual([text, Buffer.from(bytes), short, long, flag, '00ff']);
        reader.end();
      }),
    );
  });

  it('refuse lengths before anything is allocated for them', () => {
    const huge = written((writer) => writer.varint(Number.MAX_SAFE_INTEGER));
    expect(() => readerOf(huge).string()).toThrow('at most');
    expect(() => readerOf(huge).bytes(Number.MAX_SAFE_INTEGER)).toThrow('cut short');
    expect(() => readerOf(huge).count(Number.MAX_SAFE_INTEGER)).toThrow('items in 0 bytes');
    expect(() => readerOf([9, 1, 1]).count(10, 2)).toThrow('9 items in 2 bytes');
    expect(() => written((writer) => writer.string('a'.repeat(STRING_BYTES_MAX + 1)))).toThrow(RangeError);
  });

  it('refuse text that is not UTF-8 and truth values beyond 1', () => {
    for (const bytes of [[2, 0xc3, 0x28], [1, 0x80], [3, 0xed, 0xa0, 0x80], [2, 0xc0, 0xaf]]) expect(() => readerOf(bytes).string()).toThrow('UTF-8');
    expect(readerOf([4, 0xef, 0xbb, 0xbf, 0x61]).string()).toBe('\u{feff}a');
    expect(() => readerOf([2]).bool()).toThrow(BadBytes);
    expect(() => readerOf([1]).end()).toThrow('1 bytes too many');
  });
});

describe('stored values', () => {
  it('I9 refuses damage and unknown versions', () => {
    const value = encodeStored(7, 'some text', (writer, text) => writer.string(text));
    const decode = (bytes: Buffer): string => decodeStored(bytes, 'sample', 7, (reader) => reader.string());
    expect(decode(value)).toBe('some text');
    expectEveryDamageRefused(value, decode);
    expect(() => decodeStored(value, 'sample', 8, (reader) => reader.string())).toThrow('format version 7');
  });

  it('is usable again after a writer threw', () => {
    expect(() => encodeStored(1, null, (writer) => writer.varint(-1))).toThrow();
    expect(decodeStored(encodeStored(1, 'x', (writer, text) => writer.string(text)), 'sample', 1, (reader) => reader.string())).toBe('x');
  });
});
