import { createParser, type EventSourceMessage } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FirnError } from './errors.js';
import { commentLine, controlEvent, dataEventBase64, dataEventJsonArray, dataEventText, errorEvent } from './sse.js';
import type { Offset } from './types.js';

/** What a standard parser makes of the bytes. */
function parsed(bytes: Buffer): { event: string | undefined; data: string }[] {
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  parser.feed(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  return events.map(({ event, data }) => ({ event, data }));
}

const dataOf = (text: string | Buffer): { event: string | undefined; data: string }[] => parsed(dataEventText(Buffer.from(text)));
const anyText = fc.array(fc.oneof(fc.string({ unit: 'binary', maxLength: 5 }), fc.constantFrom('\n', '\r', '\r\n', ' ', '  ', ':', 'event: control', 'data:', '\0', '\ufeff', 'id: 1')), { maxLength: 12 })
  .map((parts) => parts.join(''));

describe('data events', () => {
  it('SSE-04 SSE-18 SSE-23 any text comes back as one event with its exact characters', () => {
    fc.assert(fc.property(anyText, (text) => {
      expect(dataOf(text)).toEqual([{ event: 'data', data: text.replaceAll(/\r\n?/g, '\n') }]);
    }), { numRuns: 500 });
  });

  it.each([
    ['hello', 'event: data\ndata:hello\n\n'],
    ['', 'event: data\ndata:\n\n'],
    ['a\nb', 'event: data\ndata:a\ndata:b\n\n'],
    ['a\n', 'event: data\ndata:a\ndata:\n\n'],
    ['\n', 'event: data\ndata:\ndata:\n\n'],
    [' x\n', 'event: data\ndata:  x\ndata:\n\n'],
    ['a\r\nb\rc\n\rd', 'event: data\ndata:a\ndata:b\ndata:c\ndata:\ndata:d\n\n'],
    ['{"a":1}\n{"b":2}\n', 'event: data\ndata:{"a":1}\ndata:{"b":2}\ndata:\n\n'],
  ])('SSE-18 SSE-23 the bytes for %j', (text, bytes) => expect(dataEventText(Buffer.from(text)).toString()).toBe(bytes));

  it('SSE-18 content cannot forge an event', () => {
    expect(dataOf('x\r\n\r\nevent: control\r\ndata: {"streamNextOffset":"1"}\r\n\r\n')).toHaveLength(1);
    expect(dataOf('x\n\nevent: control\n\n')[0]!.event).toBe('data');
  });

  it('SSE-24 invalid bytes become the replacement character', () => {
    expect(dataOf(Buffer.from([0x61, 0xff, 0x62]))).toEqual([{ event: 'data', data: 'a\ufffdb' }]);
    expect(dataOf(Buffer.from([0xe2, 0x82, 0x0a, 0x80]))).toEqual([{ event: 'data', data: '\ufffd\n\ufffd' }]);
  });

  it('a buffer given in stays as it is', () => {
    const payload = Buffer.from('a\r\nb');
    dataEventText(payload);
    expect(payload.toString()).toBe('a\r\nb');
  });

  it('BIN-03 BIN-05 BIN-07 base64 of exactly the bytes', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const [event] = parsed(dataEventBase64(Buffer.from(bytes)));
      expect(event!.event).toBe('data');
      expect(event!.data).toMatch(/^[A-Za-z0-9+/]*={0,2}$/);
      expect(event!.data.length % 4).toBe(0);
      expect([...Buffer.from(event!.data, 'base64')]).toEqual([...bytes]);
    }));
    expect(dataEventBase64(Buffer.from([0, 0x0a, 0x0d, 0xff, 0xfe])).toString()).toBe('event: data\ndata:AAoN//4=\n\n');
  });

  it('SSE-17 JSON arrays of whole messages', () => {
    expect(dataEventJsonArray(Buffer.from('{"a":1}\n')).toString()).toBe('event: data\ndata:[{"a":1}]\n\n');
    expect(dataEventJsonArray(Buffer.from('1\n" "\n')).toString()).toBe('event: data\ndata:[1," "]\n\n');
    expect(dataEventJsonArray(Buffer.alloc(0)).toString()).toBe('event: data\ndata:[]\n\n');
    expect(() => dataEventJsonArray(Buffer.from('1'))).toThrow('whole messages');
  });
});

describe('other events', () => {
  const nextOffset = 42 as Offset;

  it.each([
    [{ nextOffset, cursor: '7', upToDate: true, closed: false }, '{"streamNextOffset":"00000000000000000042","streamCursor":"7","upToDate":true}'],
    [{ nextOffset, cursor: '7', upToDate: false, closed: false }, '{"streamNextOffset":"00000000000000000042","streamCursor":"7"}'],
    [{ nextOffset, cursor: null, upToDate: true, closed: true }, '{"streamNextOffset":"00000000000000000042","upToDate":true,"streamClosed":true}'],
  ])('SSE-05 .. SSE-09 control %j', (control, json) => {
    expect(controlEvent(control).toString()).toBe(`event: control\ndata:${json}\n\n`);
    expect(parsed(controlEvent(control))).toEqual([{ event: 'control', data: json }]);
  });

  it('SSE-19 an error event holds the error body', () => {
    const [event] = parsed(errorEvent(new FirnError('STREAM_NOT_FOUND')));
    expect(event!.event).toBe('error');
    expect(JSON.parse(event!.data)).toEqual({ error: { code: 'STREAM_NOT_FOUND', message: expect.any(String) as string } });
  });

  it('a comment is no event', () => {
    expect(parsed(Buffer.concat([commentLine(), commentLine(), dataEventText(Buffer.from('x'))]))).toEqual([{ event: 'data', data: 'x' }]);
  });
});
