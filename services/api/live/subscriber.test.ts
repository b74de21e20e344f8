import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../../shared/protocol/types.js';
import { Subscriber } from './subscriber.js';

/** An answer that waits, on a connection of which a test says how much it has taken. */
class Waiting extends EventEmitter {
  readonly chunkedEncoding = false;
  readonly writableLength = 1_000_000;
  readonly writableNeedDrain = true;
  readonly closed = false;
  destroyed = false;
  readonly req = { socket: Object.assign(new EventEmitter(), { bytesWritten: 2_000_000, writableLength: 1_000_000, closed: false, destroyed: false, destroy(): void { this.destroyed = true; } }) };
}

function subscriber(res: Waiting): Subscriber {
  return new Subscriber({ res: res as unknown as ServerResponse, start: 0 as Offset, maxBytes: 1, cursor: '0', withToken: false, nowMs: 0, endAtMs: 60_000 });
}

describe('an SSE reader', () => {
  it('R052 counts as stalled only since it took something last', async () => {
    const res = new Waiting();
    const reader = subscriber(res);
    const drained = reader.drained(1_000);
    expect(reader.stalledSinceMs).toBe(1_000);
    reader.noteProgress(5_000);
    expect(reader.stalledSinceMs).toBe(1_000);
    res.req.socket.writableLength = 900_000;
    reader.noteProgress(9_000);
    expect(reader.stalledSinceMs).toBe(9_000);
    res.emit('drain');
    await drained;
    reader.noteProgress(20_000);
    expect([reader.stalledSinceMs, res.listenerCount('close'), res.listenerCount('drain')]).toEqual([0, 0, 0]);
  });

  it('R127 cuts the connection also where its answer still waits for its turn', () => {
    const res = new Waiting();
    subscriber(res).cut();
    expect(res.req.socket.destroyed).toBe(true);
  });

  it('R053 is told once that the connection ended, and the answer says so', async () => {
    const res = Object.assign(new Waiting(), { destroy(): void { res.destroyed = true; } });
    const drained = subscriber(res).drained(1_000);
    res.req.socket.destroyed = true;
    res.req.socket.emit('close');
    await drained;
    expect([res.destroyed, res.listenerCount('close')]).toEqual([true, 0]);
  });
});
