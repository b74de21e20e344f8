/** How a node starts and ends: SIGTERM under load, a second opener, an empty directory (R083, R091, R095). */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { firn, settingsFor } from './support/cli.js';
import { Http } from './support/http.js';
import { FirnNode, ownNode } from './support/node.js';
import { RawConnection } from './support/raw.js';
import { controlsOf } from './support/sse.js';
import { OCTETS, sleep, Stream, TEXT } from './support/stream.js';

describe('SIGTERM', () => {
  const node = ownNode();

  it('R083 ends live reads at an offset that resumes, answers or leaves out each POST, and exits with 0 in time', { timeout: 90_000 }, async () => {
    await node.start();
    const live = new Stream(node.http, '/ending/live');
    await live.create({ type: TEXT, body: 'before' });
    const events = await Promise.all(Array.from({ length: 60 }, () => live.sse('-1')));
    for (const sse of events) await sse.through();
    const polls = Array.from({ length: 60 }, () => live.poll('now', { timeout_ms: 60_000 }).catch(() => null));
    const idle = await Promise.all(Array.from({ length: 150 }, () => RawConnection.open(node.url)));
    for (const connection of idle.slice(0, 75)) connection.write(`HEAD ${live.path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    const writers = Array.from({ length: 20 }, (_, i) => new Stream(node.http, `/ending/w${i}`));
    for (const writer of writers) await writer.create({ type: OCTETS });
    const acknowledged = new Map<Stream, number>();
    let running = true;
    const writing = writers.map(async (writer) => {
      for (let n = 0; running; n += 1) {
        const answer = await writer.append(`${n};`, { producer: ['p', 0, n] }).catch(() => null);
        if (answer === null || answer.status >= 500) return;
        acknowledged.set(writer, n + 1);
      }
    });
    await sleep(300);
    const startedAt = Date.now();
    const exit = await node.stop();
    running = false;
    expect(exit).toEqual({ code: 0, signal: null });
    expect(Date.now() - startedAt).toBeLessThan(15_000);
    await Promise.all(writing);
    for (const answer of await Promise.all(polls)) if (answer !== null) expect([200, 204, 503]).toContain(answer.status);
    for (const sse of events) {
      expect(await sse.end()).toBe('clean');
      expect(sse.events.at(-1)?.event).toBe('control');
      expect(controlsOf(sse.events).at(-1)?.streamClosed).toBeUndefined();
      expect(sse.events.some((event) => event.event === 'error')).toBe(false);
    }
    for (const connection of idle) connection.destroy();
    await node.start();
    expect((await live.read({ offset: controlsOf(events[0]!.events).at(-1)!.streamNextOffset })).status).toBe(200);
    for (const [writer, count] of acknowledged) {
      const stored = (await writer.read()).text.split(';').slice(0, -1);
      expect(stored.slice(0, count)).toEqual(Array.from({ length: count }, (_, n) => String(n)));
      expect(stored.length - count).toBeLessThanOrEqual(1);
    }
  });

  it('R091 under reads, appends and seals it ends with 0 each time, and loses nothing', { timeout: 120_000 }, async () => {
    const busy = new FirnNode({ FIRN_SEAL_AGE_MS: '50', FIRN_HOT_KEEP_MS: '0' });
    try {
      await busy.start();
      const s = new Stream(busy.http, '/ending/busy');
      await s.create({ type: OCTETS });
      let text = '';
      for (let round = 0; round < 6; round += 1) {
        let running = true;
        const append = (async () => {
          for (let n = 0; running; n += 1) {
            const piece = `${round}.${n} ${'x'.repeat(2_000)};`;
            const answer = await s.append(piece).catch(() => null);
            if (answer?.status !== 204) return piece;
            text += piece;
          }
          return '';
        })();
        const reads = Array.from({ length: 4 }, async () => {
          while (running) if ((await s.read().catch(() => null)) === null) return;
        });
        await sleep(250);
        expect(await busy.stop()).toEqual({ code: 0, signal: null });
        running = false;
        const unanswered = await append;
        await Promise.all(reads);
        await busy.start();
        const stored = (await s.all()).toString();
        expect([text, text + unanswered]).toContain(stored);
        text = stored;
      }
    } finally {
      await busy.dispose();
    }
  });
});

describe('SIGTERM, slow clients', () => {
  const node = ownNode();

  it('R083 waits for the clients of both listeners at the same time, so that the waits do not add up', { timeout: 60_000 }, async () => {
    await node.start();
    const s = new Stream(node.http, '/ending/slow');
    await s.create({ type: OCTETS });
    const upload = await RawConnection.open(node.url);
    upload.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${OCTETS}\r\nContent-Length: 1000000\r\n\r\n`);
    const trickle = setInterval(() => upload.write('x'.repeat(2_000)), 500);
    const admin = await RawConnection.open(node.adminUrl);
    admin.write('POST /__firn/verify HTTP/1.1\r\nHost: localhost\r\n');
    await sleep(200);
    const startedAt = Date.now();
    const exit = await node.stop();
    clearInterval(trickle);
    expect(exit).toEqual({ code: 0, signal: null });
    expect(Date.now() - startedAt).toBeLessThan(15_000);
    upload.destroy();
    admin.destroy();
  });
});

describe('start', () => {
  it('R095 a second opener of the directory is refused with a clear line, and the first goes on', { timeout: 60_000 }, async () => {
    const first = new FirnNode();
    const second = new FirnNode();
    try {
      await first.start();
      const s = new Stream(first.http, '/only/one');
      await s.create({ type: OCTETS, body: 'abc' });
      second.dataDir = first.dataDir;
      for (let i = 0; i < 2; i += 1) {
        await second.launch();
        const exit = await second.exited;
        expect([exit.code !== 0, exit.signal]).toEqual([true, null]);
        expect(second.output).toMatch(/in use|lock|held|another/i);
        expect(second.output).not.toContain('"listening"');
      }
      expect((await s.append('def')).status).toBe(204);
      await first.kill();
      await first.start();
      expect((await s.read()).text).toBe('abcdef');
    } finally {
      second.dataDir = '';
      await second.dispose();
      await first.dispose();
    }
  });

  it('SEC-06 an empty directory becomes a store; the health routes say so', async () => {
    const node = new FirnNode();
    const parent = mkdtempSync(join(tmpdir(), 'firn-test-'));
    node.dataDir = join(parent, 'not', 'there', 'yet');
    try {
      await node.start();
      expect(existsSync(join(node.dataDir, 'hot'))).toBe(true);
      for (const route of ['healthz', 'readyz', 'metrics', 'streams', 'jobs']) expect([route, (await node.admin.send('GET', `/__firn/${route}`)).status]).toEqual([route, 200]);
      const help = await firn(['serve', '--help'], settingsFor(node));
      expect(help.stdout).toContain('4437');
    } finally {
      await node.dispose();
      rmSync(parent, { recursive: true, force: true });
    }
  });

  it('the client listener does not serve the operator, nor the other way round', async () => {
    const node = new FirnNode();
    try {
      await node.start();
      for (const path of ['/__firn/healthz', '/__firn/metrics', '/__firn/streams']) expect((await node.http.send('GET', path)).status).toBeGreaterThanOrEqual(400);
      expect((await node.http.send('POST', '/__firn/seal')).status).toBeGreaterThanOrEqual(400);
      expect((await node.admin.send('PUT', '/demo/x')).status).toBeGreaterThanOrEqual(400);
    } finally {
      await node.dispose();
    }
  });

  it('a taken port or a bad setting ends the start with a clear line', async () => {
    const node = new FirnNode();
    const other = mkdtempSync(join(tmpdir(), 'firn-test-'));
    try {
      await node.start();
      const taken = await firn(['serve'], { ...settingsFor(node), FIRN_DATA_DIR: other });
      expect([taken.code === 0, /in use|EADDRINUSE/i.test(taken.stdout + taken.stderr)]).toEqual([false, true]);
      const settings: Record<string, string>[] = [{ FIRN_PORT: 'abc' }, { FIRN_SEAL_BYTES: '-1' }, { FIRN_COLD: 'ice' }, { FIRN_LOG: 'loud' }, { FIRN_HOST: '0.0.0.0' }, { FIRN_PARTITIONS: '0' }];
      for (const bad of settings) {
        const run = await firn(['serve'], { FIRN_DATA_DIR: other, FIRN_PORT: '0', FIRN_ADMIN_PORT: '0', ...bad });
        expect([bad, run.code === 0]).toEqual([bad, false]);
        expect(run.stderr + run.stdout).toContain(Object.keys(bad)[0]);
      }
    } finally {
      rmSync(other, { recursive: true, force: true });
      await node.dispose();
    }
  });

  it('an admin token is asked for', async () => {
    const node = new FirnNode({ FIRN_ADMIN_TOKEN: 'secret-token' });
    try {
      await node.start();
      expect((await node.admin.send('GET', '/__firn/streams')).status).toBe(401);
      expect((await node.admin.send('POST', '/__firn/seal', { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
      expect((await node.admin.send('GET', '/__firn/streams', { headers: { authorization: 'Bearer secret-token' } })).status).toBe(200);
      const plain = new Http(node.url);
      expect((await plain.send('PUT', '/demo/open')).status).toBe(201);
      await plain.close();
    } finally {
      await node.dispose();
    }
  });
});
