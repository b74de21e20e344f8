/** Named limits and what is answered at them (I11): a typed refusal, and everything goes on when there is room again. */
import { describe, expect, it } from 'vitest';
import { FirnNode, useNode } from '../support/node.js';
import { RawConnection } from '../support/raw.js';
import { fresh, OCTETS, sleep, Stream, TEXT } from '../support/stream.js';

const node = useNode();

describe('limits', () => {
  it('WO-02 bodies in flight: beyond 256 MiB a body answers 503 with Retry-After, and is admitted again later', { timeout: 60_000 }, async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS });
    const begin = async (content: string | Buffer): Promise<RawConnection> => {
      const connection = await RawConnection.open(node.url);
      connection.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${OCTETS}\r\nContent-Length: 33554432\r\n\r\n`);
      connection.write(content);
      await sleep(20);
      return connection;
    };
    const held: RawConnection[] = [];
    // Those that have brought little hold little.
    for (let i = 0; i < 20; i += 1) held.push(await begin('first bytes'));
    expect((await s.append('others go on')).status).toBe(204);
    // All but the last byte, which never comes.
    const most = Buffer.alloc(33_554_431, 'x');
    const large: RawConnection[] = [];
    for (let i = 0; i < 8; i += 1) large.push(await begin(most));
    // They grow side by side: whichever comes last to its share is refused.
    const refused = await Promise.any(large.map(async (connection) => ((await connection.until((text) => text !== '', 10_000)) ? connection : Promise.reject(new Error('no answer')))));
    held.push(...large.filter((connection) => connection !== refused));
    const answer = await refused.answer();
    expect([answer?.status, answer?.body.toString()]).toEqual([503, expect.stringContaining('INGRESS_BODY_BYTES_LIMIT_REACHED')]);
    expect(Number(answer?.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    refused.destroy();
    expect((await s.read()).status).toBe(200);
    for (const connection of held) connection.destroy();
    await sleep(300);
    expect((await s.append(Buffer.alloc(1_000_000, 'x'))).status).toBe(204);
    expect(Number(await s.tail())).toBe(1_000_012);
  });

  it('producers of one stream: beyond 4,096 a new one answers 429, the known ones go on', { timeout: 120_000 }, async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    let next = 0;
    await Promise.all(
      Array.from({ length: 32 }, async () => {
        for (let n = (next += 1); n <= 4_096; n = next += 1) expect((await s.append('x', { producer: [`p${n}`, 0, 0] })).status).toBe(200);
      }),
    );
    const refused = await s.append('x', { producer: ['one too many', 0, 0] });
    expect([refused.status, refused.code]).toEqual([429, 'PRODUCER_LIMIT']);
    expect((await s.append('x', { producer: ['p7', 0, 1] })).status).toBe(200);
    expect((await s.append('x')).status).toBe(204);
    expect(Number(await s.tail())).toBe(4_098);
  });

  it('R141 a thousand streams created at once have a thousand incarnations', { timeout: 60_000 }, async () => {
    const streams = Array.from({ length: 1_000 }, () => fresh(node));
    const answers = await Promise.all(streams.map((stream) => stream.create({ type: OCTETS, body: 'x' })));
    expect(answers.every((answer) => answer.status === 201)).toBe(true);
    expect(new Set(answers.map((answer) => answer.incarnation)).size).toBe(1_000);
  });
});

describe('disk pressure', () => {
  it('R008 WO-02 ERR-07 below the free-disk limit writes answer 503 with Retry-After and are not applied, reads and live reads go on', { timeout: 60_000 }, async () => {
    const pressed = new FirnNode();
    try {
      await pressed.start();
      const s = new Stream(pressed.http, '/pressed/s');
      await s.create({ type: TEXT, body: 'abc' });
      await s.publish('2', 'snap');
      await pressed.restart({ FIRN_DISK_FREE_MIN: '1000000000000000' });
      const refused = [
        await s.append('x'), await s.close(), await s.put({ type: TEXT, headers: {} }), await s.append('x', { producer: ['p', 0, 0] }), await s.publish('3', 'y'), await s.retain('1'),
        await new Stream(pressed.http, '/pressed/new').create({ type: TEXT }),
      ];
      for (const [i, answer] of refused.entries()) {
        // A PUT that finds its stream writes nothing.
        if (i === 2 && answer.status === 200) continue;
        expect([i, answer.status, answer.code, Number(answer.need('retry-after')) >= 1]).toEqual([i, 503, 'WAL_DISK_PRESSURE', true]);
      }
      expect(new Set(refused.filter((answer) => answer.status === 503).map((answer) => answer.message)).size).toBe(1);
      expect((await s.read()).text).toBe('abc');
      expect((await s.sub('GET', 'snapshot/2')).text).toBe('snap');
      const sse = await s.sse('-1');
      await sse.through();
      sse.close();
      const ready = await pressed.admin.send('GET', '/__firn/readyz');
      expect([ready.status, ready.text.length > 5]).toEqual([503, true]);
      await pressed.restart();
      const head = await s.head();
      expect([head.closed, Number(head.next), Number(head.need('stream-snapshot-offset')), Number(head.need('stream-retained-offset'))]).toEqual([false, 3, 2, 0]);
      expect((await new Stream(pressed.http, '/pressed/new').head()).status).toBe(404);
      expect((await s.append('def', { producer: ['p', 0, 0] })).status).toBe(200);
    } finally {
      await pressed.dispose();
    }
  });
});
