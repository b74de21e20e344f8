/**
 * Headers of forks and of snapshots in parts, and the list of a commit, with every kind of bad value, from a raw socket (R085): the answer is the row's, nothing is created, published or pinned.
 */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, OCTETS, onBoth, type Stream } from '../support/stream.js';
import { badValues, expectOutcome, odd, type BadKind, type Outcome } from './odd.js';

const node = useNode();

/** No header of HTTP has them. */
const NEVER: Partial<Record<BadKind, Outcome>> = { 'control character': 'INVALID_REQUEST', 'delete character': 'INVALID_REQUEST' };

interface Tested {
  readonly name: string;
  readonly good: string;
  readonly otherwise: Outcome;
  readonly except?: Partial<Record<BadKind, Outcome>>;
  readonly doubled: Outcome;
  /** Other headers of the request. */
  readonly beside: readonly string[];
}

function casesOf({ name, good, otherwise, except, doubled }: Tested): (readonly [what: string, lines: readonly string[], wanted: Outcome])[] {
  return [
    ...Object.entries(badValues(good)).map(([kind, value]) => [`${name}: ${kind}`, [`${name}: ${value}`], NEVER[kind as BadKind] ?? except?.[kind as BadKind] ?? otherwise] as const),
    [`${name}: doubled`, [`${name}: ${good}`, `${name.toUpperCase()}: ${good}`], doubled],
    [`${name}: NUL`, [`${name}: ${good}\0`], 'INVALID_REQUEST'],
    [`${name}: CR`, [`${name}: ${good}\rStream-Closed: true`], 'INVALID_REQUEST'],
    [`${name}: folded onto a second line`, [`${name}: ${good}`, '\tStream-Closed: true'], 'INVALID_REQUEST'],
    [`${name}: space before the colon`, [`${name} : ${good}`], 'INVALID_REQUEST'],
    [`${name}: longer than all headers may be`, [`${name}: ${good.padEnd(40_000, good)}`], 'INVALID_REQUEST'],
  ];
}

onBoth('fork headers', (on) => {
  const source = async (): Promise<Stream> => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS });
    await s.append('abcde');
    await s.append('fghij');
    return s;
  };
  /** The source is let go as one without forks. */
  const expectUnpinned = async (s: Stream): Promise<void> => {
    expect((await s.delete()).status).toBe(204);
    expect((await s.head()).status).toBe(404);
  };

  const judged = async (tested: (s: Stream) => Tested): Promise<number> => {
    const s = await source();
    const { beside } = tested(s);
    let cases = 0;
    for (const [what, lines, wanted] of casesOf(tested(s))) {
      cases++;
      const fork = fresh(node, on);
      expectOutcome(what, await odd(node.url, [`PUT ${fork.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, ...beside, ...lines]), wanted);
      const head = await fork.head();
      expect([what, head.status]).toEqual([what, wanted === 201 ? 200 : 404]);
      if (wanted === 201) expect([what, (await fork.delete()).status]).toEqual([what, 204]);
    }
    await expectUnpinned(s);
    return cases;
  };

  it('R085 FORK-36 Stream-Forked-From', async () => {
    expect(await judged((s) => ({
    name: 'Stream-Forked-From', good: s.path, beside: [], otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER',
    // Another name is another stream, which is not there; a name has only so many bytes.
    except: { fraction: 'STREAM_NOT_FOUND', exponent: 'STREAM_NOT_FOUND' },
  }))).toBeGreaterThan(20);
  });

  it('R085 FORK-13 FORK-40 Stream-Fork-Offset', async () => {
    expect(await judged((s) => ({
    // A position may have any padding (OFF-17).
    name: 'Stream-Fork-Offset', good: '5', beside: [`Stream-Forked-From: ${s.path}`], otherwise: 'INVALID_OFFSET', doubled: 'INVALID_OFFSET', except: { 'wrong case': 201, 'leading zeros': 201 },
  }))).toBeGreaterThan(20);
  });

  it('R085 FORK-06 Stream-Fork-Sub-Offset', async () => {
    expect(await judged((s) => ({
    name: 'Stream-Fork-Sub-Offset', good: '3', beside: [`Stream-Forked-From: ${s.path}`, 'Stream-Fork-Offset: 5'], otherwise: 'INVALID_HEADER', doubled: 'INVALID_HEADER', except: { 'wrong case': 201 },
  }))).toBeGreaterThan(20);
  });

  it('R085 FORK-33 FORK-40 fork headers without a source, sentinels, and on requests that are no create', async () => {
    const s = await source();
    for (const line of ['Stream-Fork-Offset: 5', 'Stream-Fork-Offset:', 'Stream-Fork-Sub-Offset: 1', 'Stream-Fork-Sub-Offset:', 'STREAM-FORK-SUB-OFFSET: 0']) {
      const fork = fresh(node, on);
      expectOutcome(line, await odd(node.url, [`PUT ${fork.path} HTTP/1.1`, line]), 'INVALID_HEADER');
      expect((await fork.head()).status).toBe(404);
    }
    for (const offset of ['-1', 'now', 'NOW', '5_5', `${'0'.repeat(16)}_${'5'.padStart(16, '0')}`, '18446744073709551616', '9007199254740993']) {
      const answer = await odd(node.url, [`PUT ${fresh(node, on).path} HTTP/1.1`, `Stream-Forked-From: ${s.path}`, `Stream-Fork-Offset: ${offset}`]);
      expect([offset, answer.status], offset).toEqual([offset, offset.length === 33 ? 201 : 400]);
    }
    for (const path of ['/', '//', `${s.path}?offset=5`, `${s.path}#x`, `${s.path}/`, `${s.path}/bootstrap/x`, `http://x${s.path}`, `${s.path}%00`, `${s.path}%zz`, `${s.path}/../x`, '/v1/stream/', '/v1/stream/__ds/subscriptions/x', '/__firn/healthz', 'x'.repeat(9_000)]) {
      const answer = await odd(node.url, [`PUT ${fresh(node, on).path} HTTP/1.1`, `Stream-Forked-From: ${path}`]);
      expect([path.slice(-30), answer.status], path.slice(-30)).toEqual([path.slice(-30), expect.toSatisfy((status: number) => status === 400 || status === 404)]);
    }
    // Elsewhere they say nothing.
    expect((await odd(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, 'Stream-Forked-From: \xe9', 'Stream-Fork-Offset: x'], 'k')).status).toBe(204);
    expect((await odd(node.url, [`GET ${s.path}?offset=-1 HTTP/1.1`, 'Stream-Forked-From: x'])).body).toBe('abcdefghijk');
  });
});

/** A stream with one staged part, and what is needed to commit it. */
async function staged(): Promise<{ readonly s: Stream; readonly id: string }> {
  const s = fresh(node);
  await s.create({ type: OCTETS, body: 'abcdef' });
  return { s, id: (await s.sub('POST', 'snapshot/3/parts', {}, 'part')).need('stream-snapshot-part') };
}

const DIGEST = 'ab'.repeat(32);

async function expectUnpublished(s: Stream): Promise<void> {
  expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
}

it('R085 Stream-Snapshot-Parts and Stream-Snapshot-Digest of a commit', async () => {
  const { s, id } = await staged();
  const tests: readonly Tested[] = [
    // The digest is right in form and of another snapshot, so what passes the form is refused by that.
    { name: 'Stream-Snapshot-Parts', good: '1', beside: [`Stream-Snapshot-Digest: ${DIGEST}`], otherwise: 'INVALID_PARTS_COMMIT', doubled: 'INVALID_PARTS_COMMIT', except: { 'wrong case': 'INVALID_PARTS_COMMIT' } },
    { name: 'Stream-Snapshot-Digest', good: DIGEST, beside: ['Stream-Snapshot-Parts: 1'], otherwise: 'INVALID_PARTS_COMMIT', doubled: 'INVALID_PARTS_COMMIT' },
  ];
  for (const tested of tests) {
    for (const [what, lines, wanted] of casesOf(tested)) {
      const answer = await odd(node.url, [`PUT ${s.path}/snapshot/3 HTTP/1.1`, `Content-Type: ${OCTETS}`, ...tested.beside, ...lines], `${id}\n`);
      if (what.endsWith(': wrong case') && tested.name === 'Stream-Snapshot-Parts') expect([what, answer.status]).toEqual([what, expect.toSatisfy((status: number) => status >= 400 && status < 500)]);
      else expectOutcome(what, answer, wanted);
    }
  }
  for (const lines of [['Stream-Snapshot-Parts: 1'], [`Stream-Snapshot-Parts: 0`, `Stream-Snapshot-Digest: ${DIGEST}`], ['Stream-Snapshot-Parts: 2', `Stream-Snapshot-Digest: ${DIGEST}`], ['Stream-Snapshot-Parts: 99999', `Stream-Snapshot-Digest: ${DIGEST}`]]) {
    expectOutcome(lines.join(), await odd(node.url, [`PUT ${s.path}/snapshot/3 HTTP/1.1`, `Content-Type: ${OCTETS}`, ...lines], `${id}\n`), 'INVALID_PARTS_COMMIT');
  }
  await expectUnpublished(s);
});

it('R085 the list of a commit', async () => {
  const { s, id } = await staged();
  const commit = (body: string, count = 1): ReturnType<typeof odd> =>
    odd(node.url, [`PUT ${s.path}/snapshot/3 HTTP/1.1`, `Content-Type: ${OCTETS}`, `Stream-Snapshot-Parts: ${count}`, `Stream-Snapshot-Digest: ${DIGEST}`, ...(body === '' ? ['Content-Length: 0'] : [])], body);
  const bad = ['', '\n', id, `${id}\r\n`, `${id}\n\n`, `\n${id}\n`, ` ${id}\n`, `${id} \n`, `${id}\0\n`, `\xef\xbb\xbf${id}\n`, `${id}\xe9\n`, `${id}\xff\n`, `${id}\x01\n`, `"${id}"\n`.repeat(2), `${'x'.repeat(5_000)}\n`];
  for (const body of bad) expectOutcome(JSON.stringify(body).slice(0, 60), await commit(body), 'INVALID_PARTS_COMMIT');
  expectOutcome('twice', await commit(`${id}\n${id}\n`, 2), 'INVALID_PARTS_COMMIT');
  // Right in form, and no part of this stream.
  for (const other of [id.toUpperCase(), `0${id}`, `${id}0`, '../../acked', '%2e%2e', id.replace('.part', '')]) {
    const answer = await commit(`${other}\n`);
    expect([other, answer.status, answer.code], other).toEqual([other, expect.toSatisfy((status: number) => status >= 400 && status < 500), expect.stringMatching(/PART/)]);
  }
  await expectUnpublished(s);
  // The part is still there to be committed: only the digest is another.
  expect((await commit(`${id}\n`)).code).toMatch(/DIGEST|PARTS/);
});

it('R085 offsets, queries and methods of parts', async () => {
  const { s } = await staged();
  const post = (path: string, lines: readonly string[] = []): ReturnType<typeof odd> => odd(node.url, [`POST ${path} HTTP/1.1`, ...lines], 'x');
  const inTarget: readonly BadKind[] = ['white space', 'inner space', 'two values', 'non-ASCII', 'invalid UTF-8', 'control character', 'delete character', 'too long'];
  const fine: readonly BadKind[] = ['wrong case', 'leading zeros', 'percent escapes'];
  for (const [kind, value] of Object.entries(badValues('3')) as [BadKind, string][]) {
    if (fine.includes(kind)) continue;
    expectOutcome(kind, await post(`${s.path}/snapshot/${value}/parts`), kind === 'empty' ? 'NOT_FOUND' : inTarget.includes(kind) ? 'INVALID_REQUEST' : 'INVALID_OFFSET');
  }
  for (const value of ['-1', 'now', '%00', '3%00', '%zz', '%0d%0a', '18446744073709551616']) expectOutcome(value, await post(`${s.path}/snapshot/${value}/parts`), 'INVALID_OFFSET');
  for (const rest of ['snapshot/3/Parts', 'snapshot/3/parts/', 'snapshot/3/parts/x', 'snapshot/3/%70arts', 'Snapshot/3/parts', 'snapshot//3/parts']) expectOutcome(rest, await post(`${s.path}/${rest}`), 'NOT_FOUND');
  for (const method of ['PUT', 'GET', 'DELETE', 'PATCH']) expect([method, (await odd(node.url, [`${method} ${s.path}/snapshot/3/parts HTTP/1.1`])).status]).toEqual([method, 405]);
  for (const method of ['GET', 'PUT', 'POST']) expect([method, (await odd(node.url, [`${method} ${s.path}/snapshot/parts HTTP/1.1`])).status]).toEqual([method, expect.toSatisfy((status: number) => status === 405 || status === 400)]);
  // No query is read: whatever it is, the part is staged, and the parts are dropped.
  for (const query of ['?', '?x', '?offset=%zz', '?offset=1&offset=2', '?%00', '?__proto__=x']) expect([query, (await post(`${s.path}/snapshot/3/parts${query}`)).status]).toEqual([query, 201]);
  for (const [kind, value] of Object.entries(badValues('4503599627370497'))) {
    if (kind === 'wrong case') continue;
    const wanted = NEVER[kind as BadKind] ?? 'INVALID_HEADER';
    expectOutcome(`token: ${kind}`, await post(`${s.path}/snapshot/3/parts`, [`Stream-Incarnation: ${value}`]), wanted);
    expectOutcome(`token: ${kind}`, await odd(node.url, [`DELETE ${s.path}/snapshot/parts HTTP/1.1`, `Stream-Incarnation: ${value}`]), wanted);
  }
  expect((await odd(node.url, [`DELETE ${s.path}/snapshot/parts?offset=%zz HTTP/1.1`])).status).toBe(204);
  await expectUnpublished(s);
});
