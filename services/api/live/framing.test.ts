import { describe, expect, it } from 'vitest';
import { Frame } from './frame.js';
import { cutOf, dataEvent, eventLength, representationOf } from './representation.js';
import { LiveGate } from './gate.js';
import { Turns } from './turns.js';

describe('frames', () => {
  it('are one chunk of HTTP/1.1, and the bytes alone', () => {
    const frame = new Frame(Buffer.from('event: data\n'), Buffer.from('data:x\n\n'));
    expect(frame.framed.toString()).toBe('14\r\nevent: data\ndata:x\n\n\r\n');
    expect(frame.payload.toString()).toBe('event: data\ndata:x\n\n');
  });

  it('are never the empty chunk that would end the answer', () => {
    expect(() => new Frame(Buffer.alloc(0))).toThrow('at least one byte');
  });
});

describe('representations', () => {
  it('BIN-01 JSON-01 SSE-17 follow the content type and the surface', () => {
    expect(representationOf('text/plain; charset=utf-8', 'base')).toBe('text');
    expect(representationOf('Application/JSON; a=b', 'bucketed')).toBe('ndjson');
    expect(representationOf('application/json', 'base')).toBe('array');
    for (const type of ['application/octet-stream', 'application/ndjson', 'application/xml', 'application/problem+json', 'image/png']) expect([type, representationOf(type, 'bucketed')]).toEqual([type, 'base64']);
    expect(cutOf('array')).toBe('messages');
    expect(cutOf('ndjson')).toBe('bytes');
  });

  it('SSE-21 R057 hold back an unfinished character until nothing can follow', () => {
    const half = Buffer.from('aé').subarray(0, 2);
    expect(eventLength('text', half, 'tail')).toBe(1);
    expect(eventLength('text', half, 'end')).toBe(2);
    expect(eventLength('text', Buffer.from([0xff]), 'tail')).toBe(1);
    expect(eventLength('base64', half, 'below')).toBe(2);
  });

  it('SSE-16 end a JSON event at the last message of a read, or within one that is longer', () => {
    expect(eventLength('ndjson', Buffer.from('{"a":1}\n{"b"'), 'below')).toBe(8);
    expect(eventLength('ndjson', Buffer.from('{"b"'), 'below')).toBe(4);
    expect(eventLength('ndjson', Buffer.from('{"a":1}\n{"b"'), 'tail')).toBe(12);
  });

  it('SSE-24 keep CR and LF of one line break in one event', () => {
    expect(eventLength('text', Buffer.from('a\r'), 'below')).toBe(1);
    expect(eventLength('text', Buffer.from('\r'), 'below')).toBe(1);
    expect(eventLength('text', Buffer.from('a\r'), 'tail')).toBe(2);
  });

  it('give text, base64 and arrays', () => {
    expect(dataEvent('text', Buffer.from('a\nb')).toString()).toBe('event: data\ndata:a\ndata:b\n\n');
    expect(dataEvent('ndjson', Buffer.from('1\n')).toString()).toBe('event: data\ndata:1\ndata:\n\n');
    expect(dataEvent('array', Buffer.from('1\n2\n')).toString()).toBe('event: data\ndata:[1,2]\n\n');
    expect(dataEvent('base64', Buffer.from([0, 255])).toString()).toBe('event: data\ndata:AP8=\n\n');
  });
});

describe('the gate', () => {
  it('I11 refuses readers beyond its limit with LIVE_READ_BACKPRESSURE', () => {
    const gate = new LiveGate(2);
    gate.enter();
    gate.enter();
    expect(() => gate.enter()).toThrow(expect.objectContaining({ code: 'LIVE_READ_BACKPRESSURE', status: 503 }) as Error);
    gate.leave();
    gate.enter();
    expect(gate.open).toBe(2);
    gate.leave();
    gate.leave();
    expect(() => gate.leave()).toThrow('more live readers left than came');
  });
});

describe('turns', () => {
  it('run so many at once, in order, and go on after a failure', async () => {
    const turns = new Turns(2);
    const order: string[] = [];
    let running = 0;
    let most = 0;
    const work = (name: string) => turns.run(async () => {
      most = Math.max(most, ++running);
      order.push(name);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running--;
      if (name === 'b') throw new Error('b failed');
      return name;
    });
    const results = await Promise.allSettled(['a', 'b', 'c', 'd', 'e'].map(work));
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
    expect(order).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(most).toBe(2);
  });
});
