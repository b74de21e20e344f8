import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writePieces } from './answer-body.js';
import { AnswersWaiting } from './answers-waiting.js';
import { ANSWERS_AHEAD_MAX } from './limits.js';

const PIECE = Buffer.alloc(262_144, 'piece ');
/** More than any system takes off a process for one connection. */
const LONG = 32 * 1_048_576;

let server: Server;
let served: ServerResponse[];
let answer: (res: ServerResponse) => void;
const sockets: Socket[] = [];

beforeEach(async () => {
  served = [];
  server = createServer((_, res) => {
    served.push(res);
    answer(res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
});

/** A client that takes nothing until it is resumed. */
async function client(): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.pause();
  const before = served.length;
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => served.length > before);
  return socket;
}

async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 10_000; !condition(); await new Promise((resolve) => setTimeout(resolve, 5))) if (Date.now() > end) throw new Error(`not within 10 s: ${condition.toString()}`);
}

describe('answers that wait for their clients', () => {
  it('R053 hold one piece each, and only a few of many one more', { timeout: 30_000 }, async () => {
    let taken = 0;
    let written = 0;
    let over = 0;
    async function* source(): AsyncGenerator<Buffer> {
      for (let bytes = 0; bytes < LONG; bytes += PIECE.length) {
        taken++;
        yield PIECE;
      }
    }
    answer = (res) => {
      res.writeHead(200, { 'Content-Length': String(LONG) });
      const write = res.write.bind(res);
      res.write = ((piece: Buffer) => {
        written++;
        return write(piece);
      }) as typeof res.write;
      void writePieces(res, source()).then(() => res.end(), () => over++);
    };
    const clients = await Promise.all(Array.from({ length: 3 * ANSWERS_AHEAD_MAX }, client));
    let before = -1;
    await until(() => {
      const still = before === taken;
      before = taken;
      return still && served.every((res) => res.writableNeedDrain);
    });
    for (const res of served) expect(res.writableLength).toBeLessThanOrEqual(2 * PIECE.length);
    expect(taken - written).toBeLessThanOrEqual(ANSWERS_AHEAD_MAX);
    // One that begins to take gets on, whatever the others do.
    let got = 0;
    clients.at(-1)!.on('data', (bytes: Buffer) => (got += bytes.length));
    clients.at(-1)!.resume();
    await until(() => got >= LONG);
    for (const socket of clients) socket.destroy();
    await until(() => over === clients.length - 1);
  });

  it('I11 are cut when all of them hold too much, the one first that has waited longest', async () => {
    const waiting = new AnswersWaiting(3.5 * LONG);
    const drained: number[] = [];
    answer = (res) => {
      const n = served.length - 1;
      res.writeHead(200, { 'Content-Length': String(LONG) });
      res.write(Buffer.alloc(LONG));
      void waiting.drained(res).then(() => drained.push(n));
    };
    const [, second, third] = [await client(), await client(), await client()];
    expect(served.map((res) => res.destroyed)).toEqual([false, false, false]);
    const fourth = await client();
    await until(() => drained.includes(0));
    expect(served.map((res) => res.destroyed)).toEqual([true, false, false, false]);
    expect(waiting.bytes).toBeLessThanOrEqual(waiting.bytesMax);
    expect(waiting.bytes).toBeGreaterThanOrEqual(3 * LONG);
    // What a client has taken counts no longer, and neither does one that has left.
    third.resume();
    await until(() => drained.includes(2));
    second.destroy();
    fourth.destroy();
    await until(() => waiting.bytes === 0);
    expect(drained.sort()).toEqual([0, 1, 2, 3]);
  });
});
