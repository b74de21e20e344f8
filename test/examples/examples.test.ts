/**
 * The examples, in a real browser against a running node.
 */
import { spawn } from 'node:child_process';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureChromium } from '../../infra/services/chromium.js';
import { FirnNode } from '../support/node.js';
import { PROJECT } from '../support/paths.js';

let server: Server;
let origin: string;
let node: FirnNode;
let browser: Browser;

beforeAll(async () => {
  const { serve } = (await import(join(PROJECT, 'examples', 'serve.mjs'))) as { serve(port: number): Promise<Server> };
  server = await serve(0);
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  node = new FirnNode({ FIRN_CORS_ORIGINS: origin });
  await node.start();
  browser = await chromium.launch(await ensureChromium());
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await node?.dispose();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** A page that shows what goes wrong in it. */
async function pageAt(url: string): Promise<Page> {
  const page = await browser.newPage();
  page.on('pageerror', (error) => process.stderr.write(`page: ${error.message}\n`));
  await page.goto(url);
  return page;
}

it('an answer goes on behind a writer that is killed, and pages that lose their node see every token once', { timeout: 120_000 }, async () => {
  const url = `${node.url}/v1/stream/demo/answer`;
  const text = Array.from({ length: 120 }, (_, n) => `tökén-${n}`).join(' ');
  const writer = (): ReturnType<typeof spawn> => spawn(process.execPath, [join(PROJECT, 'examples', 'ai-tokens', 'writer.mjs'), url, text, '15'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const tokens = (child: ReturnType<typeof spawn>, until: number): Promise<void> => new Promise((resolve) => child.stdout!.on('data', (piece: Buffer) => {
    if (Number(/token (\d+)\n$/.exec(piece.toString())?.[1] ?? 0) >= until) resolve();
  }));
  const first = writer();
  await tokens(first, 5);
  const page = await pageAt(`${origin}/examples/ai-tokens/?url=${encodeURIComponent(url)}`);
  await tokens(first, 30);
  first.kill('SIGKILL');
  const second = writer();
  await tokens(second, 60);
  // The node goes away under writer and page, and comes back.
  await node.stop();
  await node.start();
  const ended = new Promise((resolve) => second.once('exit', resolve));
  const late = await pageAt(`${origin}/examples/ai-tokens/?url=${encodeURIComponent(url)}`);
  expect(await ended).toBe(0);
  for (const one of [page, late]) {
    await one.waitForFunction("document.getElementById('state').textContent === 'complete'");
    expect(await one.textContent('#answer')).toBe(text);
    await one.close();
  }
  // A writer that comes too late finds the answer whole.
  expect(await new Promise((resolve) => writer().once('exit', resolve))).toBe(0);
});

it('two pages edit one document at once, snapshots are published, and a late joiner gets it in one request', { timeout: 120_000 }, async () => {
  const url = `${origin}/examples/document/?node=${encodeURIComponent(node.url)}&name=demo/document`;
  const [one, two] = [await pageAt(url), await pageAt(url)];
  for (const page of [one, two]) await page.waitForSelector('#text:enabled');
  for (let n = 0; n < 40; n += 1) {
    for (const [page, name] of [[one, 'a'], [two, 'b']] as const) {
      await page.focus('#text');
      await page.keyboard.press('Control+End');
      await page.keyboard.insertText(`${name}${n}é\n`);
    }
  }
  const lines = async (page: Page): Promise<string[]> => (await page.inputValue('#text')).split('\n').filter((line) => line !== '');
  const wanted = Array.from({ length: 40 }, (_, n) => [`a${n}é`, `b${n}é`]).flat().sort();
  for (const page of [one, two]) await page.waitForFunction("document.getElementById('text').value.split('\\n').length === 81");
  expect((await lines(one)).toSorted()).toEqual(wanted);
  expect(await lines(two)).toEqual(await lines(one));

  const late = await pageAt(url);
  await late.waitForSelector('#text:enabled');
  expect(await lines(late)).toEqual(await lines(one));
  const parts = await late.evaluate<number>('documentStats.parts');
  expect(parts).toBeLessThan(80);
  await one.close();
  await two.close();
  await late.close();
});
