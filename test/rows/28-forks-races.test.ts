/** Section 28 of the requirements: long appends and batches, and forks that race the end of their sources. */
import { describe, expect, it } from 'vitest';
import { allFree, beside, eventually, fork, forked, forkOf } from '../support/forks.js';
import { useNode } from '../support/node.js';
import { BASE, fresh, JSON_TYPE, OCTETS, sleep, type Stream, TEXT } from '../support/stream.js';

const node = useNode();
const source = async (type: string, ...bodies: string[]): Promise<Stream> => {
  const s = fresh(node, BASE);
  await s.create({ type });
  for (const body of bodies) await s.append(body);
  return s;
};

describe('long appends and batches', () => {
  it('FORK-04 FORK-06 a sub-offset within an append that spans several stored values', { timeout: 60_000 }, async () => {
    const s = fresh(node, BASE);
    await s.create({ type: OCTETS });
    const body = Buffer.alloc(900_000);
    for (let i = 0; i < body.length; i += 1) body[i] = (i * 7 + (i >> 8)) & 0xff;
    await s.append('head');
    await s.append(body);
    await s.append('tail');
    for (const sub of [1, 262_143, 262_144, 262_145, 600_000, 900_000]) {
      const f = await forked(s, { offset: 4, sub });
      expect((await f.all('4')).equals(body.subarray(0, sub))).toBe(true);
      await f.append('x');
      expect((await f.all(String(4 + sub))).toString()).toBe('x');
    }
    expect((await fork(s, { offset: 4, sub: 900_001 })).answer.status).toBe(400);
    expect((await fork(s, { offset: 300_004, sub: 600_001 })).answer.status).toBe(400);
    expect((await fork(s, { offset: 300_004, sub: 600_000 })).answer.status).toBe(201);
  });

  it('FORK-03 a sub-offset within a batch of 1,000 messages', async () => {
    const messages = Array.from({ length: 1_000 }, (_, n) => ({ n, text: 'é'.repeat(n % 700) }));
    const s = await source(JSON_TYPE, JSON.stringify(messages), '"later"');
    for (const sub of [1, 500, 999, 1_000]) expect((await (await forked(s, { offset: 0, sub })).read({ offset: '-1', max_bytes: 8_000_000 })).json()).toEqual(messages.slice(0, sub));
    expect((await fork(s, { offset: 0, sub: 1_001 })).answer.status).toBe(400);
  });
});

describe('races', () => {
  it('forks and the delete of their source at once: each fork is whole or was refused, and nothing is left behind', { timeout: 60_000 }, async () => {
    for (let round = 0; round < 40; round += 1) {
      const s = await source(TEXT, 'abc');
      const wanted = Array.from({ length: 6 }, () => beside(s));
      const [removed, ...answers] = await Promise.all([sleep(round % 4).then(() => s.delete()), ...wanted.map((f, i) => sleep(i % 3).then(() => f.create({ headers: forkOf(s) })))]);
      expect(removed!.status).toBe(204);
      const made = wanted.filter((_, i) => answers[i]!.status === 201);
      for (const [i, answer] of answers.entries()) {
        expect([201, 404, 409]).toContain(answer.status);
        if (answer.status === 201) expect((await wanted[i]!.read()).text).toBe('abc');
        else expect((await wanted[i]!.head()).status).toBe(404);
      }
      expect((await s.head()).status).toBe(made.length > 0 ? 410 : 404);
      await Promise.all(made.map((f) => f.delete()));
      await allFree(s, ...wanted);
    }
  });

  it('the last fork ends while a new one is made, and the middle of a chain while it is forked', { timeout: 60_000 }, async () => {
    for (let round = 0; round < 40; round += 1) {
      const s = await source(TEXT, 'abc');
      const middle = await forked(s, {}, { body: 'd' });
      const leaf = beside(s);
      const late = beside(s);
      const [made, gone, again] = await Promise.all([leaf.create({ headers: forkOf(middle) }), sleep(round % 3).then(() => middle.delete()), late.create({ headers: forkOf(s) }), sleep(round % 2).then(() => s.delete())]);
      expect(gone.status).toBe(204);
      if (made.status === 201) expect((await leaf.read()).text).toBe('abcd');
      if (again.status === 201) expect((await late.read()).text).toBe('abc');
      await Promise.all([leaf.delete(), late.delete()]);
      await allFree(s, middle, leaf, late);
    }
  });

  it('sources that are deleted and made anew under way give no byte of the other life', { timeout: 60_000 }, async () => {
    const s = fresh(node, BASE);
    await s.create({ type: TEXT, body: 'life-0' });
    let stop = false;
    const renewing = (async () => {
      for (let life = 1; !stop; life += 1) {
        await s.delete();
        await eventually(async () => (await s.create({ type: TEXT, body: `life-${life}` })).status === 201);
      }
    })();
    for (let i = 0; i < 150; i += 1) {
      const { stream, answer } = await fork(s, i % 2 === 0 ? {} : { offset: 0, sub: 5 });
      expect([201, 400, 404, 409]).toContain(answer.status);
      if (answer.status !== 201) continue;
      const text = (await stream.read()).text;
      expect(text).toMatch(i % 2 === 0 ? /^life-\d+$/ : /^life-$/);
      expect((await stream.read()).text).toBe(text);
      expect((await stream.delete()).status).toBe(204);
    }
    stop = true;
    await renewing;
    await s.delete();
    await allFree(s);
  });
});
