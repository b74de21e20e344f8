/** Section 13 of the requirements: idempotent producers, rules of both surfaces. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, TEXT } from '../support/stream.js';

const node = useNode();

onBoth('producers', (on) => {
  const stream = async (type = TEXT) => {
    const s = fresh(node, on);
    await s.create({ type });
    return s;
  };

  it('PROD-01 the three headers come together or not at all', async () => {
    const s = await stream();
    const all = { 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': '0' };
    const names = Object.keys(all) as (keyof typeof all)[];
    for (let mask = 1; mask < 7; mask += 1) {
      const headers = Object.fromEntries(names.filter((_, i) => (mask >> i) & 1).map((name) => [name, all[name]]));
      const answer = await s.append('x', { headers });
      expect([headers, answer.status, answer.code]).toEqual([headers, 400, 'INVALID_PRODUCER']);
    }
    expect(await s.tail()).toBe('0'.repeat(20));
  });

  it('PROD-02 PROD-03 PROD-25 R070 the forms of id, epoch and seq', async () => {
    const s = await stream();
    for (const bad of ['-1', '1abc', '1e3', '1.0', '9007199254740992', '+1', '', ' ', '0x1', '9'.repeat(30), '1 2', '1,2', '١']) {
      for (const producer of [['p', bad, '0'], ['p', '0', bad]] as const) {
        const answer = await s.append('x', { producer }).catch(() => null);
        if (answer === null) continue; // the client library itself refuses to send it
        expect([producer, answer.status, answer.code]).toEqual([producer, 400, 'INVALID_PRODUCER']);
      }
    }
    for (const id of ['', 'x'.repeat(257), ' ']) expect([id, (await s.append('x', { producer: [id, 0, 0] })).status]).toEqual([id, 400]);
    expect(await s.tail()).toBe('0'.repeat(20));
    expect((await s.append('x', { producer: ['x'.repeat(256), 0, 0] })).status).toBe(200);
    expect((await s.append('x', { producer: ['a b\tc', 0, 0] })).status).toBe(200);
    expect((await s.append('x', { producer: ['big', '9007199254740991', 0] })).status).toBe(200);
    const padded = await s.append('x', { producer: ['zero', '007', '000'] });
    expect([padded.status, padded.header('producer-epoch'), padded.header('producer-seq')]).toEqual([200, '7', '0']);
  });

  it('PROD-04 PROD-05 PROD-12 first and next writes answer 200 with epoch and seq', async () => {
    const s = await stream();
    for (let seq = 0; seq < 3; seq += 1) {
      const answer = await s.append(String(seq), { producer: ['p', 0, seq] });
      expect([answer.status, answer.header('producer-epoch'), answer.header('producer-seq'), answer.next]).toEqual([200, '0', String(seq), await s.tail()]);
    }
    expect((await s.append('q', { producer: ['q', 6, 0] })).status).toBe(200);
    const again = await s.append('1', { producer: ['p', 0, 1] });
    expect([again.status, again.header('producer-epoch'), again.header('producer-seq')]).toEqual([204, '0', '2']);
    expect((await s.read()).text).toBe('012q');
  });

  it('PROD-06 a seq at or below the last answers 204, nothing is appended', async () => {
    const s = await stream();
    for (let seq = 0; seq < 3; seq += 1) await s.append(String(seq), { producer: ['p', 0, seq] });
    const tail = await s.tail();
    for (const seq of [0, 1, 2, 2]) expect((await s.append('again', { producer: ['p', 0, seq] })).status).toBe(204);
    expect(await s.tail()).toBe(tail);
  });

  it('PROD-07 PROD-19 a gap answers 409 with the expected and the received seq', async () => {
    const s = await stream();
    const nothing = await s.append('x', { producer: ['p', 0, 3] });
    expect([nothing.status, nothing.code, nothing.header('producer-expected-seq'), nothing.header('producer-received-seq')]).toEqual([409, 'PRODUCER_SEQ_CONFLICT', '0', '3']);
    await s.append('0', { producer: ['p', 0, 0] });
    const gap = await s.append('x', { producer: ['p', 0, 2] });
    expect([gap.status, gap.header('producer-expected-seq'), gap.header('producer-received-seq')]).toEqual([409, '1', '2']);
  });

  it('PROD-08 PROD-09 a lower epoch answers 403 with the current one', async () => {
    const s = await stream();
    await s.append('0', { producer: ['p', 1, 0] });
    for (const seq of [0, 1, 7]) {
      const answer = await s.append('x', { producer: ['p', 0, seq] });
      expect([answer.status, answer.header('producer-epoch')]).toEqual([403, '1']);
      expect(answer.need('producer-outcome')).toBe('stale-epoch');
      expect(answer.code).toBe('PRODUCER_EPOCH_STALE');
    }
  });

  it('PROD-10 PROD-11 a higher epoch begins at seq 0', async () => {
    const s = await stream();
    await s.append('0', { producer: ['p', 0, 0] });
    const wrong = await s.append('x', { producer: ['p', 1, 5] });
    expect([wrong.status, wrong.header('producer-expected-seq'), wrong.code]).toEqual([400, '0', 'INVALID_PRODUCER']);
    expect((await s.append('1', { producer: ['p', 1, 0] })).status).toBe(200);
    expect((await s.append('2', { producer: ['p', 1, 1] })).status).toBe(200);
    expect((await s.read()).text).toBe('012');
  });

  it('PROD-13 state is per stream and producer', async () => {
    const [s, t] = [await stream(), await stream()];
    for (const producer of [['a', 0, 0], ['b', 0, 0], ['a', 0, 1], ['b', 0, 1], ['A', 0, 0]] as const) expect((await s.append('x', { producer })).status).toBe(200);
    expect((await t.append('x', { producer: ['a', 0, 0] })).status).toBe(200);
  });

  it('PROD-14 one request is one seq, whatever the number of messages', async () => {
    const s = await stream(JSON_TYPE);
    expect((await s.append('[1,2,3]', { producer: ['p', 0, 0] })).status).toBe(200);
    expect((await s.append('4', { producer: ['p', 0, 1] })).status).toBe(200);
    expect((await s.append('[1,2,3]', { producer: ['p', 0, 0] })).status).toBe(204);
    expect((await s.read()).text).toBe(on.jsonRead('1', '2', '3', '4'));
  });

  it('PROD-15 parallel copies of one write are stored once', async () => {
    const s = await stream(OCTETS);
    const answers = await Promise.all(Array.from({ length: 20 }, () => s.append('once', { producer: ['p', 0, 0] })));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 204)]);
    expect((await s.read()).text).toBe('once');
  });

  it('PROD-17 a refused write changes neither data nor producer state', async () => {
    const s = await stream(TEXT);
    await s.append('0', { producer: ['p', 0, 0], seq: '5' });
    const tail = await s.tail();
    const refusals = [
      await s.append('{}', { producer: ['p', 0, 1], type: JSON_TYPE }),
      await s.append('x', { producer: ['p', 0, 2] }),
      await s.append('x', { producer: ['p', 0, 1], seq: '1' }),
      await s.append('', { producer: ['p', 0, 1] }),
      await s.append('x', { producer: ['p', 1, 4] }),
      await s.append('x', { producer: ['p', 0, 1], incarnation: '4503599627370497' }),
      await s.append('x', { producer: ['p', 0, 1], type: null }),
      await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${TEXT}`, 'Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 1', 'Content-Length: 33554433']),
    ];
    expect(refusals.map((answer) => answer.status)).toEqual([409, 409, 409, 400, 400, 412, 400, 413]);
    expect(await s.tail()).toBe(tail);
    const applied = await s.append('1', { producer: ['p', 0, 1] });
    expect([applied.status, (await s.read()).text]).toEqual([200, '01']);
    await s.append('2', { producer: ['p', 1, 0] });
    for (const stale of [['p', 0, 1], ['p', 0, 2]] as const) expect((await s.append('x', { producer: stale })).status).toBe(403);
    expect((await s.append('3', { producer: ['p', 1, 1] })).status).toBe(200);
    const missing = fresh(node, on);
    expect((await missing.append('x', { type: TEXT, producer: ['p', 5, 0] })).status).toBe(404);
    await missing.create({ type: TEXT });
    expect((await missing.append('x', { producer: ['p', 0, 0] })).status).toBe(200);
    expect((await s.read()).text).toBe('0123');
  });

  it('PROD-20 SEQ-07 a duplicate is found before Stream-Seq is compared', async () => {
    const s = await stream();
    expect((await s.append('0', { producer: ['p', 0, 0], seq: '5' })).status).toBe(200);
    expect((await s.append('0', { producer: ['p', 0, 0], seq: '5' })).status).toBe(204);
    expect((await s.append('1', { producer: ['p', 0, 1], seq: '4' })).status).toBe(409);
    expect((await s.append('1', { producer: ['p', 0, 1], seq: '6' })).status).toBe(200);
  });

  it('PROD-21 a repeat with other bytes is a duplicate when neither names a digest', async () => {
    const s = await stream();
    await s.append('first', { producer: ['p', 0, 0] });
    expect((await s.append('other', { producer: ['p', 0, 0] })).status).toBe(204);
    expect((await s.read()).text).toBe('first');
  });

  it('WO-04 WO-05 a keyed repeat is stored once, an unkeyed one twice', async () => {
    const s = await stream();
    await s.append('k', { producer: ['p', 0, 0] });
    await s.append('k', { producer: ['p', 0, 0] });
    await s.append('u');
    await s.append('u');
    expect((await s.read()).text).toBe('kuu');
  });

  it('R070 many producers writing at once keep their own order', async () => {
    const s = await stream(TEXT);
    await Promise.all(
      Array.from({ length: 8 }, async (_, p) => {
        for (let seq = 0; seq < 12; seq += 1) {
          const [one, two] = await Promise.all([s.append(`${p}.${seq};`, { producer: [`p${p}`, 0, seq] }), s.append(`${p}.${seq};`, { producer: [`p${p}`, 0, seq] })]);
          expect([one.status, two.status].sort()).toEqual([200, 204]);
        }
      }),
    );
    const items = (await s.read()).text.split(';').slice(0, -1);
    expect(items).toHaveLength(96);
    for (let p = 0; p < 8; p += 1) expect(items.filter((item) => item.startsWith(`${p}.`))).toEqual(Array.from({ length: 12 }, (_, seq) => `${p}.${seq}`));
  });
});
