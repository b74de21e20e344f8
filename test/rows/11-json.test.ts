/** Section 11 of the requirements: the text of JSON messages. */
import { describe, expect, it } from 'vitest';
import { hotOrCold } from '../support/cold-pass.js';
import { partsOf } from '../support/multipart.js';
import { useNode } from '../support/node.js';
import { dataOf } from '../support/sse.js';
import { fresh, JSON_TYPE, onBoth, twin } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

/** What is sealed is evicted at once. */
const node = useNode({ FIRN_HOT_KEEP_MS: '0' });

onBoth('JSON', (on) => {
  const stream = async (type = JSON_TYPE): Promise<Stream> => {
    const s = fresh(node, on);
    await s.create({ type });
    return s;
  };
  /** Sends each text as a message of its own and checks what is stored. */
  const expectStored = async (cases: readonly (readonly [sent: string, stored: string])[]): Promise<void> => {
    const s = await stream();
    for (const [sent] of cases) expect([sent, (await s.append(sent)).status]).toEqual([sent, 204]);
    expect((await s.read()).text).toBe(on.jsonRead(...cases.map(([, stored]) => stored)));
  };
  const expectRefused = async (bodies: readonly (string | Buffer)[]): Promise<void> => {
    const s = await stream();
    for (const body of bodies) {
      const answer = await s.append(body);
      expect([body.toString().slice(0, 60), answer.status, answer.code]).toEqual([body.toString().slice(0, 60), 400, 'INVALID_RECORD_BOUNDARIES']);
      const created = await fresh(node, on).create({ type: JSON_TYPE, body });
      expect([body.toString().slice(0, 60), created.status]).toEqual([body.toString().slice(0, 60), 400]);
    }
    expect(await s.tail()).toBe('0'.repeat(20));
  };
  const expectSame = (texts: readonly string[]) => expectStored(texts.map((text) => [text, text] as const));

  it('JSON-01 the rule holds for application/json with and without parameters, and for nothing else', async () => {
    const s = await stream('application/json; charset=utf-8');
    expect((await s.append('{ "a" : 1 }', { type: JSON_TYPE })).status).toBe(204);
    expect((await s.append('{bad', { type: JSON_TYPE })).status).toBe(400);
    expect((await s.read()).text).toBe(on.jsonRead('{"a":1}'));
    const t = await stream('application/problem+json');
    expect((await t.append('{ bad')).status).toBe(204);
    expect((await t.read()).text).toBe('{ bad');
  });

  it('JSON-02 invalid JSON answers 400', () =>
    expectRefused([
      '{a:1}', '01', '1.', '.5', '+1', 'NaN', '"\\x"', '"a\nb"', '{"a":1,}', '   ', '-', '1e', '1e+', '"\\u12g4"', '"unclosed', '[1,]', '{"a"}', '{,}', 'tru', 'nullx', "'a'", '{"a":1]', '[1}', 'Infinity', '0x10', '"\u0000"', '--1', '1..2', '{"a":1 "b":2}',
      '/*c*/1', '\u00a01', '\f1', '[1 2]', '{"a"::1}', '\\u0031', '"\\', '-01', '1E', '\u2028',
    ]));

  it('JSON-03 one body is one text', () => expectRefused(['{"a":1}\n{"b":2}', '1 2', '[] []', '{}x', '1,2']));

  it('JSON-04 R089 escapes of unpaired surrogates are stored as written', () =>
    expectSame(['"\\ud800"', '"\\udc00x"', '{"\\ud800":1}', '"\\uD83D\\uDE00"', '"\\uDE00\\uD83D"', '"\\ud83d\\ude00"']));

  it('JSON-05 R087 invalid UTF-8 answers 400', () =>
    expectRefused(
      [[0xff], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xe0, 0xa4], [0xf5, 0x80, 0x80, 0x80], [0x80], [0xf0, 0x80, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80]].map((bytes) => Buffer.from([0x22, ...bytes, 0x22])),
    ));

  it('JSON-06 after a 400 no message of the request is stored', async () => {
    const s = await stream();
    await s.append('1');
    const tail = await s.tail();
    expect((await s.append('[1,2,3,{"a":}]')).status).toBe(400);
    expect(await s.tail()).toBe(tail);
  });

  it('JSON-07 flattening comes first', async () => {
    const s = await stream();
    await s.append('[1,"x",null,{"a":1},true,false,-0]');
    expect((await s.read()).text).toBe(on.jsonRead('1', '"x"', 'null', '{"a":1}', 'true', 'false', '-0'));
  });

  it('JSON-08 JSON-09 white space goes outside strings and stays inside', () =>
    expectStored([
      ['{ "a" :\t1 ,\r\n "b" : [ 1 , 2 ] }', '{"a":1,"b":[1,2]}'],
      ['{"a b":" c  d "}', '{"a b":" c  d "}'],
      [' \n"x" \t', '"x"'],
      ['\t{ } ', '{}'],
      ['"a\\" b"', '"a\\" b"'],
      ['"\\\\" ', '"\\\\"'],
    ]));

  it('JSON-11 JSON-12 member order and duplicate names stay', () => expectSame(['{"b":1,"a":2}', '{"a":1,"a":2}', '{"":1,"":1}', '{"1":1,"0":0}', '{"__proto__":1}']));

  it('JSON-13 number text stays', () => expectSame(['1.50e3', '1e400', '-0', '1.0', '0.10E+05', '1234567890123456789012345678901234567890', '-1E-7', '0e0']));

  it('JSON-14 string text stays', () => expectSame(['"\\u0041\\/\\u00e9"', '"é😀"', '"\\b\\f\\n\\r\\t\\\\\\""', '"\u007f\u2028"', '"</script>"']));

  it('JSON-15 JSON-16 a message may be 127 deep, counted after flattening', async () => {
    const nest = (depth: number): string => '{"a":'.repeat(depth) + '1' + '}'.repeat(depth);
    const arrays = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    await expectSame([nest(127)]);
    const s = await stream();
    expect((await s.append(nest(128))).status).toBe(400);
    expect((await s.append(arrays(128))).status).toBe(204);
    expect((await s.append(arrays(129))).status).toBe(400);
    expect((await s.append(`[${nest(127)}]`)).status).toBe(204);
    expect((await s.append(`[${nest(128)}]`)).status).toBe(400);
    expect((await s.append(`[1,{"a":${arrays(127)}}]`)).status).toBe(400);
    expect((await s.read()).text).toBe(on.jsonRead(arrays(127), nest(127)));
  });

  it('JSON-17 a million brackets are refused cleanly', async () => {
    const s = await stream();
    expect((await s.append('['.repeat(1_000_000))).status).toBe(400);
    expect((await s.append('{"a":'.repeat(200_000))).status).toBe(400);
    expect((await s.append('1')).status).toBe(204);
  });

  it('JSON-19 JSON-18 an odd message is the same text in every representation', async () => {
    const texts = ['{"n":1.50e3,"n":1e400}', '"\\ud800"', '{"z":{"y":[1,{"x":"é"}]}}'];
    const s = await stream();
    await s.append(`[${texts.join(' , ')}]`);
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    const lines = texts.map((text) => `${text}\n`).join('');
    expect((await bucketed.read()).text).toBe(lines);
    expect((await twin(bucketed).read()).text).toBe(`[${texts.join(',')}]`);
    const sse = await bucketed.sse('-1');
    expect(dataOf(await sse.through())).toBe(lines);
    sse.close();
    const parts = partsOf(await bucketed.bootstrap()).slice(1);
    expect(parts.map((part) => part.body.toString())).toEqual(hotOrCold(texts.map((text) => `${text}\n`), []));
  });

  it('JSON-18 JSON-19 R089 the text is the same after it was sealed and evicted', async () => {
    const texts = ['"\\ud800"', '{"n":1.50e3,"n":1e400}', '"\\uD83D\\uDE00"', '{"\\udc00":"é😀"}'];
    const s = await stream();
    await s.append(`[${texts.join(' , ')}]`);
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    const seen = async () => {
      const sse = await s.sse('-1');
      const events = await sse.through();
      sse.close();
      return [(await s.read()).text, (await bucketed.all('-1', { max_bytes: 5 })).toString(), dataOf(events), (await bucketed.sub('GET', `incarnation/${await s.token()}/chunk/${'0'.repeat(20)}`)).text];
    };
    const hot = await seen();
    const lines = texts.map((text) => `${text}\n`).join('');
    expect(hot).toEqual([on.jsonRead(...texts), lines, on.jsonRead(...texts), lines]);
    await node.seal();
    const { hot: left } = (await node.ask('GET', `/__firn/streams${bucketed.path}`)) as { readonly hot: { readonly start: string } };
    expect(left.start).toBe(await s.tail());
    expect(await seen()).toEqual(hot);
  });

  it('JSON-20 JSON-21 offsets and tags are of the stored text, whatever was sent', async () => {
    const [s, t] = [await stream(), await stream()];
    const one = await s.append('[ {"a" : 1} , [ ] ]');
    const two = await t.append('[{"a":1},[]]');
    expect([Number(one.next), Number(two.next)]).toEqual([11, 11]);
    expect((await s.read({ offset: '8' })).text).toBe(on.jsonRead('[]'));
    const { next } = await s.append('"\\u0041"');
    expect(Number(next)).toBe(11 + 9);
    expect((await s.read({ offset: one.next })).text).toBe(on.jsonRead('"\\u0041"'));
    const tag = (await s.read({ offset: '8' })).need('etag');
    expect((await s.read({ offset: '8' }, { 'if-none-match': tag })).status).toBe(304);
    expect((await s.read({ offset: '0' })).header('etag')).not.toBe(tag);
  });

  it('JSON-23 timestamps inside messages change nothing', async () => {
    await expectSame(['{"t":2}', '{"t":1}']);
  });

  it('JSON-24 a byte order mark answers 400', () => expectRefused(['\u{feff}{}', '\u{feff}']));
});

describe('JSON on the bucketed surface', () => {
  it('JSON-10 JSON-20 JSON-21 each message ends with one LF, and offsets count the stored text', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE });
    const { next } = await s.append('{"a": 1}');
    const read = await s.read({ offset: '-1', max_bytes: 8 });
    expect([read.text, read.upToDate, read.next]).toEqual(['{"a":1}\n', true, next]);
    await s.append('[2,3]');
    expect((await s.read()).text).toBe('{"a":1}\n2\n3\n');
    for (let offset = 0; offset <= 12; offset += 1) {
      const boundary = [0, 8, 10, 12].includes(offset);
      const answer = await s.publish(String(offset), `at ${offset}`);
      expect([offset, answer.status]).toEqual([offset, boundary ? 204 : 400]);
    }
  });

  it('R087 a refused JSON body uses up no producer seq, and body pieces may split characters', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE });
    const refused = await s.append(Buffer.from([0x22, 0xff, 0x22]), { producer: ['p', 0, 0] });
    expect(refused.status).toBe(400);
    const text = Buffer.from('"水😀"');
    const { Readable } = await import('node:stream');
    const answer = await s.append(Readable.from([...text].map((byte) => Buffer.from([byte]))), { producer: ['p', 0, 0] });
    expect(answer.status).toBe(200);
    expect((await s.read()).text).toBe('"水😀"\n');
  });
});
