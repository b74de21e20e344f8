import { describe, expect, it } from 'vitest';
import { isTrue, parseProducerClaim, parseStreamSeq } from './write-headers.js';

const digest = '0123456789abcdef'.repeat(4);
const all = { id: 'p', epoch: '0', seq: '0', digest: undefined };
const invalidProducer = expect.objectContaining({ code: 'INVALID_PRODUCER', status: 400 });

describe('write headers', () => {
  it('PROD-01 the three headers come together or not at all', () => {
    expect(parseProducerClaim({ id: undefined, epoch: undefined, seq: undefined, digest: undefined })).toBeNull();
    expect(parseProducerClaim(all)).toEqual({ id: 'p', epoch: 0, seq: 0, digest: null });
    for (let mask = 1; mask < 7; mask++) {
      const some = { id: mask & 1 ? 'p' : undefined, epoch: mask & 2 ? '0' : undefined, seq: mask & 4 ? '0' : undefined, digest: undefined };
      expect(() => parseProducerClaim(some)).toThrow(invalidProducer);
    }
  });

  it.each(['', 'a'.repeat(257), 'é', ' a', 'a ', '\ta', 'a\u0000b', 'a\nb', '\u007f'])('PROD-02 PROD-25 refuses the id %j', (id) => {
    expect(() => parseProducerClaim({ ...all, id })).toThrow(invalidProducer);
  });

  it.each(['a', 'a b', 'a\tb', '!~', 'a'.repeat(256)])('PROD-25 takes the id %j', (id) => expect(parseProducerClaim({ ...all, id })?.id).toBe(id));

  it.each(['', '-1', '+1', '1abc', '1e3', '1.0', '1.5', ' 1', '1, 1', '9007199254740992', '9007199254740993', '9'.repeat(400), '٣'])('PROD-03 PROD-25 refuses the number %j', (text) => {
    expect(() => parseProducerClaim({ ...all, epoch: text })).toThrow(invalidProducer);
    expect(() => parseProducerClaim({ ...all, seq: text })).toThrow(invalidProducer);
  });

  it.each([['007', 7], ['0', 0], ['00', 0], ['9007199254740991', Number.MAX_SAFE_INTEGER], [`${'0'.repeat(30)}9007199254740991`, Number.MAX_SAFE_INTEGER]])(
    'PROD-03 PROD-25 reads the number %s', (text, value) => {
      expect(parseProducerClaim({ ...all, epoch: text, seq: text })).toEqual({ id: 'p', epoch: value, seq: value, digest: null });
    });

  it('PROD-22 a digest is 64 lower-case hex digits beside the producer headers', () => {
    expect(parseProducerClaim({ ...all, digest })?.digest).toBe(digest);
    for (const bad of ['', digest.toUpperCase(), digest.slice(1), `${digest}0`, `${digest.slice(1)}g`, `${digest}, ${digest}`]) {
      expect(() => parseProducerClaim({ ...all, digest: bad })).toThrow(invalidProducer);
    }
    expect(() => parseProducerClaim({ id: undefined, epoch: undefined, seq: undefined, digest })).toThrow(invalidProducer);
  });

  it('SEQ-09 Stream-Seq is visible ascii', () => {
    expect(parseStreamSeq('0001')).toBe('0001');
    expect(parseStreamSeq('a b')).toBe('a b');
    for (const bad of ['', 'é', 'a'.repeat(257)]) expect(() => parseStreamSeq(bad)).toThrow(expect.objectContaining({ code: 'INVALID_HEADER' }));
  });

  it('CRE-18 CLO-10 only true counts', () => {
    for (const value of ['true', 'TRUE', 'True']) expect(isTrue(value)).toBe(true);
    for (const value of [undefined, '', 'false', '1', 'yes', 'true ', 'true, true']) expect(isTrue(value)).toBe(false);
  });
});
