/** Section 13 of the requirements: digests, outcomes, receipts and early answers of keyed writes. */
import { blake3 } from 'hash-wasm';
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { RawConnection } from '../support/raw.js';
import { BASE, BUCKETED, fresh, JSON_TYPE, OCTETS, onBoth, TEXT } from '../support/stream.js';

const node = useNode();

const stream = async (type = TEXT) => {
  const s = fresh(node);
  await s.create({ type });
  return s;
};

describe('digest', () => {
  it('PROD-22 the digest of the body is checked when the write would apply', async () => {
    const s = await stream();
    const right = await blake3('body');
    const wrong = await blake3('other');
    const mismatch = await s.append('body', { producer: ['p', 0, 0], digest: wrong });
    expect([mismatch.status, mismatch.code]).toEqual([400, 'PRODUCER_DIGEST_MISMATCH']);
    expect((await s.append('body', { producer: ['p', 0, 0], digest: right })).status).toBe(200);
    expect((await s.append('body', { producer: ['p', 0, 0], digest: right })).status).toBe(204);
    expect((await s.read()).text).toBe('body');
  });

  it('PROD-22 the digest is over the raw request body', async () => {
    const s = await stream(JSON_TYPE);
    const body = '{ "a" : 1 }';
    expect((await s.append(body, { producer: ['p', 0, 0], digest: await blake3(body) })).status).toBe(200);
    expect((await s.append(body, { producer: ['p', 0, 1], digest: await blake3('{"a":1}\n') })).status).toBe(400);
  });

  it('PROD-22 a repeat with another identity answers 403 key-conflict', async () => {
    const s = await stream();
    const [one, two] = [await blake3('one'), await blake3('two')];
    await s.append('one', { producer: ['p', 0, 0], digest: one });
    for (const options of [{ producer: ['p', 0, 0], digest: two }, { producer: ['p', 0, 0] }] as const) {
      const answer = await s.append('two', options);
      expect([answer.status, answer.code, answer.header('producer-outcome'), answer.header('producer-epoch')]).toEqual([403, 'PRODUCER_KEY_CONFLICT', 'key-conflict', '0']);
    }
    await s.append('plain', { producer: ['q', 0, 0] });
    expect((await s.append('plain', { producer: ['q', 0, 0], digest: await blake3('plain') })).header('producer-outcome')).toBe('key-conflict');
    expect((await s.read()).text).toBe('oneplain');
  });

  it('PROD-22 seq 0 of the epoch and the newest write are remembered', async () => {
    const s = await stream();
    for (let seq = 0; seq < 4; seq += 1) await s.append(`b${seq}`, { producer: ['p', 0, seq], digest: await blake3(`b${seq}`) });
    const other = await blake3('other');
    expect((await s.append('other', { producer: ['p', 0, 0], digest: other })).status).toBe(403);
    expect((await s.append('other', { producer: ['p', 0, 3], digest: other })).status).toBe(403);
    const middle = await s.append('other', { producer: ['p', 0, 1], digest: other });
    expect([middle.status, middle.header('producer-outcome')]).toEqual([204, 'receipt-evicted']);
  });

  it('PROD-22 a digest alone, malformed or repeated answers 400', async () => {
    const s = await stream();
    const digest = await blake3('x');
    const alone = await s.append('x', { digest });
    expect([alone.status, alone.code]).toEqual([400, 'INVALID_PRODUCER']);
    for (const bad of [digest.toUpperCase(), digest.slice(1), `${digest}0`, 'x'.repeat(64), '']) {
      expect([bad, (await s.append('x', { producer: ['p', 0, 0], digest: bad })).status]).toEqual([bad, 400]);
    }
    expect((await s.append('x', { producer: ['p', 0, 0], headers: { 'producer-digest': [digest, digest] } })).status).toBe(400);
    expect(await s.tail()).toBe('0'.repeat(20));
  });
});

onBoth('epochs', (on) => {
  it('PROD-23 PROD-08 the epoch that was replaced, and older ones', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT });
    await s.append('a', { producer: ['p', 0, 0] });
    await s.append('b', { producer: ['p', 0, 1] });
    const claim = await s.append('c', { producer: ['p', 1, 0] });
    expect([claim.status, claim.header('producer-closed-epoch'), claim.header('producer-closed-seq')]).toEqual([200, '0', '1']);
    const repeat = await s.append('c', { producer: ['p', 1, 0] });
    expect([repeat.status, repeat.header('producer-closed-epoch'), repeat.header('producer-closed-seq')]).toEqual([204, '0', '1']);
    const late = await s.append('a', { producer: ['p', 0, 0] });
    expect([late.status, late.code, late.header('producer-outcome'), late.header('producer-epoch')]).toEqual([403, 'PRODUCER_EPOCH_CLOSED', 'epoch-closed;by=claim', '1']);
    expect([late.header('producer-closed-epoch'), late.header('producer-closed-seq')]).toEqual(['0', '1']);
    await s.append('d', { producer: ['p', 2, 0] });
    const stale = await s.append('a', { producer: ['p', 0, 0] });
    expect([stale.status, stale.code, stale.header('producer-outcome')]).toEqual([403, 'PRODUCER_EPOCH_STALE', 'stale-epoch']);
    expect([stale.header('producer-epoch'), stale.header('producer-closed-epoch')]).toEqual(['2', undefined]);
    expect((await s.read()).text).toBe('abcd');
  });
});

describe('outcomes', () => {
  it('PROD-24 the newest write repeats with its own range, an older one without', async () => {
    const s = await stream();
    const one = await s.append('aaa', { producer: ['a', 0, 0] });
    const two = await s.append('bb', { producer: ['b', 0, 0] });
    expect([one.header('stream-offset'), one.next]).toEqual(['0'.repeat(20), two.header('stream-offset')]);
    const repeat = await s.append('aaa', { producer: ['a', 0, 0] });
    expect([repeat.status, repeat.header('stream-offset'), repeat.next, repeat.header('producer-outcome')]).toEqual([204, one.header('stream-offset'), one.next, undefined]);
    await s.append('c', { producer: ['a', 0, 1] });
    const older = await s.append('aaa', { producer: ['a', 0, 0] });
    expect([older.status, older.header('producer-outcome'), older.header('stream-offset'), older.header('stream-next-offset')]).toEqual([204, 'receipt-evicted', undefined, undefined]);
    expect([older.header('producer-epoch'), older.header('producer-seq')]).toEqual(['0', '1']);
  });

  it('PROD-24 on the base surface a repeat shows the current tail', async () => {
    const s = fresh(node, BASE);
    await s.create({ type: TEXT });
    await s.append('aaa', { producer: ['a', 0, 0] });
    await s.append('bb', { producer: ['b', 0, 0] });
    const repeat = await s.append('aaa', { producer: ['a', 0, 0] });
    expect([repeat.status, repeat.next]).toEqual([204, await s.tail()]);
  });

  it('CLO-17 a repeat of an append-and-close says that it closed', async () => {
    const s = await stream();
    await s.append('one', { producer: ['p', 0, 0] });
    await s.append('two', { producer: ['p', 0, 1], close: true });
    expect((await s.append('two', { producer: ['p', 0, 1], close: true })).closed).toBe(true);
    expect((await s.append('one', { producer: ['p', 0, 0] })).closed).toBe(false);
  });
});

describe('early answers', () => {
  const ask = async (path: string, lines: readonly string[]): Promise<{ connection: RawConnection; wire: string }> => {
    const connection = await RawConnection.open(node.url);
    connection.write([`POST ${path} HTTP/1.1`, 'Host: x', ...lines, '', ''].join('\r\n'));
    await connection.until((text) => text.includes('\r\n\r\n'), 3_000);
    return { connection, wire: connection.received };
  };

  it('a repeat that names the incarnation and expects 100-continue is answered before its body', async () => {
    const s = await stream(OCTETS);
    const { incarnation } = await s.append('body', { producer: ['p', 0, 0] });
    const lines = [`Content-Type: ${OCTETS}`, 'Producer-Id: p', 'Producer-Epoch: 0', 'Content-Length: 4', 'Expect: 100-continue', `Stream-Incarnation: ${incarnation}`];
    const repeat = await ask(s.path, [...lines, 'Producer-Seq: 0']);
    expect(repeat.wire).toMatch(/^HTTP\/1.1 204 /);
    repeat.connection.destroy();
    const fresh1 = await ask(s.path, [...lines, 'Producer-Seq: 1']);
    expect(fresh1.wire).toMatch(/^HTTP\/1.1 100 /);
    fresh1.connection.write('next');
    const answer = await fresh1.connection.answer();
    expect(answer?.status).toBe(200);
    fresh1.connection.destroy();
    expect((await s.read()).text).toBe('bodynext');
  });

  it('PROD-22 a key conflict, and a repeat of a large body, are answered before the body; without the incarnation the body is asked for', async () => {
    for (const on of [BUCKETED, BASE]) {
      const s = fresh(node, on);
      const { incarnation } = await s.create({ type: OCTETS });
      const digest = await blake3('body');
      await s.append('body', { producer: ['p', 0, 0], ...(on.name === 'bucketed' ? { digest } : {}) });
      const key = [`Content-Type: ${OCTETS}`, 'Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0'];
      const token = `Stream-Incarnation: ${incarnation}`;
      const claims = on.name === 'bucketed' ? [[`Producer-Digest: ${digest}`, 204], [`Producer-Digest: ${await blake3('other')}`, 403], ['X: no digest', 403]] as const : [['X: no digest', 204]] as const;
      for (const [claim, status] of claims) {
        for (const announced of [['Content-Length: 65536'], ['Content-Length: 4', 'Expect: 100-continue']]) {
          const early = await ask(s.path, [...key, token, claim, ...announced]);
          expect([on.name, claim, announced, early.wire.slice(0, 12)]).toEqual([on.name, claim, announced, `HTTP/1.1 ${status}`]);
          if (status === 403) expect(early.wire).toMatch(/Producer-Outcome: key-conflict\r\n[\s\S]*"PRODUCER_KEY_CONFLICT"/);
          early.connection.destroy();
        }
      }
      const unnamed = await ask(s.path, [...key, claims[0][0], 'Content-Length: 4', 'Expect: 100-continue']);
      expect(unnamed.wire).toMatch(/^HTTP\/1.1 100 /);
      unnamed.connection.write('body');
      expect((await unnamed.connection.answer())?.status).toBe(204);
      unnamed.connection.destroy();
      expect((await s.read()).text).toBe('body');
    }
  });

  it('APP-10 ERR-14 a refusal by headers alone comes before the body', async () => {
    const s = await stream(OCTETS);
    for (const [line, status] of [['Content-Length: 33554433', 413], ['Stream-Incarnation: 007', 400], ['Producer-Id: p', 400], ['Stream-Seq:', 400]] as const) {
      const { connection, wire } = await ask(s.path, [`Content-Type: ${OCTETS}`, line, ...(status === 413 ? [] : ['Content-Length: 4']), 'Expect: 100-continue']);
      expect([line, wire.slice(0, 12)]).toEqual([line, `HTTP/1.1 ${status}`]);
      connection.destroy();
    }
    expect(await s.tail()).toBe('0'.repeat(20));
  });
});
