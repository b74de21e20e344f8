/** Section 10 of the requirements: server-sent events of binary streams. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { bytesOf, controlsOf } from '../support/sse.js';
import { fresh, OCTETS, onBoth } from '../support/stream.js';

const node = useNode();

onBoth('binary events', (on) => {
  const stream = () => fresh(node, on);

  it('BIN-01 BIN-02 SSE-20 any type but text and JSON is base64, and is named', async () => {
    for (const type of [OCTETS, 'application/x-protobuf', 'image/png', 'application/ndjson', 'application/xml', 'application/problem+json']) {
      const s = stream();
      await s.create({ type });
      const sse = await s.sse('-1');
      expect([type, sse.answer.header('stream-sse-data-encoding')]).toEqual([type, 'base64']);
      expect(sse.answer.header('stream-data-content-type')).toBe(type);
      sse.close();
    }
    for (const type of ['text/html', 'application/json; charset=utf-8', 'TEXT/plain']) {
      const s = stream();
      await s.create({ type });
      const sse = await s.sse('-1');
      expect([type, sse.answer.header('stream-sse-data-encoding')]).toEqual([type, undefined]);
      sse.close();
    }
  });

  it('BIN-03 BIN-04 BIN-05 BIN-06 BIN-08 each payload is standard base64 of a contiguous range', async () => {
    const bytes = Buffer.from([0x00, 0x0a, 0x0d, 0xff, 0xfe, ...Array.from({ length: 256 }, (_, i) => i), 0xfb, 0xef]);
    const s = stream();
    await s.create({ type: OCTETS, body: bytes });
    const sse = await s.sse('-1', { max_bytes: 100 });
    const events = await sse.through();
    expect(bytesOf(events).equals(bytes)).toBe(true);
    let sent = 0;
    for (let i = 0; i < events.length; i += 2) {
      sent += bytesOf([events[i]!]).length;
      const [control] = controlsOf([events[i + 1]!]);
      expect((await s.all(control!.streamNextOffset)).equals(bytes.subarray(sent))).toBe(true);
    }
    await s.append(Buffer.from([1, 2, 3, 0xff]));
    const live = await sse.through();
    expect([...bytesOf(live)]).toEqual([1, 2, 3, 0xff]);
    expect(controlsOf(live).at(-1)?.streamNextOffset).toBe(await s.tail());
    sse.close();
  });

  it('BIN-07 an empty data event, if one is sent, is the empty string', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const sse = await s.sse('-1');
    const events = await sse.through();
    expect(bytesOf(events)).toHaveLength(0);
    sse.close();
  });

  it('BIN-09 nothing in the request changes the encoding', async () => {
    const s = stream();
    await s.create({ type: OCTETS, body: Buffer.from([0xff, 0x00]) });
    for (const [query, headers] of [
      [{ encoding: 'none' }, {}],
      [{}, { accept: 'text/event-stream; encoding=utf-8' }],
      [{}, { accept: 'application/octet-stream' }],
    ] as const) {
      const sse = await s.sse('-1', query, headers);
      expect(sse.answer.header('stream-sse-data-encoding')).toBe('base64');
      expect([...bytesOf(await sse.through())]).toEqual([0xff, 0x00]);
      sse.close();
    }
  });

  it('R135 all lengths from 0 to 300, appended one by one, decode to the stream', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const bodies = Array.from({ length: 300 }, (_, i) => Buffer.from(Array.from({ length: i + 1 }, (_unused, j) => (i * 31 + j * 7) & 0xff)));
    const sse = await s.sse('-1');
    for (const body of bodies) await s.append(body);
    const tail = await s.tail();
    const events = await sse.through((control) => control.streamNextOffset === tail);
    sse.close();
    const whole = Buffer.concat(bodies);
    expect(bytesOf(events).equals(whole)).toBe(true);
    let sent = 0;
    for (const event of events) {
      if (event.event === 'data') sent += bytesOf([event]).length;
      else expect(Number(controlsOf([event])[0]!.streamNextOffset)).toBe(sent);
    }
    // As one event each, from the end back: 0 to 300 bytes.
    for (let length = 0; length <= 300; length += 25) {
      const replay = await s.sse(String(whole.length - length));
      expect(bytesOf(await replay.through()).equals(whole.subarray(whole.length - length))).toBe(true);
      replay.close();
    }
  });
});

describe('binary events on the bucketed surface', () => {
  it('BIN-10 max_bytes counts bytes of the stream', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS, body: Buffer.from([1, 2, 3, 4, 5, 6]) });
    const sse = await s.sse('-1', { max_bytes: 3 });
    const events = await sse.through();
    sse.close();
    expect(events.filter((event) => event.event === 'data').map((event) => event.data)).toEqual(['AQID', 'BAUG']);
  });

  it('SIZE-02 R135 an event holds at most 8,388,608 bytes of the stream', { timeout: 60_000 }, async () => {
    for (const bytes of [8_388_607, 8_388_608, 8_388_609]) {
      const s = fresh(node);
      const body = Buffer.alloc(bytes, 'ab');
      await s.create({ type: OCTETS, body });
      const sse = await s.sse('-1');
      const events = await sse.through(undefined, 40_000);
      sse.close();
      for (const event of events) if (event.event === 'data') expect(Buffer.from(event.data.replaceAll('\n', ''), 'base64').length).toBeLessThanOrEqual(8_388_608);
      expect(bytesOf(events).equals(body)).toBe(true);
    }
  });
});
