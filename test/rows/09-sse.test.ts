/** Section 9 of the requirements: server-sent events. */
import { describe, expect, it } from 'vitest';
import { hotOrCold } from '../support/cold-pass.js';
import { useNode } from '../support/node.js';
import { controlsOf, dataOf } from '../support/sse.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, sleep, TEXT, twin } from '../support/stream.js';

/** What is sealed is evicted at once. */
const node = useNode({ FIRN_HOT_KEEP_MS: '0' });

onBoth('events', (on) => {
  const stream = () => fresh(node, on);

  it('SSE-01 SSE-13 the head of the answer', async () => {
    const s = stream();
    const { incarnation } = await s.create({ type: TEXT, body: 'abc' });
    const sse = await s.sse('-1');
    const { answer } = sse;
    expect([answer.status, answer.header('content-type')]).toEqual([200, 'text/event-stream']);
    expect(answer.header('content-length')).toBeUndefined();
    expect(answer.need('cache-control')).toContain('no-cache');
    expect(answer.header('stream-sse-data-encoding')).toBeUndefined();
    expect(answer.incarnation).toBe(incarnation);
    sse.close();
  });

  it('SSE-02 SSE-03 refusals are plain HTTP answers', async () => {
    const s = stream();
    const { next } = await s.create({ type: OCTETS, body: 'abc' });
    expect((await s.read('live=sse')).status).toBe(400);
    expect((await stream().read({ offset: '-1', live: 'sse' })).code).toBe('STREAM_NOT_FOUND');
    expect((await s.read({ offset: 'x', live: 'sse' })).status).toBe(400);
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    await bucketed.publish(next, 'snap');
    await bucketed.retain(next);
    expect((await s.read({ offset: '-1', live: 'sse' })).code).toBe('STREAM_GONE');
  });

  it('SSE-04 SSE-05 SSE-06 SSE-07 SSE-08 data and control events alternate; each control can be resumed from', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    for (const body of ['one\n', 'two', '\nthree']) await s.append(body);
    const sse = await s.sse('-1', { max_bytes: 5 });
    const events = await sse.through();
    sse.close();
    expect(events.length % 2).toBe(0);
    events.forEach((event, i) => expect(event.event).toBe(i % 2 === 0 ? 'data' : 'control'));
    expect(dataOf(events)).toBe('one\ntwo\nthree');
    let sent = '';
    for (let i = 0; i < events.length; i += 2) {
      sent += events[i]?.data ?? '';
      const [control] = controlsOf([events[i + 1]!]);
      expect(Object.keys(control!).every((name) => ['streamNextOffset', 'streamCursor', 'upToDate', 'streamClosed'].includes(name))).toBe(true);
      expect(control!.streamCursor).toMatch(/^\d+$/);
      expect(control!.upToDate).toBe(i + 2 === events.length ? true : undefined);
      expect(sent + (await s.all(control!.streamNextOffset)).toString()).toBe('one\ntwo\nthree');
    }
  });

  it('SSE-09 a closed stream is sent and the connection ended', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc', closed: true });
    const sse = await s.sse('-1');
    expect(await sse.end()).toBe('clean');
    expect(dataOf(sse.events)).toBe('abc');
    const last = controlsOf(sse.events).at(-1);
    expect([last?.streamClosed, last?.streamNextOffset, last?.streamCursor]).toEqual([true, await s.tail(), undefined]);
  });

  it('SSE-10 at the tail of a closed stream: one control, then the end', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc', closed: true });
    const sse = await s.sse(await s.tail());
    expect(await sse.end(2_000)).toBe('clean');
    expect(sse.events).toHaveLength(1);
    expect(controlsOf(sse.events)[0]).toMatchObject({ streamClosed: true, upToDate: true });
  });

  it('SSE-11 R051 a reader at the tail gets the last bytes before the closing control', async () => {
    for (let round = 0; round < 30; round += 1) {
      const s = stream();
      await s.create({ type: TEXT, body: 'abc' });
      const sse = await s.sse(await s.tail());
      await sse.control();
      const { next } = await s.append('end', { close: true });
      expect(await sse.end()).toBe('clean');
      expect(dataOf(sse.events)).toBe('end');
      expect(controlsOf(sse.events).at(-1)).toMatchObject({ streamClosed: true, streamNextOffset: next });
    }
  });

  it('SSE-14 SSE-25 the type of the data', async () => {
    for (const [type, named] of [
      [JSON_TYPE, on.jsonReadType],
      [TEXT, TEXT],
    ] as const) {
      const s = stream();
      await s.create({ type });
      const sse = await s.sse('-1');
      expect(sse.answer.header('stream-data-content-type')).toBe(named);
      sse.close();
    }
  });

  it('SSE-15 SSE-17 SSE-05 JSON events carry the stored text', async () => {
    const s = stream();
    await s.create({ type: JSON_TYPE });
    await s.append('[{"a": 1.50e3}, {"b":"\\ud800"}]');
    const sse = await s.sse('-1');
    const replay = await sse.through();
    await s.append('{"c":1, "c":2}');
    const live = await sse.through();
    sse.close();
    if (on.name === 'bucketed') expect(dataOf([...replay, ...live])).toBe('{"a":1.50e3}\n{"b":"\\ud800"}\n{"c":1,"c":2}\n');
    else expect([...replay, ...live].filter((event) => event.event === 'data').map((event) => event.data)).toEqual(['[{"a":1.50e3},{"b":"\\ud800"}]', '[{"c":1,"c":2}]']);
  });

  it('SSE-18 content cannot forge events', async () => {
    const s = stream();
    const forged = 'x\r\n\r\nevent: control\r\ndata: {"streamNextOffset":"9","streamClosed":true}\r\n\r\nid: 5\nretry: 1\r: comment\n';
    await s.create({ type: TEXT, body: forged });
    const sse = await s.sse('-1');
    const events = await sse.through();
    sse.close();
    expect(events.map((event) => event.event)).toEqual(['data', 'control']);
    expect(controlsOf(events)[0]).toEqual(expect.objectContaining({ streamNextOffset: await s.tail(), upToDate: true }));
    expect(dataOf(events)).toBe(forged.replaceAll('\r\n', '\n').replaceAll('\r', '\n'));
  });

  it('SSE-22 one control at once when connecting at the tail of an open stream', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    for (const body of [null, 'abc']) {
      if (body !== null) await s.append(body);
      const sse = await s.sse(body === null ? '-1' : await s.tail());
      const control = await sse.control(1_000);
      expect([control.upToDate, control.streamNextOffset]).toEqual([true, await s.tail()]);
      sse.close();
    }
  });

  it('SSE-23 leading spaces and the last LF survive a standard parser', async () => {
    for (const body of [' x\n', '  two\n three', '\n', '\n\n', 'a\n\nb\n', ' ', 'no end', ': colon\n', 'data: x\n', '\ttab']) {
      const s = stream();
      await s.create({ type: TEXT, body });
      const sse = await s.sse('-1');
      expect([body, dataOf(await sse.through())]).toEqual([body, body]);
      sse.close();
    }
  });

  it('SSE-24 what SSE cannot carry: invalid UTF-8 becomes U+FFFD, CR becomes LF; offsets stay exact', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    await s.append(Buffer.from([0x61, 0xff, 0x62]));
    await s.append('c\rd\r\ne');
    const sse = await s.sse('-1');
    const events = await sse.through();
    expect(dataOf(events)).toBe('a\u{fffd}bc\nd\ne');
    expect(controlsOf(events).at(-1)?.streamNextOffset).toBe(await s.tail());
    await s.append(Buffer.from([0xff]));
    const live = await sse.through();
    expect(dataOf(live)).toBe('\u{fffd}');
    expect(controlsOf(live).at(-1)?.streamNextOffset).toBe(await s.tail());
    sse.close();
  });

  it('a byte order mark, and a character cut across two live appends, come whole', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: '\u{feff}mark' });
    const sse = await s.sse('-1');
    expect((sse.wire, dataOf(await sse.through()))).toBe('\u{feff}mark');
    const [left, right] = [Buffer.from('😀').subarray(0, 2), Buffer.from('😀').subarray(2)];
    await s.append(Buffer.concat([Buffer.from('a'), left]));
    await sleep(100);
    await s.append(Buffer.concat([right, Buffer.from('b')]));
    const tail = await s.tail();
    const events = await sse.through((control) => control.streamNextOffset === tail);
    expect(dataOf(events)).toBe('a😀b');
    sse.close();
  });

  it('R057 text appended byte by byte has no replacement characters, and every control can be resumed', async () => {
    const text = '水😀é ascii 漢字\n🎉';
    const s = stream();
    await s.create({ type: TEXT });
    for (const byte of Buffer.from(text)) await s.append(Buffer.from([byte]));
    for (const maxBytes of [1, 4, 5]) {
      const sse = await s.sse('-1', { max_bytes: maxBytes });
      const events = await sse.through();
      sse.close();
      expect([maxBytes, dataOf(events)]).toEqual([maxBytes, text]);
      for (const control of controlsOf(events)) expect((await s.read({ offset: control.streamNextOffset })).text).not.toContain('\u{fffd}');
    }
  });

  it('R057 a character cut across the border of two sealed objects comes whole, sealed, hot and live', { timeout: 60_000 }, async () => {
    const bytes = Buffer.from('水😀é漢');
    const s = stream();
    await s.create({ type: TEXT });
    const live = await s.sse('-1', { max_bytes: 4 });
    for (const byte of bytes) {
      await s.append(Buffer.from([byte]));
      if (byte % 2 === 0) await node.seal();
    }
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    const { cold } = (await node.ask('GET', `/__firn/streams${bucketed.path}`)) as { readonly cold: { readonly segments: readonly object[] } };
    // In the pass on cold data a compaction may have put them together by now.
    expect(cold.segments.length).toBeGreaterThan(hotOrCold(3, 0));
    const tail = await s.tail();
    const seen = [await live.through((control) => control.streamNextOffset === tail)];
    live.close();
    for (const maxBytes of [1, 4, 6]) {
      const sse = await s.sse('-1', { max_bytes: maxBytes });
      seen.push(await sse.through());
      sse.close();
    }
    for (const events of seen) expect(dataOf(events)).toBe(bytes.toString());
    expect((await s.all('-1', { max_bytes: 1 })).equals(bytes)).toBe(true);
  });

  it('SSE-06 a reader that reconnects from the last control misses and repeats nothing', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    const writing = (async () => {
      for (let i = 0; i < 60; i += 1) await s.append(`${i};`);
    })();
    let text = '';
    let offset = '-1';
    while (!text.endsWith('59;')) {
      const sse = await s.sse(offset);
      for (let i = 0; i < 3 && !text.endsWith('59;'); i += 1) {
        const event = await sse.next();
        if (event.event === 'data') {
          text += event.data;
          offset = (await sse.control()).streamNextOffset;
        } else offset = controlsOf([event])[0]!.streamNextOffset;
      }
      sse.close();
    }
    await writing;
    expect(text).toBe(Array.from({ length: 60 }, (_, i) => `${i};`).join(''));
  });
});

describe('events on the bucketed surface', () => {
  it('SSE-16 a JSON event may end inside a message; the pieces join', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE, body: '{"a":1}' });
    const sse = await s.sse('-1', { max_bytes: 4 });
    expect(dataOf(await sse.through())).toBe('{"a":1}\n');
    sse.close();
  });

  it('SSE-19 an event stream whose stream is deleted ends with an error event', async () => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: OCTETS, body: 'abc' });
    const sse = await s.sse('-1', {}, { 'stream-incarnation': incarnation });
    await sse.through();
    await s.delete();
    const event = await sse.next();
    expect(event.event).toBe('error');
    const body = JSON.parse(event.data) as { error: { code: string; message: string } };
    expect([body.error.code, typeof body.error.message]).toEqual(['STREAM_NOT_FOUND', 'string']);
    expect(await sse.end()).toBe('clean');
  });

  it('SSE-21 SIZE-07 no event splits a character', async () => {
    for (const type of [TEXT, JSON_TYPE]) {
      const s = fresh(node);
      await s.create({ type, body: type === TEXT ? '😀😀é漢' : '"😀😀é漢"' });
      const sse = await s.sse('-1', { max_bytes: 1 });
      const events = await sse.through();
      sse.close();
      expect(dataOf(events)).toBe((await s.read()).text);
      for (const event of events) {
        expect(event.data).not.toContain('\u{fffd}');
        if (event.event === 'data') expect(Buffer.byteLength(event.data)).toBeLessThanOrEqual(4);
      }
    }
  });

  it('LP-12 timeout_ms does not concern an event stream', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const sse = await s.sse('-1', { timeout_ms: 1 });
    await sse.control();
    await sleep(300);
    expect(sse.ended).toBe(null);
    sse.close();
  });
});
