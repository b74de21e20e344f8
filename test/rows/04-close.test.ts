/** Section 4 of the requirements: closing a stream. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, onBoth, OCTETS, TEXT } from '../support/stream.js';

const node = useNode();

onBoth('close', (on) => {
  const stream = () => fresh(node, on);
  const open = async (type = TEXT, body: string | null = 'abc') => {
    const s = stream();
    await s.create({ type, body });
    return s;
  };

  it('CLO-01 CLO-02 CLO-09 a POST with the header and no body closes; a repeat answers the same', async () => {
    const s = await open();
    const before = await s.tail();
    for (let i = 0; i < 2; i += 1) {
      const answer = await s.close();
      expect([answer.status, answer.closed, answer.next]).toEqual([204, true, before]);
    }
    expect((await s.head()).closed).toBe(true);
    expect((await s.read()).text).toBe('abc');
  });

  it('CLO-03 a body with the header appends and closes in one step', async () => {
    const s = await open();
    const answer = await s.append('def', { close: true });
    expect([answer.status, answer.closed]).toEqual([204, true]);
    const read = await s.read();
    expect([read.text, read.closed, read.next]).toEqual(['abcdef', true, answer.next]);
  });

  it('CLO-03 no reader sees the data without the close, or the close without the data', async () => {
    for (let round = 0; round < 15; round += 1) {
      const s = await open(OCTETS, null);
      const reading = (async () => {
        for (;;) {
          const read = await s.read();
          if (read.closed || read.text !== '') return read;
        }
      })();
      await s.append('last', { close: true });
      const seen = await reading;
      expect([seen.text, seen.closed]).toEqual(['last', true]);
    }
  });

  it('CLO-04 a body with the header on a closed stream answers 409', async () => {
    const s = await open();
    await s.close();
    const answer = await s.append('more', { close: true });
    expect([answer.status, answer.code, answer.closed]).toEqual([409, 'STREAM_CLOSED', true]);
    expect((await s.read()).text).toBe('abc');
  });

  it('CLO-05 a close without a body is never refused for its content type', async () => {
    for (const type of [JSON_TYPE, 'image/png']) {
      const s = await open();
      const answer = await s.append('', { type, close: true });
      expect([answer.status, answer.closed]).toEqual([204, true]);
    }
  });

  it('CLO-06 a missing stream answers 404', async () => {
    expect((await stream().close()).status).toBe(404);
  });

  it('CLO-07 nothing reopens a stream', async () => {
    const s = await open();
    await s.close();
    expect((await s.put({ type: TEXT })).status).toBe(409);
    expect((await s.append('x')).status).toBe(409);
    expect((await s.append('x', { close: 'false' })).status).toBe(409);
    expect((await s.head()).closed).toBe(true);
  });

  it('CLO-10 only the value true counts, compared without case', async () => {
    for (const value of ['TRUE', 'True', 'true']) {
      const s = await open();
      expect([value, (await s.close({ close: value })).status, (await s.head()).closed]).toEqual([value, 204, true]);
    }
    for (const value of ['false', 'yes', '1', '']) {
      const s = await open();
      expect([value, (await s.append('', { close: value })).status]).toEqual([value, 400]);
      const answer = await s.append('x', { close: value });
      expect([value, answer.status, answer.closed]).toEqual([value, 204, false]);
    }
  });

  it('CLO-11 CLO-14 a keyed final append is stored once, whatever body the repeat has', async () => {
    const s = await open();
    const first = await s.append('end', { producer: ['p', 0, 0], close: true });
    expect([first.status, first.closed]).toEqual([200, true]);
    const again = await s.append('end', { producer: ['p', 0, 0], close: true });
    expect([again.status, again.closed]).toEqual([204, true]);
    const other = await s.append('other', { producer: ['p', 0, 0], close: true });
    expect([other.status, other.closed]).toEqual([204, true]);
    expect((await s.read()).text).toBe('abcend');
  });

  it('CLO-12 a keyed close without a body is idempotent', async () => {
    const s = await open();
    for (let i = 0; i < 2; i += 1) {
      const answer = await s.close({ producer: ['p', 0, 0] });
      expect([answer.status, answer.closed, answer.header('producer-epoch'), answer.header('producer-seq')]).toEqual([204, true, '0', '0']);
    }
  });

  it('CLO-13 on a closed stream only the closing write repeats; others answer 409', async () => {
    const s = await open();
    await s.append('end', { producer: ['p', 0, 0], close: true });
    for (const producer of [['q', 0, 0], ['p', 0, 1]] as const) {
      const answer = await s.append('x', { producer });
      expect([answer.status, answer.code, answer.closed]).toEqual([409, 'STREAM_CLOSED', true]);
    }
    expect((await s.append('end', { producer: ['p', 0, 0] })).status).toBe(204);
  });

  it('CLO-15 a JSON body [] with the header answers 400 and does not close', async () => {
    const s = await open(JSON_TYPE, null);
    expect((await s.append('[]', { close: true })).status).toBe(400);
    expect((await s.head()).closed).toBe(false);
  });

  it('CLO-16 a keyed close by another producer on a closed stream answers 409', async () => {
    const s = await open();
    await s.close({ producer: ['a', 0, 0] });
    const answer = await s.close({ producer: ['b', 0, 0] });
    expect([answer.status, answer.code, answer.closed]).toEqual([409, 'STREAM_CLOSED', true]);
  });

  it('CLO-17 a repeat of an earlier keyed write after the close', async () => {
    const s = await open();
    await s.append('one', { producer: ['p', 0, 0] });
    await s.close();
    const answer = await s.append('one', { producer: ['p', 0, 0] });
    if (on.name === 'bucketed') expect([answer.status, answer.closed]).toEqual([204, false]);
    else expect([answer.status, answer.closed]).toEqual([409, true]);
  });

  it('CLO-18 a stale epoch on a closed stream answers 403 with both facts', async () => {
    const s = await open();
    await s.append('one', { producer: ['p', 1, 0], close: true });
    const answer = await s.append('two', { producer: ['p', 0, 0] });
    expect([answer.status, answer.header('producer-epoch'), answer.closed]).toEqual([403, '1', true]);
    expect(answer.need('producer-outcome')).not.toBe('');
  });

  it('CLO-19 Stream-Seq is checked on a close and recorded', async () => {
    const s = await open();
    await s.append('x', { seq: '5' });
    const refused = await s.close({ seq: '4' });
    expect([refused.status, refused.code]).toEqual([409, 'STREAM_SEQ_CONFLICT']);
    expect((await s.head()).closed).toBe(false);
    expect((await s.close({ seq: '6' })).status).toBe(204);
    expect((await s.close({ seq: '1' })).status).toBe(204);
  });
});
