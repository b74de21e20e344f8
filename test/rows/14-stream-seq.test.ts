/** Section 14 of the requirements: `Stream-Seq`. Its scope is the stream (SEQ-05). */
import { expect, it } from 'vitest';
import { Http } from '../support/http.js';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, onBoth, Stream, TEXT } from '../support/stream.js';

const node = useNode();

onBoth('Stream-Seq', (on) => {
  const run = async (values: readonly (string | undefined)[], s = fresh(node, on)): Promise<number[]> => {
    if ((await s.head()).status === 404) await s.create({ type: TEXT });
    const statuses: number[] = [];
    for (const seq of values) statuses.push((await s.append('x', seq === undefined ? {} : { seq })).status);
    return statuses;
  };

  it('SEQ-01 values compare bytewise', async () => {
    expect(await run(['2', '10'])).toEqual([204, 409]);
    expect(await run(['09', '10'])).toEqual([204, 204]);
    expect(await run(['A', 'a'])).toEqual([204, 204]);
    expect(await run(['a', 'B'])).toEqual([204, 409]);
    expect(await run(['a', 'aa', 'ab', 'b'])).toEqual([204, 204, 204, 204]);
  });

  it('SEQ-02 an equal or lower value answers 409, nothing is appended', async () => {
    const s = fresh(node, on);
    expect(await run(['002', '002', '001'], s)).toEqual([204, 409, 409]);
    const refused = await s.append('x', { seq: '001' });
    expect([refused.code, refused.header('stream-last-seq'), refused.next]).toEqual(['STREAM_SEQ_CONFLICT', '002', await s.tail()]);
    expect((await s.read()).text).toBe('x');
  });

  it('SEQ-03 gaps are allowed', async () => {
    expect(await run(['001', '900'])).toEqual([204, 204]);
  });

  it('SEQ-04 an append without the header is not checked and leaves the value alone', async () => {
    expect(await run(['005', undefined, '004', '006'])).toEqual([204, 204, 409, 204]);
  });

  it('SEQ-05 the value is kept per stream: two clients share it', async () => {
    const s = fresh(node, on);
    expect(await run(['5'], s)).toEqual([204]);
    const other = new Http(node.url);
    const seen = new Stream(other, s.path);
    expect((await seen.append('x', { type: TEXT, seq: '4' })).status).toBe(409);
    expect((await seen.append('x', { type: TEXT, seq: '6' })).status).toBe(204);
    await other.close();
    expect((await s.append('x', { seq: '6' })).status).toBe(409);
  });

  it('SEQ-06 a refused append does not move the value', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT });
    expect((await s.append('{}', { type: JSON_TYPE, seq: '009' })).status).toBe(409);
    expect((await s.append('x', { seq: '008' })).status).toBe(204);
  });

  it('SEQ-09 empty, repeated or too long values answer 400', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT });
    expect((await s.append('x', { seq: '' })).status).toBe(400);
    expect((await s.append('x', { headers: { 'stream-seq': ['1', '2'] } })).status).toBe(400);
    expect((await s.append('x', { seq: 'a'.repeat(257) })).status).toBe(400);
    expect((await s.append('x', { seq: 'a'.repeat(256) })).status).toBe(204);
    expect((await s.read()).text).toBe('x');
  });
});
