/**
 * A real browser on another origin: `fetch` with preflights, headers of the protocol that a page may read, and `EventSource`.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureChromium } from '../../infra/services/chromium.js';
import { FirnNode } from '../support/node.js';

let server: Server;
let node: FirnNode;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  server = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end('<!doctype html><title>another origin</title>'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  node = new FirnNode({ FIRN_CORS_ORIGINS: origin });
  await node.start();
  browser = await chromium.launch(await ensureChromium());
  page = await browser.newPage();
  await page.goto(origin);
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await node?.dispose();
  await new Promise((resolve) => server.close(resolve));
});

it('a page creates, appends with a producer, reads, and sees the headers of the protocol', async () => {
  const seen = await page.evaluate(async (url) => {
    const headers = { 'Content-Type': 'application/json' };
    const created = await fetch(url, { method: 'PUT', headers });
    const appended = await fetch(url, { method: 'POST', headers: { ...headers, 'Producer-Id': 'page', 'Producer-Epoch': '0', 'Producer-Seq': '0' }, body: '[{"n":1},{"n":2}]' });
    const repeated = await fetch(url, { method: 'POST', headers: { ...headers, 'Producer-Id': 'page', 'Producer-Epoch': '0', 'Producer-Seq': '0' }, body: '[{"n":1},{"n":2}]' });
    const read = await fetch(`${url}?offset=-1`);
    const head = await fetch(url, { method: 'HEAD' });
    const missing = await fetch(`${url}-missing?offset=-1`);
    return {
      statuses: [created.status, appended.status, repeated.status, read.status, head.status, missing.status],
      items: await read.json() as unknown,
      next: read.headers.get('stream-next-offset'), upToDate: read.headers.get('stream-up-to-date'), etag: read.headers.get('etag') !== null,
      epoch: appended.headers.get('producer-epoch'), incarnation: created.headers.get('stream-incarnation'), location: created.headers.get('location') !== null,
      code: ((await missing.json()) as { error: { code: string } }).error.code,
    };
  }, `${node.url}/v1/stream/page/notes`);
  expect(seen).toEqual({
    statuses: [201, 200, 204, 200, 200, 404], items: [{ n: 1 }, { n: 2 }], next: '00000000000000000016', upToDate: 'true', etag: true, epoch: '0', incarnation: expect.stringMatching(/^\d{16}$/), location: true,
    code: 'STREAM_NOT_FOUND',
  });
});

for (const path of ['/v1/stream/page/tokens', '/page/tokens-2']) {
  it(`EventSource follows ${path} to its end`, async () => {
    const seen = await page.evaluate(async (url) => {
      await fetch(url, { method: 'PUT', headers: { 'Content-Type': 'text/plain' } });
      const source = new EventSource(`${url}?offset=-1&live=sse`);
      let text = '';
      const controls: { readonly streamNextOffset?: string; readonly streamClosed?: boolean }[] = [];
      const closed = new Promise<void>((resolve, reject) => {
        source.addEventListener('data', (event) => (text += String((event as MessageEvent).data)));
        source.addEventListener('control', (event) => {
          const control = JSON.parse(String((event as MessageEvent).data)) as { streamClosed?: boolean };
          controls.push(control);
          if (control.streamClosed === true) resolve();
        });
        setTimeout(() => reject(new Error(`not closed: ${text} ${JSON.stringify(controls)}`)), 20_000);
      });
      for (let n = 0; n < 20; n += 1) await fetch(url, { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: `tökén ${n};` });
      await fetch(url, { method: 'POST', headers: { 'Stream-Closed': 'true' } });
      await closed;
      source.close();
      const whole = await (await fetch(`${url}?offset=-1`)).text();
      return { text, whole, last: controls.at(-1)?.streamNextOffset };
    }, `${node.url}${path}`);
    const wanted = Array.from({ length: 20 }, (_, n) => `tökén ${n};`).join('');
    expect(seen).toEqual({ text: wanted, whole: wanted, last: String(Buffer.byteLength(wanted)).padStart(20, '0') });
  });
}

it('a page of an origin that is not configured reads nothing', async () => {
  const other = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end('<!doctype html><title>a third origin</title>'));
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const stranger = await browser.newPage();
  try {
    await stranger.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}`);
    const outcome = await stranger.evaluate((url) => fetch(url).then(() => 'read', (error: Error) => error.name), `${node.url}/v1/stream/page/notes?offset=-1`);
    expect(outcome).toBe('TypeError');
  } finally {
    await stranger.close();
    await new Promise((resolve) => other.close(resolve));
  }
});
