/** Snapshots that are uploaded in parts (requirements section 18). */
import { createBLAKE3 } from 'hash-wasm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesBelow } from '../support/damage.js';
import type { Answer, Body, Headers } from '../support/http.js';
import { FirnNode, useNode } from '../support/node.js';
import { raw, RawConnection } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, sleep, Stream, TEXT } from '../support/stream.js';

const node = useNode();
const DIGEST = '0'.repeat(64);

const stream = async (type = OCTETS, body = 'abcdefghij') => {
  const s = fresh(node);
  await s.create({ type, body });
  return s;
};

async function digestOf(type: string, ...bodies: readonly (string | Buffer)[]): Promise<string> {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(type)));
  const hash = (await createBLAKE3()).init().update(length).update(type);
  for (const body of bodies) hash.update(body);
  return hash.digest('hex');
}

const upload = (s: Stream, offset: string, body: Body, headers: Headers = {}): Promise<Answer> => s.sub('POST', `snapshot/${offset}/parts`, headers, body);

async function staged(s: Stream, ...bodies: readonly (string | Buffer)[]): Promise<string[]> {
  const ids: string[] = [];
  for (const body of bodies) ids.push((await upload(s, '5', body)).need('stream-snapshot-part'));
  return ids;
}

const listed = (ids: readonly string[]): string => ids.map((id) => `${id}\n`).join('');

function commit(s: Stream, ids: readonly string[], digest: string, { offset = '5', type = TEXT, headers = {} as Headers, body = listed(ids) } = {}): Promise<Answer> {
  return s.publish(offset, body, type, { 'stream-snapshot-parts': String(ids.length), 'stream-snapshot-digest': digest, ...headers });
}

const outcome = (answer: Answer): readonly [number, string] => [answer.status, answer.status >= 400 ? answer.code : ''];

describe('upload of a part', () => {
  it('PATH-03 INC-01 answers 201 with an id, and shows nothing yet', async () => {
    const s = await stream();
    const answer = await upload(s, '5', 'a part');
    expect([answer.status, answer.body.length, answer.incarnation, answer.header('cache-control')]).toEqual([201, 0, await s.token(), 'no-store']);
    expect(answer.need('stream-snapshot-part')).toMatch(/^[0-9a-f]{32}-[0-9a-f]{16}\.part$/);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
    expect((await s.sub('GET', 'snapshot/5')).status).toBe(404);
  });

  it('SNAP-04 SNAP-05 SNAP-07 SNAP-08 INC-11 is refused as a publish at that offset would be', async () => {
    const s = await stream();
    expect(outcome(await upload(s, 'xyz', 'x'))).toEqual([400, 'INVALID_OFFSET']);
    expect(outcome(await upload(fresh(node), '0', 'x'))).toEqual([404, 'STREAM_NOT_FOUND']);
    const wrong = { 'stream-incarnation': '4503599627370497' };
    expect(outcome(await upload(s, '11', 'x', wrong))).toEqual([409, 'SNAPSHOT_CONFLICT']);
    await s.publish('5', 'x');
    await s.retain('5');
    expect(outcome(await upload(s, '4', 'x', wrong))).toEqual([410, 'STREAM_GONE']);
    expect(outcome(await upload(s, '5', 'x', wrong))).toEqual([412, 'INCARNATION_MISMATCH']);
    expect((await upload(s, '5', 'x', { 'stream-incarnation': await s.token() })).status).toBe(201);
  });

  it('APP-18 SNAP-11 is one request body: 32 MiB, and 413 above', async () => {
    const s = await stream();
    const answer = await raw(node.url, [`POST ${s.path}/snapshot/5/parts HTTP/1.1`, 'Content-Length: 33554433']);
    expect([answer.status, answer.headers['ursula-max-request-bytes']]).toEqual([413, '33554432']);
    expect((await upload(s, '5', Buffer.alloc(33_554_432))).status).toBe(201);
    await s.sub('DELETE', 'snapshot/parts');
  });

  it('PATH-06 other methods answer 405', async () => {
    const s = await stream();
    for (const [method, path, allow] of [['GET', 'snapshot/5/parts', 'POST, OPTIONS'], ['PUT', 'snapshot/5/parts', 'POST, OPTIONS'], ['GET', 'snapshot/parts', 'DELETE, OPTIONS'], ['PUT', 'snapshot/parts', 'DELETE, OPTIONS']] as const) {
      const answer = await s.sub(method, path);
      expect([method, path, answer.status, answer.header('allow')]).toEqual([method, path, 405, allow]);
    }
  });

  it('a body that breaks off leaves no part and no file', async () => {
    const s = await stream();
    const before = filesBelow(`${node.dataDir}/staging`);
    const connection = await RawConnection.open(node.url);
    connection.write(`POST ${s.path}/snapshot/5/parts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n${'x'.repeat(500_000)}`);
    await sleep(200);
    connection.destroy();
    await expect.poll(() => filesBelow(`${node.dataDir}/staging`)).toEqual(before);
  });

  it('a stream has 8,192 parts at most, then 429 naming the limit; a discard makes room', { timeout: 180_000 }, async () => {
    const s = await stream();
    const lane = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n += 1) expect((await upload(s, '5', 'p')).status).toBe(201);
    };
    await Promise.all(Array.from({ length: 32 }, () => lane(256)));
    const over = await upload(s, '5', 'p');
    expect([outcome(over), over.header('ursula-max-staged-parts')]).toEqual([[429, 'STAGED_PARTS_LIMIT'], '8192']);
    expect((await upload(await stream(), '5', 'p')).status).toBe(201);
    expect((await s.sub('DELETE', 'snapshot/parts')).status).toBe(204);
    expect((await upload(s, '5', 'p')).status).toBe(201);
  });

  it('a stream has 2 GiB staged at most: a part that would exceed them is refused by its length', async () => {
    const s = await stream();
    const connections: RawConnection[] = [];
    // Under way counts: 64 parts of 32 MiB that send nothing yet.
    for (let n = 0; n < 64; n += 1) {
      const connection = await RawConnection.open(node.url);
      connection.write(`POST ${s.path}/snapshot/5/parts HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 33554432\r\n\r\n`);
      expect(await connection.until((text) => text.includes('100 Continue'))).toBe(true);
      connections.push(connection);
    }
    const over = await upload(s, '5', 'p');
    expect([outcome(over), over.header('ursula-max-staged-bytes')]).toEqual([[429, 'STAGED_PARTS_LIMIT'], '2147483648']);
    for (const connection of connections) connection.destroy();
    await expect.poll(async () => (await upload(s, '5', 'p')).status).toBe(201);
  });
});

describe('commit', () => {
  it('SNAP-16 SNAP-21 SNAP-24 SNAP-34 SNAP-35 publishes the parts in the order of the list as one snapshot', async () => {
    const s = await stream();
    const [c, a, b] = await staged(s, 'three', Buffer.alloc(700_000, 'one'), Buffer.alloc(700_000, 'two'));
    const whole = Buffer.concat([Buffer.alloc(700_000, 'one'), Buffer.alloc(700_000, 'two'), Buffer.from('three')]);
    const digest = await digestOf(TEXT, whole);
    const answer = await commit(s, [a!, b!, c!], digest);
    expect([answer.status, answer.body.length, answer.header('stream-snapshot-digest'), Number(answer.need('stream-snapshot-offset')), answer.incarnation]).toEqual([204, 0, digest, 5, await s.token()]);
    expect((await s.head()).header('stream-snapshot-digest')).toBe(digest);
    const read = await s.sub('GET', 'snapshot/5');
    expect([read.status, read.header('content-type'), read.header('etag'), read.body.equals(whole)]).toEqual([200, TEXT, `"${digest}"`, true]);
    const range = await s.sub('GET', 'snapshot/5', { range: 'bytes=699999-700001' });
    expect([range.status, range.text, range.header('content-range')]).toEqual([206, whole.subarray(699_999, 700_002).toString(), `bytes 699999-700001/${whole.length}`]);
    expect((await s.bootstrap()).body.includes(whole)).toBe(true);
    expect(filesBelow(`${node.dataDir}/staging`).filter((name) => name.includes(Buffer.from(s.path.slice(1)).toString('base64url')) && name.endsWith('.part'))).toEqual([]);
  });

  it('SNAP-15 SNAP-31 octets by default, small and empty ones too', async () => {
    const s = await stream();
    const [empty] = await staged(s, '');
    const answer = await s.publish('5', `${empty}\n`, null, { 'stream-snapshot-parts': '1', 'stream-snapshot-digest': await digestOf(OCTETS) });
    expect(answer.status).toBe(204);
    const read = await s.sub('GET', 'snapshot/5');
    expect([read.status, read.header('content-type'), read.body.length]).toEqual([200, OCTETS, 0]);
  });

  it('SNAP-18 SNAP-19 SNAP-30 offset and digest decide before the body is looked at', async () => {
    const s = await stream();
    const digest = (await s.publish('5', 'five', TEXT)).need('stream-snapshot-digest');
    expect((await commit(s, ['no-such-part'], digest)).status).toBe(204);
    expect((await commit(s, [], digest, { headers: { 'stream-snapshot-parts': '7' }, body: 'nonsense' })).status).toBe(204);
    const other = await commit(s, ['no-such-part'], DIGEST);
    expect([outcome(other), other.header('stream-snapshot-digest')]).toEqual([[409, 'SNAPSHOT_CONFLICT'], digest]);
    expect(outcome(await commit(s, ['x'], DIGEST, { offset: '4' }))).toEqual([409, 'SNAPSHOT_CONFLICT']);
    await s.publish('7', 'seven', TEXT);
    expect(outcome(await commit(s, ['x'], digest))).toEqual([204, '']);
    const waiting = await raw(node.url, [`PUT ${s.path}/snapshot/5 HTTP/1.1`, 'Expect: 100-continue', 'Content-Length: 55', `Content-Type: ${TEXT}`, 'Stream-Snapshot-Parts: 1', `Stream-Snapshot-Digest: ${digest}`]);
    expect([waiting.status, waiting.wire.includes('100 Continue')]).toEqual([204, false]);
  });

  it('SNAP-32 INC-11 state first, the incarnation last, and both before the list', async () => {
    const json = await stream(JSON_TYPE, '{"a":1}');
    const wrong = { 'stream-incarnation': '4503599627370497' };
    expect(outcome(await commit(json, ['x'], DIGEST, { offset: '9', headers: wrong }))).toEqual([409, 'SNAPSHOT_CONFLICT']);
    expect(outcome(await commit(json, ['x'], DIGEST, { offset: '3', headers: wrong }))).toEqual([400, 'NOT_JSON_BOUNDARY']);
    expect(outcome(await commit(json, ['x'], DIGEST, { offset: '0', headers: wrong }))).toEqual([412, 'INCARNATION_MISMATCH']);
    expect(outcome(await commit(fresh(node), ['x'], DIGEST))).toEqual([404, 'STREAM_NOT_FOUND']);
    expect(outcome(await commit(json, ['x'], DIGEST, { offset: 'now' }))).toEqual([400, 'INVALID_OFFSET']);
  });

  it('a list or headers that are not valid answer 400 INVALID_PARTS_COMMIT', async () => {
    const s = await stream();
    const [a, b] = await staged(s, 'a', 'b');
    const bad: readonly [string, Headers, string?][] = [
      ['no parts', { 'stream-snapshot-parts': '0' }], ['too many', { 'stream-snapshot-parts': '4097' }], ['no number', { 'stream-snapshot-parts': 'two' }], ['zeros', { 'stream-snapshot-parts': '02' }],
      ['twice', { 'stream-snapshot-parts': ['2', '2'] }], ['short digest', { 'stream-snapshot-digest': 'abc' }], ['upper case', { 'stream-snapshot-digest': 'A'.repeat(64) }],
      ['another number', { 'stream-snapshot-parts': '3' }], ['no last LF', {}, `${a}\n${b}`], ['repeat', {}, `${a}\n${a}\n`], ['empty', {}, ''], ['CRLF', {}, `${a}\r\n${b}\r\n`],
    ];
    for (const [what, headers, body] of bad) expect([what, ...outcome(await commit(s, [a!, b!], DIGEST, { headers, ...(body === undefined ? {} : { body }) }))]).toEqual([what, 400, 'INVALID_PARTS_COMMIT']);
    expect(outcome(await s.publish('5', `${a}\n`, TEXT, { 'stream-snapshot-parts': '1' }))).toEqual([400, 'INVALID_PARTS_COMMIT']);
    const long = await raw(node.url, [`PUT ${s.path}/snapshot/5 HTTP/1.1`, 'Content-Length: 266241', 'Stream-Snapshot-Parts: 4096', `Stream-Snapshot-Digest: ${DIGEST}`]);
    expect([long.status, long.headers['ursula-max-request-bytes']]).toEqual([413, '266240']);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
  });

  it('I7 a part of another stream or of an earlier life is unknown, and none of the others is used up', async () => {
    const s = await stream();
    const other = await stream();
    const [mine] = await staged(s, 'mine');
    const [theirs] = await staged(other, 'theirs');
    const unknown = await commit(s, [mine!, theirs!], DIGEST);
    expect([outcome(unknown), unknown.text.includes(theirs!)]).toEqual([[400, 'UNKNOWN_PART'], false]);
    expect(outcome(await commit(s, [`${'0'.repeat(32)}-${'0'.repeat(16)}.part`], DIGEST))).toEqual([400, 'UNKNOWN_PART']);
    expect((await commit(s, [mine!], await digestOf(TEXT, 'mine'))).status).toBe(204);
    await other.delete();
    await other.create({ type: OCTETS, body: 'abcdefghij' });
    expect(outcome(await commit(other, [theirs!], await digestOf(TEXT, 'theirs')))).toEqual([400, 'UNKNOWN_PART']);
  });

  it('SNAP-17 another digest than that of type and body answers 400, and the parts stay', async () => {
    const s = await stream();
    const ids = await staged(s, 'one', 'two');
    const digest = await digestOf(TEXT, 'onetwo');
    expect(outcome(await commit(s, ids, DIGEST))).toEqual([400, 'SNAPSHOT_DIGEST_MISMATCH']);
    expect(outcome(await commit(s, [...ids].reverse(), digest))).toEqual([400, 'SNAPSHOT_DIGEST_MISMATCH']);
    expect(outcome(await commit(s, ids, digest, { type: OCTETS }))).toEqual([400, 'SNAPSHOT_DIGEST_MISMATCH']);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
    expect((await commit(s, ids, digest)).status).toBe(204);
    expect(outcome(await commit(s, ids, await digestOf(TEXT, 'onetwo'), { offset: '6' }))).toEqual([400, 'UNKNOWN_PART']);
  });

  it('SNAP-23 goes on when its client leaves, while appends go on; another one has to wait', { timeout: 120_000 }, async () => {
    const s = await stream();
    const piece = Buffer.alloc(32_000_000, 'piece');
    const ids = await staged(s, piece, piece, piece, piece);
    const digest = await digestOf(TEXT, piece, piece, piece, piece);
    const body = listed(ids);
    const connection = await RawConnection.open(node.url);
    connection.write(`PUT ${s.path}/snapshot/5 HTTP/1.1\r\nHost: x\r\nContent-Type: ${TEXT}\r\nStream-Snapshot-Parts: 4\r\nStream-Snapshot-Digest: ${digest}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await expect.poll(() => filesBelow(`${node.dataDir}/staging`, '.snapshot').some((name) => name.includes(Buffer.from(s.path.slice(1)).toString('base64url'))), { interval: 2 }).toBe(true);
    connection.destroy();
    const [again, discard, append] = await Promise.all([commit(s, ids, digest), s.sub('DELETE', 'snapshot/parts'), s.append('more')]);
    expect([outcome(again), again.header('retry-after'), outcome(discard), append.status]).toEqual([[503, 'SNAPSHOT_COMMIT_IN_PROGRESS'], '1', [503, 'SNAPSHOT_COMMIT_IN_PROGRESS'], 204]);
    await expect.poll(async () => (await s.head()).header('stream-snapshot-digest'), { timeout: 30_000 }).toBe(digest);
    expect((await commit(s, ids, digest)).status).toBe(204);
  });
});

describe('discard', () => {
  it('INC-01 drops what is staged, and no snapshot', async () => {
    const s = await stream();
    await s.publish('5', 'five');
    const ids = await staged(s, 'a', 'b');
    expect(outcome(await s.sub('DELETE', 'snapshot/parts', { 'stream-incarnation': '4503599627370497' }))).toEqual([412, 'INCARNATION_MISMATCH']);
    for (let n = 0; n < 2; n += 1) {
      const answer = await s.sub('DELETE', 'snapshot/parts');
      expect([answer.status, answer.body.length, answer.incarnation]).toEqual([204, 0, await s.token()]);
    }
    expect(outcome(await commit(s, ids, await digestOf(TEXT, 'ab'), { offset: '6' }))).toEqual([400, 'UNKNOWN_PART']);
    expect((await s.sub('GET', 'snapshot/5')).text).toBe('five');
    expect(outcome(await fresh(node).sub('DELETE', 'snapshot/parts'))).toEqual([404, 'STREAM_NOT_FOUND']);
  });
});

describe('limits of a node', () => {
  const small = new FirnNode({ FIRN_SNAPSHOT_BYTES_MAX: '1000' });
  const plain = new FirnNode({ FIRN_COLD: 'none' });
  beforeAll(() => Promise.all([small.start(), plain.start()]));
  afterAll(() => Promise.all([small.dispose(), plain.dispose()]));

  it('SNAP-11 parts that are too large together answer 413 naming the limit', async () => {
    const s = new Stream(small.http, '/rows/small');
    await s.create({ type: OCTETS, body: 'abcdefghij' });
    const ids = await staged(s, 'x'.repeat(600), 'x'.repeat(400), 'x');
    const over = await commit(s, ids, DIGEST);
    expect([outcome(over), over.header('ursula-max-snapshot-bytes')]).toEqual([[413, 'SNAPSHOT_TOO_LARGE'], '1000']);
    expect((await commit(s, ids.slice(0, 2), await digestOf(TEXT, 'x'.repeat(1_000)))).status).toBe(204);
  });

  it('without a cold tier there are no parts: 501 NO_COLD_STORE', async () => {
    const s = new Stream(plain.http, '/rows/plain');
    await s.create({ type: OCTETS, body: 'abcdefghij' });
    expect(outcome(await upload(s, '5', 'x'))).toEqual([501, 'NO_COLD_STORE']);
    expect(outcome(await commit(s, ['x'], DIGEST, { body: 'x' }))).toEqual([400, 'INVALID_PARTS_COMMIT']);
    expect(outcome(await commit(s, ['x'], DIGEST))).toEqual([501, 'NO_COLD_STORE']);
    expect((await s.sub('DELETE', 'snapshot/parts')).status).toBe(204);
    const digest = (await s.publish('5', 'x', TEXT)).need('stream-snapshot-digest');
    expect((await commit(s, ['x'], digest)).status).toBe(204);
  });
});
