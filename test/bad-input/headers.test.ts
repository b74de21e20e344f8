/**
 * Every header that a request may carry, with every kind of bad value, from a raw socket (R085): the answer is the row's, nothing is stored, the connection goes on or is closed in good order.
 */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, OCTETS, onBoth } from '../support/stream.js';
import type { Stream, Surface } from '../support/stream.js';
import { badValues, expectOutcome, odd } from './odd.js';
import type { BadKind, Outcome } from './odd.js';

const node = useNode();

interface Tested {
  readonly name: string;
  readonly good: string;
  /** Other headers that the good value needs. */
  readonly beside?: readonly string[];
  /** What most kinds come to. */
  readonly otherwise: Outcome;
  readonly except?: Partial<Record<BadKind, Outcome>>;
  /** Two lines of the good value. */
  readonly doubled: Outcome;
  readonly surface?: Surface['name'];
}

/** No header of HTTP has them. */
const NEVER: Partial<Record<BadKind, Outcome>> = { 'control character': 'INVALID_REQUEST', 'delete character': 'INVALID_REQUEST' };
const key = (without: string): string[] => ['Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0'].filter((line) => !line.startsWith(without));

const OF_POST: readonly Tested[] = [
  {
    name: 'Content-Type', good: OCTETS, otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER',
    except: { 'wrong case': 204, 'leading zeros': 'CONTENT_TYPE_MISMATCH', 'plus sign': 'CONTENT_TYPE_MISMATCH', 'minus sign': 'CONTENT_TYPE_MISMATCH', fraction: 'CONTENT_TYPE_MISMATCH', exponent: 'CONTENT_TYPE_MISMATCH' },
  },
  // Only `true` counts, in any case; everything else is as if it had not been sent (CLO-10).
  { name: 'Stream-Closed', good: 'true', otherwise: 204, doubled: 204 },
  // Any visible ASCII is a value (SEQ-09).
  { name: 'Stream-Seq', good: '5', otherwise: 204, doubled: 'INVALID_HEADER', except: { empty: 'INVALID_HEADER', 'white space': 'INVALID_HEADER', huge: 'INVALID_HEADER', 'too long': 'INVALID_HEADER', 'non-ASCII': 'INVALID_HEADER', 'invalid UTF-8': 'INVALID_HEADER' } },
  { name: 'Stream-Incarnation', good: '4503599627370497', otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 'INCARNATION_MISMATCH' } },
  {
    name: 'Producer-Id', good: 'p', beside: key('Producer-Id'), otherwise: 200, doubled: 'INVALID_PRODUCER',
    except: { empty: 'INVALID_PRODUCER', 'white space': 'INVALID_PRODUCER', huge: 'INVALID_PRODUCER', 'too long': 'INVALID_PRODUCER', 'non-ASCII': 'INVALID_PRODUCER', 'invalid UTF-8': 'INVALID_PRODUCER' },
  },
  { name: 'Producer-Epoch', good: '0', beside: key('Producer-Epoch'), otherwise: 'INVALID_PRODUCER', doubled: 'INVALID_PRODUCER', except: { 'wrong case': 200, 'leading zeros': 200, 'too long': 200 } },
  { name: 'Producer-Seq', good: '0', beside: key('Producer-Seq'), otherwise: 'INVALID_PRODUCER', doubled: 'INVALID_PRODUCER', except: { 'wrong case': 200, 'leading zeros': 200, 'too long': 200 } },
  { name: 'Producer-Digest', good: 'ab'.repeat(32), beside: key(''), otherwise: 'INVALID_PRODUCER', doubled: 'INVALID_PRODUCER', surface: 'bucketed' },
];

const OF_PUT: readonly Tested[] = [
  { name: 'Content-Type', good: OCTETS, otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 201, 'leading zeros': 201, 'plus sign': 201, 'minus sign': 201, fraction: 201, exponent: 201 } },
  { name: 'Stream-Closed', good: 'true', otherwise: 201, doubled: 201 },
  // Any number of seconds without leading zeros is one (TTL-11).
  { name: 'Stream-TTL', good: '60', otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 201, huge: 201 } },
  { name: 'Stream-Expires-At', good: '2099-01-01T00:00:00Z', otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 201 } },
  { name: 'Stream-Incarnation', good: '4503599627370497', otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 'INCARNATION_MISMATCH' } },
  { name: 'Stream-Seq', good: '5', otherwise: 201, doubled: 'INVALID_HEADER', surface: 'bucketed', except: { empty: 'INVALID_HEADER', 'white space': 'INVALID_HEADER', huge: 'INVALID_HEADER', 'too long': 'INVALID_HEADER', 'non-ASCII': 'INVALID_HEADER', 'invalid UTF-8': 'INVALID_HEADER' } },
  // A key on a create is refused on one surface and nothing on the other, whatever it is (CRE-23).
  ...['Producer-Id', 'Producer-Epoch', 'Producer-Seq', 'Producer-Digest'].map((name): Tested => ({ name, good: '0', otherwise: 'INVALID_PRODUCER', doubled: 'INVALID_PRODUCER', surface: 'bucketed' })),
  ...['Stream-Seq', 'Producer-Id', 'Producer-Epoch', 'Producer-Seq', 'Producer-Digest'].map((name): Tested => ({ name, good: '0', otherwise: 201, doubled: 201, surface: 'base' })),
];

/** Every bad value of a header, with what it comes to. */
function casesOf({ good, name, otherwise, except, doubled }: Tested): (readonly [what: string, lines: readonly string[], wanted: Outcome])[] {
  const cases = Object.entries(badValues(good)).map(([kind, value]) => [`${name}: ${kind}`, [`${name}: ${value}`], NEVER[kind as BadKind] ?? except?.[kind as BadKind] ?? otherwise] as const);
  return [
    ...cases,
    [`${name}: doubled`, [`${name}: ${good}`, `${name.toUpperCase()}: ${good}`], doubled],
    [`${name}: name in another case, and empty`, [`${name.toLowerCase()}:`], except?.empty ?? otherwise],
    [`${name}: NUL`, [`${name}: ${good}\0`], 'INVALID_REQUEST'],
    [`${name}: CR`, [`${name}: ${good}\rStream-Closed: true`], 'INVALID_REQUEST'],
    [`${name}: folded onto a second line`, [`${name}: ${good}`, '\tStream-Closed: true'], 'INVALID_REQUEST'],
    [`${name}: space before the colon`, [`${name} : ${good}`], 'INVALID_REQUEST'],
    [`${name}: longer than all headers may be`, [`${name}: ${good.padEnd(40_000, good)}`], 'INVALID_REQUEST'],
  ];
}

onBoth('headers', (on) => {
  const applies = (tested: Tested): boolean => (tested.surface ?? on.name) === on.name;
  const request = (method: string, s: Stream, lines: readonly string[]): string[] => [`${method} ${s.path} HTTP/1.1`, ...lines];

  for (const tested of OF_POST.filter(applies)) {
    it(`R085 ${tested.name} of an append`, async () => {
      for (const [what, lines, wanted] of casesOf(tested)) {
        const s = fresh(node, on);
        await s.create({ type: OCTETS });
        const type = tested.name === 'Content-Type' ? [] : [`Content-Type: ${OCTETS}`];
        expectOutcome(what, await odd(node.url, request('POST', s, [...type, ...(tested.beside ?? []), ...lines]), 'body'), wanted);
        const head = await s.head();
        const applied = wanted === 200 || wanted === 204;
        expect([what, Number(head.next), head.closed]).toEqual([what, applied ? 4 : 0, tested.name === 'Stream-Closed' && what.endsWith('wrong case')]);
        // No key was used up by what was refused.
        if (tested.beside !== undefined && !applied) expect([what, (await s.append('next', { producer: ['p', 0, 0] })).status]).toEqual([what, 200]);
      }
    });
  }

  for (const tested of OF_PUT.filter(applies)) {
    it(`R085 ${tested.name} of a create`, async () => {
      for (const [what, lines, wanted] of casesOf(tested)) {
        const s = fresh(node, on);
        expectOutcome(what, await odd(node.url, request('PUT', s, lines), 'body'), wanted);
        const head = await s.head();
        expect([what, head.status]).toEqual([what, wanted === 201 ? 200 : 404]);
        if (wanted === 201) expect([what, head.closed]).toEqual([what, tested.name === 'Stream-Closed' && what.endsWith('wrong case')]);
      }
    });
  }

  it('R085 INC-14 Stream-Incarnation of everything that reads, deletes or publishes', async () => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS, body: 'abc' });
    const good = await s.token();
    const requests: [string, string][] = [['GET', ''], ['GET', '?offset=-1&live=long-poll'], ['GET', '?offset=-1&live=sse'], ['HEAD', ''], ['DELETE', '']];
    if (on.name === 'bucketed') requests.push(['GET', '/bootstrap'], ['PUT', '/snapshot/3'], ['GET', '/snapshot/3'], ['PUT', '/retention/0']);
    for (const [method, rest] of requests) {
      for (const [kind, value] of Object.entries(badValues(good))) {
        // Digits have one case.
        if (kind === 'wrong case') continue;
        const answer = await odd(node.url, [`${method} ${s.path}${rest} HTTP/1.1`, `Stream-Incarnation: ${value}`]);
        const wanted = method === 'HEAD' ? 400 : (NEVER[kind as BadKind] ?? 'INVALID_HEADER');
        expectOutcome(`${method} ${rest} ${kind}`, answer, wanted);
      }
      expectOutcome(`${method} ${rest} doubled`, await odd(node.url, [`${method} ${s.path}${rest} HTTP/1.1`, `Stream-Incarnation: ${good}`, `Stream-Incarnation: ${good}`]), method === 'HEAD' ? 400 : 'INVALID_HEADER');
    }
    const head = await s.head();
    expect([head.incarnation, head.header('stream-snapshot-offset'), (await s.read()).text]).toEqual([good, undefined, 'abc']);
  });

  it('R085 headers that only advise are as good as absent when they are bad', async () => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS, body: 'abc' });
    const advice: Record<string, string> = { 'If-None-Match': 'x', Range: 'bytes=0-0', 'If-Range': '"x"', 'Accept-Encoding': 'gzip', Accept: 'text/plain', Origin: 'https://a.example', Authorization: 'Bearer x', 'If-Match': '"x"', 'If-Modified-Since': 'x', 'Stream-Closed': 'true', 'Producer-Id': 'p', 'Stream-Seq': '1', 'Stream-TTL': '1' };
    for (const [name, good] of Object.entries(advice)) {
      for (const [kind, value] of Object.entries(badValues(good))) {
        const answer = await odd(node.url, [`GET ${s.path}?offset=-1 HTTP/1.1`, `${name}: ${value}`]);
        expectOutcome(`${name}: ${kind}`, answer, NEVER[kind as BadKind] ?? 200);
        if (answer.status === 200) expect([name, kind, answer.body]).toEqual([name, kind, 'abc']);
      }
    }
    expect((await s.head()).closed).toBe(false);
  });

  it('R085 Host, Expect, Content-Length and Transfer-Encoding', async () => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS });
    const post = `POST ${s.path} HTTP/1.1`;
    const type = `Content-Type: ${OCTETS}`;
    const length = 'Content-Length: 3';
    const cases: [readonly string[], Outcome][] = [
      [['Host: a', 'Host: b', length], 'INVALID_REQUEST'], [['Host: a', 'HOST: a', length], 'INVALID_REQUEST'],
      [['Expect: 100-Continue', length], 204], [['Expect:', length], 'EXPECTATION_FAILED'], [['Expect: 100', length], 'EXPECTATION_FAILED'], [['Expect: 100-continue, x', length], 'EXPECTATION_FAILED'], [['Expect: \xe9', length], 'EXPECTATION_FAILED'],
      [['Content-Length: -1'], 'INVALID_REQUEST'], [['Content-Length: +3'], 'INVALID_REQUEST'], [['Content-Length: 3.0'], 'INVALID_REQUEST'], [['Content-Length: 0x3'], 'INVALID_REQUEST'], [['Content-Length: 3 3'], 'INVALID_REQUEST'], [['Content-Length: 3, 3'], 'INVALID_REQUEST'], [['Content-Length:'], 'INVALID_REQUEST'], [['Content-Length: \xe9'], 'INVALID_REQUEST'],
      [[length, length], 'INVALID_REQUEST'], [[length, 'Content-Length: 4'], 'INVALID_REQUEST'], [['Content-Length: 99999999999999999999999'], 'INVALID_REQUEST'], [[length, 'Transfer-Encoding: chunked'], 'INVALID_REQUEST'], [['Content-Length: 9007199254740993'], 'REQUEST_TOO_LARGE'],
      [['Transfer-Encoding: gzip'], 'INVALID_REQUEST'], [['Transfer-Encoding: chunked, gzip'], 'INVALID_REQUEST'], [['Transfer-Encoding:'], 'INVALID_REQUEST'], [['Transfer-Encoding: \xe9'], 'INVALID_REQUEST'],
    ];
    for (const [lines, wanted] of cases) expectOutcome(JSON.stringify(lines), await odd(node.url, [post, type, ...lines], 'xyz'), wanted);
    expect((await s.read()).text).toBe('xyz');
    expect((await odd(node.url, [post, type, 'Content-Length: 0003'], 'abc')).status).toBe(204);
    expect((await s.read()).text).toBe('xyzabc');
  });
});
