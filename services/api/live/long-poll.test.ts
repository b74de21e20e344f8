import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../../shared/protocol/types.js';
import { LongPolls } from './long-poll.js';
import { MemoryStream } from './memory-stream.test-support.js';

function response(): ServerResponse {
  return Object.assign(new EventEmitter(), { destroyed: false, req: { socket: new EventEmitter() } }) as unknown as ServerResponse;
}

describe('waiting of long-polls', () => {
  const setUp = () => {
    const stream = new MemoryStream('text/plain', 'abc');
    const polls = new LongPolls();
    const res = response();
    const wait = (ms = 5_000) => polls.wait(stream.open(), 3 as Offset, ms, res);
    return { stream, polls, res, wait };
  };

  it('LP-03 LP-07 R051 ends for bytes, for closing, and for both at once', async () => {
    for (const [content, close] of [['d', false], ['', true], ['d', true]] as const) {
      const { stream, polls, wait, res } = setUp();
      const waiting = wait();
      stream.append(content, close);
      expect(await waiting).toEqual({ kind: 'changed' });
      expect([stream.listeners, polls.waiting, res.listenerCount('close')]).toEqual([0, 0, 0]);
    }
  });

  it('R055 lasts its time whatever else happens to the stream', async () => {
    const { stream, polls, wait } = setUp();
    const touching = setInterval(() => stream.touch(), 5);
    const startedMs = performance.now();
    expect(await wait(60)).toEqual({ kind: 'timeout' });
    clearInterval(touching);
    expect(performance.now() - startedMs).toBeGreaterThan(50);
    expect([stream.listeners, polls.waiting]).toEqual([0, 0]);
  });

  it('INC-18 DEL-07 ends for deletion and recreation', async () => {
    const deleted = setUp();
    const first = deleted.wait();
    deleted.stream.delete();
    expect(await first).toEqual({ kind: 'gone' });
    const recreated = setUp();
    const second = recreated.wait();
    recreated.stream.recreate();
    expect(await second).toEqual({ kind: 'recreated', incarnation: recreated.stream.incarnation + 1 });
  });

  it('R053 R083 ends when the client leaves and at shutdown, and keeps nothing', async () => {
    const { stream, polls, wait, res } = setUp();
    const leaving = wait();
    res.emit('close');
    expect(await leaving).toEqual({ kind: 'left' });
    const ending = wait();
    polls.shutdown();
    expect(await ending).toEqual({ kind: 'shutdown' });
    expect(await wait()).toEqual({ kind: 'shutdown' });
    expect([stream.listeners, polls.waiting, res.listenerCount('close')]).toEqual([0, 0, 0]);
  });
});
