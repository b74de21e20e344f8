import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { TakenRequest } from './taken-request.js';

type Handler = (req: TakenRequest, res: ServerResponse) => void;

let server: Server<typeof TakenRequest> | undefined;
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
});

async function open(handler: Handler): Promise<Socket> {
  server = createServer({ IncomingMessage: TakenRequest }, handler);
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  await once(socket, 'connect');
  return socket;
}

/** Takes a body and answers with what came; `pieces`: bytes after which it leaves the rest. */
function takeAll(req: TakenRequest, done: (what: string) => void, bytesMax = Infinity): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  req.giveBody({
    take: (chunk) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes < bytesMax) return;
      req.leaveBody();
      done(`left after ${bytes}`);
    },
    finish: () => done(Buffer.concat(chunks).toString()),
    broken: () => done('broken'),
  });
}

function post(body: string, declared = body.length): string {
  return `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${declared}\r\n\r\n${body}`;
}

/** Bodies of the next answers. */
async function answers(socket: Socket, count: number): Promise<string[]> {
  let text = '';
  for (;;) {
    const found = [...text.matchAll(/\r\n\r\n<(.*?)>/gs)].map((match) => match[1]!);
    if (found.length >= count) return found;
    text += String((await once(socket, 'data'))[0]);
  }
}

const echo: Handler = (req, res) => takeAll(req, (what) => res.end(`<${what}>`));
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('a body that is taken', () => {
  it('is given whole, request after request on one connection, however it is cut', async () => {
    const socket = await open(echo);
    socket.write(post('one') + post('') + post('three'));
    expect(await answers(socket, 3)).toEqual(['one', '', 'three']);
    socket.write(post('fo', 4));
    await pause(20);
    socket.write('ur');
    expect(await answers(socket, 1)).toEqual(['four']);
  });

  it.each([['in part', 3], ['whole', 6]])('that has come %s before it is taken is given whole', async (_, sent) => {
    const socket = await open((req, res) => void pause(60).then(() => echo(req, res)));
    socket.write(post('sixsix'.slice(0, sent), 6));
    await pause(120);
    socket.write('sixsix'.slice(sent) + post('next'));
    expect(await answers(socket, 2)).toEqual(['sixsix', 'next']);
  });

  it('is larger than what a stream would hold, and comes late', async () => {
    const socket = await open((req, res) => void pause(60).then(() => echo(req, res)));
    const body = 'x'.repeat(3_000_000);
    socket.write(post(body) + post('next'));
    expect((await answers(socket, 2)).map((answer) => answer.length)).toEqual([body.length, 4]);
  });

  it('of which the rest is left does not disturb the next request', async () => {
    const socket = await open((req, res) => takeAll(req, (what) => res.end(`<${what}>`), 5));
    socket.write(post('12345', 200_000));
    expect(await answers(socket, 1)).toEqual(['left after 5']);
    socket.write('y'.repeat(199_995) + post('four'));
    expect(await answers(socket, 1)).toEqual(['four']);
  });

  it('whose client goes is broken, once, whether it goes before or while it is taken', async () => {
    for (const waitMs of [0, 60]) {
      const said: string[] = [];
      const socket = await open((req) => void pause(waitMs).then(() => takeAll(req, (what) => said.push(what))));
      socket.write(post('half', 8));
      await pause(20);
      socket.destroy();
      await expect.poll(() => said).toEqual(['broken']);
      await pause(60);
      expect(said).toEqual(['broken']);
      await new Promise((resolve) => server?.close(resolve));
    }
  });

  it('and then waits for its answer survives that the client goes', async () => {
    const said: string[] = [];
    const socket = await open((req) => takeAll(req, (what) => said.push(what)));
    socket.write(post('whole'));
    await expect.poll(() => said).toEqual(['whole']);
    socket.destroy();
    await pause(60);
    expect(said).toEqual(['whole']);
  });

  it('nobody takes it: it is a stream', async () => {
    const socket = await open((req, res) => {
      let text = '';
      req.on('data', (chunk: Buffer) => (text += String(chunk)));
      req.on('end', () => res.end(`<${text}>`));
    });
    socket.write(post('one') + post('two'));
    expect(await answers(socket, 2)).toEqual(['one', 'two']);
  });
});
