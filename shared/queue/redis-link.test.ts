import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { RedisServer } from '../../infra/services/redis.js';
import { createLogger } from '../observability/index.js';
import { RedisLink } from './redis-link.js';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function linkTo(url: string): RedisLink {
  const link = new RedisLink({ url, logger: createLogger('silent'), now: Date.now });
  ends.push(() => link.close());
  return link;
}

async function until(check: () => boolean, ms: number): Promise<void> {
  for (const end = Date.now() + ms; !check() && Date.now() < end; ) await pause(50);
  expect(check()).toBe(true);
}

/** Before a server; once `swallowing`, the connections there are stay open and carry nothing, while new ones work. */
async function forgetfulProxy(port: number): Promise<{ readonly port: number; readonly swallow: () => void }> {
  const pairs: [Socket, Socket][] = [];
  const proxy = createServer((socket) => {
    const up = connect(port, '127.0.0.1');
    for (const end of [socket, up]) end.on('error', () => undefined);
    socket.pipe(up).pipe(socket);
    socket.on('close', () => up.destroy());
    pairs.push([socket, up]);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  ends.push(() => {
    for (const pair of pairs) for (const socket of pair) socket.destroy();
    proxy.close();
  });
  const swallow = (): void => {
    for (const [socket, up] of pairs) {
      socket.unpipe(up).resume();
      up.unpipe(socket).resume();
    }
  };
  return { port: (proxy.address() as AddressInfo).port, swallow };
}

describe('the connection for commands', () => {
  it('R046 is made anew when the network has forgotten it', { timeout: 60_000 }, async () => {
    const redis = await RedisServer.start();
    ends.push(() => redis.dispose());
    const proxy = await forgetfulProxy(Number(new URL(redis.url).port));
    const link = linkTo(`redis://127.0.0.1:${proxy.port}`);
    await until(() => link.ready, 10_000);
    proxy.swallow();
    await until(() => link.away !== null, 10_000);
    await until(() => link.ready, 20_000);
    expect(await link.commands.ping()).toBe('PONG');
  });
});

describe('a server that answers', () => {
  it('is not ready before it was looked at: a wrong one is known as wrong from the start', async () => {
    const redis = await RedisServer.start({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    ends.push(() => redis.dispose());
    const link = linkTo(redis.url);
    await once(link.commands, 'ready');
    expect(link.away).not.toBeNull();
    await until(() => link.ready, 10_000);
    expect(link.warnings).toEqual([expect.stringContaining('maxmemory-policy is allkeys-lru')]);
  });
});

describe('the text of an error', () => {
  it('has no password, plain or encoded, and no user within a URL; a common word stays what it is', () => {
    const link = linkTo('redis://firn:p%40ss@127.0.0.1:1');
    expect(link.safe(new Error('firn: job of firn:seal failed, AUTH firn p@ss'))).toBe('firn: job of firn:seal failed, AUTH firn (hidden)');
    expect(link.safe(new Error('cannot reach redis://firn:p%40ss@127.0.0.1:1'))).toBe('cannot reach redis://(hidden)@127.0.0.1:1');
    expect(link.describe).toBe('redis://127.0.0.1:1');
  });
});
