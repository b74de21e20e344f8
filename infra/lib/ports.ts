/**
 * Free ports on loopback.
 *
 * Promises: ports lie below the range from which the kernel takes ports for outgoing connections, so that one stays free until its server listens, and over a restart.
 */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

const PORT_MIN = 10_300;
const PORT_MAX = 30_000;
const TRIES_MAX = 200;

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}

/** A port that was free a moment ago, and the one after it too. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    if ((await isFree(port)) && (await isFree(port + 1))) return port;
  }
  throw new Error('no free port was found');
}
