/**
 * Every query parameter with every kind of bad value, from a raw socket (R085), in each mode of reading: the answer is the row's, the connection goes on or is closed in good order.
 */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, OCTETS, onBoth } from '../support/stream.js';
import type { Stream } from '../support/stream.js';
import { badValues, expectOutcome, odd } from './odd.js';
import type { BadKind, Outcome } from './odd.js';

const node = useNode();
const BODY = '0123456789';

/** Kinds that no request target may hold as they are: refused before any parameter is looked at. */
const NOT_IN_A_TARGET: readonly BadKind[] = ['white space', 'inner space', 'two values', 'non-ASCII', 'invalid UTF-8', 'control character', 'delete character'];

interface Tested {
  readonly name: string;
  readonly good: string;
  readonly otherwise: Outcome;
  readonly except?: Partial<Record<BadKind, Outcome>>;
  readonly doubled: Outcome;
  /** Other parameters that the good value needs. */
  readonly beside: string;
}

const PARAMETERS: readonly Tested[] = [
  {
    name: 'offset', good: '5', beside: '', otherwise: 'INVALID_OFFSET', doubled: 'INVALID_QUERY',
    // Percent escapes are decoded, a position may have any padding (OFF-17), and there is one below zero.
    except: { 'wrong case': 200, 'leading zeros': 200, 'percent escapes': 200 },
  },
  { name: 'offset', good: 'now', beside: '', otherwise: 'INVALID_OFFSET', doubled: 'INVALID_QUERY', except: { 'percent escapes': 200 } },
  { name: 'live', good: 'long-poll', beside: 'offset=-1&', otherwise: 'INVALID_QUERY', doubled: 'INVALID_QUERY', except: { 'percent escapes': 200 } },
  { name: 'live', good: 'sse', beside: 'offset=-1&', otherwise: 'INVALID_QUERY', doubled: 'INVALID_QUERY', except: { 'percent escapes': 200 } },
  { name: 'consistency', good: 'leader', beside: 'offset=-1&', otherwise: 'INVALID_QUERY', doubled: 'INVALID_QUERY', except: { 'percent escapes': 200 } },
  ...['max_bytes', 'timeout_ms', 'cursor', 'Offset', 'LIVE', 'x', '__proto__', 'constructor', '%00', '%FF', '%zz', 'a%20b', ''].map((name): Tested => ({ name, good: '3', beside: 'offset=-1&', otherwise: 200, doubled: 200 })),
];

/** Every bad value of a parameter, with what it comes to. */
function casesOf({ name, good, otherwise, except, doubled }: Tested): (readonly [what: string, query: string, wanted: Outcome])[] {
  const cases = Object.entries(badValues(good)).map(([kind, value]) => {
    const refused = NOT_IN_A_TARGET.includes(kind as BadKind) || (kind === 'too long' && value.length > 8_000);
    // In a query a plus sign is a space.
    return [`${name}=${kind}`, `${name}=${value}`, refused ? 'INVALID_REQUEST' : (except?.[kind as BadKind] ?? otherwise)] as const;
  });
  const escaped = ['%00', '%0d%0a', '%FF', '%C3%28', '%zz', '%', '%2', '%2B5', '%205', '%2d5', 'null', 'undefined', '[]', '{}', "'", '%u0035', '5%00', 'NaN', 'Infinity', '-0'];
  return [
    ...cases,
    ...escaped.map((value) => [`${name}=${value}`, `${name}=${value}`, otherwise] as const),
    [`${name} without a value`, name, except?.empty ?? otherwise],
    [`${name} doubled`, `${name}=${good}&${name}=${good}`, doubled],
    [`${name} doubled, once escaped`, `${name}=${good}&%${name.charCodeAt(0).toString(16).padStart(2, '0')}${name.slice(1)}=${good}`, doubled],
  ];
}

async function expectAnswer(s: Stream, query: string, what: string, wanted: Outcome): Promise<void> {
  const answer = await odd(node.url, [`GET ${s.path}?${query} HTTP/1.1`]);
  expectOutcome(what, answer, wanted);
  if (typeof wanted === 'number' || answer.code === 'INVALID_REQUEST') return;
  expect([what, answer.headers['cache-control']]).toEqual([what, 'no-store']);
}

onBoth('queries', (on) => {
  const stream = async (): Promise<Stream> => {
    const s = fresh(node, on);
    // Closed, so that no live read waits.
    await s.create({ type: OCTETS, body: BODY, closed: true });
    return s;
  };

  it.each([...new Set(PARAMETERS.map(({ name }) => name))])('R085 READ-05 READ-21 READ-22 READ-24 LEAD-03 the parameter %j', async (name) => {
    const s = await stream();
    for (const tested of PARAMETERS.filter((one) => one.name === name)) {
      for (const [what, query, wanted] of casesOf(tested)) await expectAnswer(s, tested.beside + query, what, wanted);
    }
  });

  it('R085 LP-14 SSE-03 a bad offset of a live read is a plain answer too', async () => {
    const s = await stream();
    const offset = PARAMETERS[0]!;
    for (const live of ['long-poll', 'sse']) {
      for (const [what, query, wanted] of casesOf(offset)) await expectAnswer(s, `live=${live}&${query}`, `${live}: ${what}`, wanted);
      await expectAnswer(s, `live=${live}`, `${live} without an offset`, 'INVALID_QUERY');
    }
  });

  it('R085 SIZE-05 SIZE-11 LP-10 CACHE-14 what is ignored has no effect', async () => {
    const s = await stream();
    for (const [kind, value] of Object.entries(badValues('3'))) {
      if (NOT_IN_A_TARGET.includes(kind as BadKind) || kind === 'too long') continue;
      const counts = kind === 'wrong case' || kind === 'leading zeros' || kind === 'percent escapes';
      const answer = await odd(node.url, [`GET ${s.path}?offset=-1&max_bytes=${value} HTTP/1.1`]);
      expect([kind, answer.body]).toEqual([kind, counts ? BODY.slice(0, 3) : BODY]);
    }
    for (const query of ['&&&=&=&a', 'a=b=c', '?', 'offset', `y=${'z'.repeat(5_000)}`, '#offset=5', ';offset=5']) {
      const answer = await odd(node.url, [`GET ${s.path}?offset=-1&${query} HTTP/1.1`]);
      expect([query.slice(0, 20), answer.status, answer.body]).toEqual(query === 'offset' ? ['offset', 400, expect.any(String)] : [query.slice(0, 20), 200, BODY]);
    }
    expect((await odd(node.url, [`GET ${s.path}?offset=-1&y=${'z'.repeat(9_000)} HTTP/1.1`])).code).toBe('INVALID_REQUEST');
  });

  it('R085 a query changes nothing where none is read', async () => {
    const s = fresh(node, on);
    for (const [method, status] of [['PUT', 201], ['HEAD', 200], ['DELETE', 204]] as const) {
      const answer = await odd(node.url, [`${method} ${s.path}?offset=%zz&live=x&live=y&%FF HTTP/1.1`]);
      expect([method, answer.status]).toEqual([method, status]);
    }
    expect((await s.head()).status).toBe(404);
  });
});
