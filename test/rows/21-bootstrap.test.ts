/** Section 21 of the requirements: bootstrap. */
import { describe, expect, it } from 'vitest';
import { hotOrCold } from '../support/cold-pass.js';
import type { Answer } from '../support/http.js';
import { boundaryOf, partsOf } from '../support/multipart.js';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, TEXT } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const node = useNode();
const pad = (offset: number): string => String(offset).padStart(20, '0');
const CAP = 8_388_608;

const stream = async (type = OCTETS, body: string | Buffer | null = null): Promise<Stream> => {
  const s = fresh(node);
  await s.create({ type, body });
  return s;
};

/** Checks every rule that holds for any bootstrap answer, and returns its update parts. */
async function sound(s: Stream, boot: Answer): Promise<Buffer[]> {
  expect(boot.status).toBe(200);
  const [snapshot, ...updates] = partsOf(boot);
  const mark = boot.need('stream-snapshot-offset');
  const point = mark === '-1' ? (await s.head()).need('stream-retained-offset') : mark;
  expect(boot.next >= point).toBe(true);
  if (mark === '-1') {
    expect(snapshot?.contentType).toBe(OCTETS);
    expect(snapshot?.body.length).toBe(0);
  }
  const bytes = Buffer.concat(updates.map((part) => part.body));
  // The partial form: no update comes out of the cold tier, and the answer does not call itself complete.
  if (hotOrCold(false, point !== (await s.tail()))) expect([boot.upToDate, boot.closed, boot.next, updates.length]).toEqual([false, false, point, 0]);
  expect(Number(boot.next) - Number(point)).toBe(bytes.length);
  expect((await s.all(point)).subarray(0, bytes.length).equals(bytes)).toBe(true);
  const type = (await s.head()).need('content-type');
  for (const part of updates) expect(part.contentType).toBe(type);
  if (type === JSON_TYPE) for (const part of updates) expect(part.body.indexOf(0x0a)).toBe(part.body.length - 1);
  return updates.map((part) => part.body);
}

describe('bootstrap', () => {
  it('BOOT-01 BOOT-24 multipart, ended by its closing delimiter; a missing stream answers 404', async () => {
    const s = await stream(TEXT, 'abc');
    const boot = await s.bootstrap();
    expect([boot.status, boot.need('content-type')]).toEqual([200, expect.stringMatching(/^multipart\/mixed; ?boundary=/)]);
    expect(partsOf(boot).length).toBe(hotOrCold(2, 1));
    expect((await fresh(node).bootstrap()).code).toBe('STREAM_NOT_FOUND');
  });

  it('BOOT-02 BOOT-03 a live parameter answers 400, others change nothing', async () => {
    const s = await stream(TEXT, 'abc');
    for (const live of ['sse', 'long-poll', '', 'x']) expect([live, (await s.bootstrap(`?live=${live}`)).status]).toEqual([live, 400]);
    for (const query of ['?offset=now', '?foo=1', '?max_bytes=1', '?offset=x', '?consistency=foo']) {
      const boot = await s.bootstrap(query);
      expect([query, boot.status, boot.next, boot.upToDate]).toEqual([query, 200, hotOrCold(pad(3), pad(0)), hotOrCold(true, false)]);
    }
  });

  it('BOOT-04 BOOT-06 BOOT-07 snapshot first, then every update after it', async () => {
    const s = await stream(OCTETS, 'abcdef');
    await s.publish(pad(4), 'the snapshot', 'application/x-state');
    await s.append('ghi');
    const boot = await s.bootstrap();
    expect(boot.header('stream-snapshot-offset')).toBe((await s.head()).header('stream-snapshot-offset'));
    const [first] = partsOf(boot);
    expect([first?.contentType, first?.body.toString()]).toEqual(['application/x-state', 'the snapshot']);
    expect(Buffer.concat(await sound(s, boot)).toString()).toBe(hotOrCold('efghi', ''));
    expect([boot.upToDate, boot.next]).toEqual(hotOrCold([true, pad(9)], [false, pad(4)]));
    expect((await s.all(boot.next)).toString()).toBe(hotOrCold('', 'efghi'));
  });

  it('BOOT-05 BOOT-25 without a snapshot an empty first part', async () => {
    const empty = await stream();
    const boot = await empty.bootstrap();
    expect([boot.header('stream-snapshot-offset'), boot.next, boot.upToDate, partsOf(boot).length]).toEqual(['-1', pad(0), true, 1]);
    const s = await stream(TEXT, 'abc');
    expect(Buffer.concat(await sound(s, await s.bootstrap())).toString()).toBe(hotOrCold('abc', ''));
  });

  it('BOOT-08 BOOT-11 BOOT-12 reading goes on from Stream-Next-Offset', async () => {
    const s = await stream(OCTETS, 'abcdef');
    await s.publish(pad(6), 'snap');
    const boot = await s.bootstrap();
    expect([partsOf(boot).length, boot.next, boot.upToDate]).toEqual([1, pad(6), true]);
    await s.append('more');
    expect((await s.read({ offset: boot.next })).text).toBe('more');
  });

  it('BOOT-13 BOOT-15 BOOT-27 each update part of a JSON stream is one message with its LF', async () => {
    const s = await stream(JSON_TYPE, '[1,2]');
    await s.publish(pad(2), 'snap');
    await s.append('[{"a": "b"},[],null]');
    const parts = await sound(s, await s.bootstrap());
    expect(parts.map((part) => part.toString())).toEqual(hotOrCold(['2\n', '{"a":"b"}\n', '[]\n', 'null\n'], []));
  });

  it('BOOT-14 BOOT-16 binary bytes are intact', async () => {
    const bytes = Buffer.from(Array.from({ length: 1_024 }, (_, i) => i & 0xff));
    const s = await stream(OCTETS, bytes);
    await s.publish(pad(0), Buffer.from([13, 10, 45, 45, 0, 255]));
    const boot = await s.bootstrap();
    expect([...partsOf(boot)[0]!.body]).toEqual([13, 10, 45, 45, 0, 255]);
    expect(Buffer.concat(await sound(s, boot)).equals(hotOrCold(bytes, Buffer.alloc(0)))).toBe(true);
  });

  it('BOOT-17 BOOT-18 the boundary is fresh each time, and boundary-like content does no harm', async () => {
    const s = await stream(TEXT, 'abc');
    const first = boundaryOf(await s.bootstrap());
    await s.append(`\r\n--${first}\r\nContent-Type: text/plain\r\n\r\nforged\r\n--${first}--\r\n`);
    const again = await s.bootstrap();
    expect(boundaryOf(again)).not.toBe(first);
    expect(first.replaceAll(/[^0-9A-Za-z]/g, '').length).toBeGreaterThanOrEqual(22);
    expect(partsOf(again).length).toBe(hotOrCold(2, 1));
    await sound(s, again);
  });

  it('BOOT-28 a complete answer of a closed stream says so', async () => {
    const s = await stream(TEXT, 'abc');
    expect((await s.bootstrap()).closed).toBe(false);
    await s.close();
    expect((await s.bootstrap()).closed).toBe(hotOrCold(true, false));
    await s.publish(pad(3), 'snap');
    expect((await s.bootstrap()).closed).toBe(true);
  });

  it('BOOT-20 a large snapshot comes whole', async () => {
    const s = await stream(OCTETS, 'abc');
    const body = Buffer.alloc(2 * 1024 * 1024 + 3, 'snapshot body ');
    await s.publish(pad(2), body);
    const boot = await s.bootstrap();
    expect(partsOf(boot)[0]?.body.equals(body)).toBe(true);
    await sound(s, boot);
  });

  it('BOOT-26 R032 snapshot, offset and updates are of one moment', async () => {
    const s = await stream(JSON_TYPE);
    let over = false;
    const writing = (async () => {
      for (let i = 0; i < 60; i += 1) {
        const { next } = await s.append(`{"n":${i}}`);
        if (i % 4 === 3) await s.publish(next, JSON.stringify({ upTo: i }), JSON_TYPE);
      }
      over = true;
    })();
    while (!over) {
      const boot = await s.bootstrap();
      expect([boot.status, boot.status === 200 ? '' : boot.text]).toEqual([200, '']);
      const [snapshot, ...updates] = partsOf(boot);
      const upTo = snapshot?.body.length === 0 ? -1 : (JSON.parse(snapshot!.body.toString()) as { upTo: number }).upTo;
      expect(updates.map((part) => (JSON.parse(part.body.toString()) as { n: number }).n)).toEqual(updates.map((_, i) => upTo + 1 + i));
      const bytes = updates.reduce((sum, part) => sum + part.body.length, 0);
      const point = boot.need('stream-snapshot-offset');
      expect(Number(boot.next) - (point === '-1' ? 0 : Number(point))).toBe(bytes);
    }
    await writing;
  });
});

describe('bootstrap at the cap', { timeout: 60_000 }, () => {
  it('BOOT-09 BOOT-10 BOOT-21 a stream that is not JSON: all of it up to 8 MiB, else the snapshot part only', async () => {
    const s = await stream(TEXT, Buffer.alloc(CAP, 'x'));
    const whole = await s.bootstrap();
    expect([whole.upToDate, whole.next]).toEqual(hotOrCold([true, pad(CAP)], [false, pad(0)]));
    await s.append('y');
    const partial = await s.bootstrap();
    expect([partial.header('stream-up-to-date'), partial.next, partsOf(partial).length]).toEqual([undefined, pad(0), 1]);
    expect(partial.closed).toBe(false);
    await s.publish(pad(1), 'snap');
    expect((await s.bootstrap()).upToDate).toBe(hotOrCold(true, false));
  });

  it('BOOT-22 a JSON stream: as many whole messages as fit in 8 MiB', async () => {
    const s = await stream(JSON_TYPE);
    for (let i = 0; i < 10; i += 1) await s.append(JSON.stringify(`${i}`.repeat(1024 * 1024)));
    const boot = await s.bootstrap();
    expect(boot.upToDate).toBe(false);
    const parts = await sound(s, boot);
    expect(parts.length).toBe(hotOrCold(7, 0));
    expect(parts.reduce((sum, part) => sum + part.length, 0)).toBeLessThanOrEqual(CAP);
    expect((await s.read({ offset: boot.next, max_bytes: 3 })).text).toBe(hotOrCold('"77', '"00'));
  });

  it('BOOT-23 at least one message, even one above the cap', async () => {
    const s = await stream(JSON_TYPE, JSON.stringify('x'.repeat(9 * 1024 * 1024)));
    await s.append('2');
    const boot = await s.bootstrap();
    const parts = await sound(s, boot);
    expect([parts.length, boot.upToDate]).toEqual([hotOrCold(1, 0), false]);
  });
});
