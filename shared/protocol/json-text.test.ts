import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FirnError } from './errors.js';
import { JSON_DEPTH_MAX, normalizeMessages } from './json-text.js';

const stored = (text: string | Buffer): string => normalizeMessages(Buffer.from(text), 'refused').toString();
const nested = (open: string, close: string, levels: number, inner = ''): string => open.repeat(levels) + inner + close.repeat(levels);

function codeOf(body: string | Buffer): string {
  try {
    normalizeMessages(Buffer.from(body), 'refused');
  } catch (error) {
    if (error instanceof FirnError && error.status === 400) return error.code;
    throw error;
  }
  return 'none';
}

/** A JSON text as pieces between which white space may stand, so that the text without it is known. */
type Tokens = readonly string[];

const stringToken = fc.array(
  fc.oneof(
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text).slice(1, -1)),
    fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\u0041', '\\ud800', '\\uDC00', '\\uD83D\\uDE00', ' ', '  ', '[', '}', ',', ':'),
  ), { maxLength: 4 }).map((parts) => `"${parts.join('')}"`);

const scalarToken = fc.oneof(
  stringToken,
  fc.constantFrom('null', 'true', 'false', '0', '-0', '1.50e3', '1e400', '1.0', '0.10E+05', '-12.5e-7', '1234567890123456789012345678901234567890'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);

const joined = (parts: readonly Tokens[]): string[] => parts.flatMap((part, i) => (i === 0 ? part : [',', ...part]));

const { value: anyTokens } = fc.letrec<{ value: Tokens; list: Tokens; object: Tokens }>((tie) => ({
  value: fc.oneof({ maxDepth: 5 }, scalarToken.map((token) => [token]), tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 4 }).map((parts) => ['[', ...joined(parts), ']']),
  object: fc.array(fc.tuple(stringToken, tie('value')), { maxLength: 4 })
    .map((members) => ['{', ...joined(members.map(([name, part]) => [name, ':', ...part])), '}']),
}));

const anySpace = fc.array(fc.constantFrom('', '', '', ' ', '\t', '\n', '\r\n', '    '), { minLength: 1, maxLength: 30 });

/** The tokens with white space between them, also in front and behind. */
function spaced(tokens: Tokens, spaces: readonly string[]): string {
  return tokens.map((token, i) => spaces[i % spaces.length]! + token).join('') + spaces[tokens.length % spaces.length]!;
}

/** What JSON.parse makes of the bytes; undefined: it refuses them. */
function reference(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    return undefined;
  }
}

describe('normalizeMessages', () => {
  it('JSON-08 .. JSON-14 keeps every token and drops what lies between', () => {
    fc.assert(fc.property(anyTokens, anySpace, (tokens, spaces) => {
      fc.pre(tokens[0] !== '[');
      expect(stored(spaced(tokens, spaces))).toBe(`${tokens.join('')}\n`);
    }), { numRuns: 500 });
  });

  it('APP-14 JSON-07 JSON-10 an array gives one line for each element', () => {
    fc.assert(fc.property(fc.array(anyTokens, { minLength: 1, maxLength: 6 }), anySpace, (messages, spaces) => {
      const tokens = ['[', ...joined(messages), ']'];
      expect(stored(spaced(tokens, spaces))).toBe(messages.map((message) => `${message.join('')}\n`).join(''));
    }), { numRuns: 500 });
  });

  it('JSON-02 takes exactly what JSON.parse takes, byte damage included', () => {
    const damage = fc.record({ at: fc.nat(), drop: fc.nat({ max: 2 }), put: fc.oneof(
      fc.constantFrom('', ',', ':', '"', '\\', '[', ']', '{', '}', '0', '-', '.', 'e', 'u', ' ', '\n', '\u0000', '\u0001').map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 2 }).map((bytes) => Buffer.from(bytes))) });
    fc.assert(fc.property(anyTokens, anySpace, fc.array(damage, { maxLength: 2 }), (tokens, spaces, faults) => {
      let body = Buffer.from(spaced(tokens, spaces));
      for (const { at, drop, put } of faults) {
        const from = at % (body.length + 1);
        body = Buffer.concat([body.subarray(0, from), put, body.subarray(from + drop)]);
      }
      const before = Buffer.from(body);
      const expected = reference(body);
      if (expected === undefined) {
        expect(codeOf(body)).toBe('INVALID_RECORD_BOUNDARIES');
      } else {
        const lines = normalizeMessages(body, 'allowed').toString().split('\n');
        expect(lines.pop()).toBe('');
        expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(Array.isArray(expected) ? expected : [expected]);
      }
      expect(body).toEqual(before);
    }), { numRuns: 3000 });
  });

  it('the property tests see what they claim to see', () => {
    expect(reference(Buffer.from('{"a":1}'))).toEqual({ a: 1 });
    expect(reference(Buffer.from('{"a":1'))).toBeUndefined();
    expect(spaced(['1'], [' '])).toBe(' 1 ');
  });

  it.each([
    ['{ "a" :\t1 ,\r\n "b" : [ 1 , 2 ] }', '{"a":1,"b":[1,2]}\n'],
    ['{"a b":" c  d "}', '{"a b":" c  d "}\n'],
    ['{"b":1,"a":2}', '{"b":1,"a":2}\n'],
    ['{"a":1,"a":2}', '{"a":1,"a":2}\n'],
    ['[{"a":1},{"b":2}]', '{"a":1}\n{"b":2}\n'],
    ['[[1,2],[3,4]]', '[1,2]\n[3,4]\n'],
    ['[[[1,2,3]]]', '[[1,2,3]]\n'],
    ['[1,"x",null,{"a":1}]', '1\n"x"\nnull\n{"a":1}\n'],
    ['[[]]', '[]\n'],
    ['[ [ ] , { } ]', '[]\n{}\n'],
    ['[1]', '1\n'],
    [' 7 ', '7\n'],
    ['"\\ud800"', '"\\ud800"\n'],
    ['{"\\udc00x":"\\uDC00"}', '{"\\udc00x":"\\uDC00"}\n'],
    ['"\\u0041\\/\\u00e9é"', '"\\u0041\\/\\u00e9é"\n'],
    ['"\u2028\u007f"', '"\u2028\u007f"\n'],
    [`[${'1,'.repeat(999)}1]`, '1\n'.repeat(1000)],
  ])('JSON-04 .. JSON-14 %s', (body, ndjson) => expect(stored(body)).toBe(ndjson));

  it.each(['', ' ', '\n', '{', '}', '[', ']', '{a:1}', '{"a"}', '{"a":}', '{"a" 1}', '{"a":1,}', '{,}', '{"a":1 "b":2}', '{"a":1,,"b":2}', '{1:2}', '{"a":1]', '[1}', '[1,]', '[,1]', '[1 2]',
    '[1', '[1,', '{"a":1', '{"a":1}x', '{"a":1}\n{"b":2}', '1 2', '1,', '01', '-', '-a', '1.', '.5', '+1', '1e', '1e+', '1.e3', '0x10', '1_0', 'NaN', 'Infinity', 'nul', 'nulll', 'True', 'tru', 'undefined',
    '"', '"a', '"\\"', '"\\x"', '"\\u12"', '"\\u123g"', '"\\u', '"\\', '"a\nb"', '"a\tb"', '"\u0000"', '"\u001f"', "'a'", '/**/1', '1//', '\u00a01', '\ufeff{}', '\u20281', '[{"a":1},{bad]'])(
    'JSON-02 JSON-03 APP-16 refuses %j', (body) => expect(codeOf(body)).toBe('INVALID_RECORD_BOUNDARIES'));

  it.each(['ff', '22ff22', '22c08022', '22eda08022', '22e28222', '22f09f9822', '22f880808022', 'efbbbf7b7d', '22f4908080' + '22'])(
    'JSON-05 JSON-24 R087 refuses the bytes %s', (hex) => expect(codeOf(Buffer.from(hex, 'hex'))).toBe('INVALID_RECORD_BOUNDARIES'));

  it('APP-15 CLO-15 CRE-16 an empty array is data in a creating body alone', () => {
    for (const body of ['[]', ' [ ] ', '[\n]']) {
      expect(codeOf(body)).toBe('EMPTY_APPEND');
      expect(normalizeMessages(Buffer.from(body), 'allowed')).toHaveLength(0);
    }
    for (const body of ['[]]', '[] []', '[],', '']) expect(() => normalizeMessages(Buffer.from(body), 'allowed')).toThrow(FirnError);
  });

  it('JSON-15 a message has at most 127 levels', () => {
    expect(codeOf(nested('{"a":', '}', JSON_DEPTH_MAX, '1'))).toBe('none');
    expect(codeOf(nested('{"a":', '}', JSON_DEPTH_MAX + 1, '1'))).toBe('INVALID_RECORD_BOUNDARIES');
    expect(codeOf(nested('{"a":', '}', JSON_DEPTH_MAX, '[]'))).toBe('INVALID_RECORD_BOUNDARIES');
  });

  it('JSON-16 an array body may be one level deeper', () => {
    expect(stored(nested('[', ']', 128))).toBe(`${nested('[', ']', 127)}\n`);
    expect(codeOf(nested('[', ']', 129))).toBe('INVALID_RECORD_BOUNDARIES');
    expect(codeOf(`[${nested('{"a":', '}', 127, '1')}]`)).toBe('none');
    expect(codeOf(`[1,${nested('{"a":', '}', 128, '1')}]`)).toBe('INVALID_RECORD_BOUNDARIES');
    expect(codeOf(nested('[', ']', 128, '1') + ' ')).toBe('none');
  });

  it('JSON-17 very deep input is refused without a stack', () => {
    expect(codeOf('['.repeat(1_000_000))).toBe('INVALID_RECORD_BOUNDARIES');
    expect(codeOf('{"a":'.repeat(1_000_000))).toBe('INVALID_RECORD_BOUNDARIES');
  });

  it('ERR-05 a refusal does not repeat the body', () => {
    for (const body of ['{"secret-marker":x}', '"secret-marker', 'secret-marker']) {
      expect(() => normalizeMessages(Buffer.from(body), 'refused')).not.toThrow(/secret-marker/);
    }
  });
});
