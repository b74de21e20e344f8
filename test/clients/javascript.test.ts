/**
 * `@durable-streams/client`, unmodified, against a running node: what it offers an application.
 */
import { DurableStream, IdempotentProducer, stream } from '@durable-streams/client';
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';

const node = useNode();
let count = 0;
const freshUrl = (): string => `${node.url}/v1/stream/clients/js-${(count += 1)}`;

const words = (n: number): string[] => Array.from({ length: n }, (_, i) => `word ${i} ünï;`);

it('creates, appends, reads to the end, asks for the head and deletes', async () => {
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'text/plain' });
  await handle.append('first;');
  await handle.append('second;');
  const read = await stream({ url: handle.url, live: false });
  expect(await read.text()).toBe('first;second;');
  expect(await handle.head()).toMatchObject({ exists: true, contentType: 'text/plain', offset: read.offset });
  await handle.delete();
  expect(await handle.head().catch((error: unknown) => error)).toMatchObject({ exists: false });
});

it('goes on from an offset, and joins concurrent appends to batches that lose nothing and keep their order', async () => {
  const requests: string[] = [];
  const counting: typeof fetch = (input, init) => {
    if (init?.method === 'POST') requests.push(String(input));
    return fetch(input, init);
  };
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'application/json', fetch: counting });
  await handle.append(JSON.stringify({ n: -1 }));
  const { offset } = await stream({ url: handle.url, live: false });
  await Promise.all(Array.from({ length: 200 }, (_, n) => handle.append(JSON.stringify({ n, text: `é ${n}` }))));
  const later = await (await stream<{ n: number }>({ url: handle.url, live: false, offset })).json();
  expect(later.map(({ n }) => n)).toEqual(Array.from({ length: 200 }, (_, n) => n));
  expect(requests.length).toBeLessThan(100);
});

for (const live of ['long-poll', 'sse'] as const) {
  it(`follows a JSON stream by ${live} until it is closed, without a gap or a repeat`, async () => {
    const handle = await DurableStream.create({ url: freshUrl(), contentType: 'application/json' });
    await handle.append(JSON.stringify({ n: 0 }));
    const reader = await stream<{ n: number }>({ url: handle.url, live, offset: '-1' });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { n } of reader.jsonStream()) {
        seen.push(n);
        if (n < 50) await handle.append(JSON.stringify({ n: n + 1 }));
        else await handle.close();
      }
    })();
    await reading;
    expect(seen).toEqual(Array.from({ length: 51 }, (_, n) => n));
    expect(reader.streamClosed).toBe(true);
    await expect(handle.append(JSON.stringify({ n: 99 }))).rejects.toMatchObject({ status: 409, headers: { 'stream-closed': 'true' } });
  });
}

it('follows text by SSE with every character whole', async () => {
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'text/plain' });
  const reader = await stream({ url: handle.url, live: 'sse', offset: '-1' });
  let text = '';
  const reading = (async () => {
    for await (const piece of reader.textStream()) text += piece;
  })();
  for (const word of words(30)) await handle.append(word);
  await handle.close();
  await reading;
  expect(text).toBe(words(30).join(''));
});

it('an idempotent producer whose answers get lost appends each message once', async () => {
  let lost = 0;
  let posts = 0;
  const losing: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (init?.method !== 'POST' || (posts += 1) % 3 !== 0) return answer;
    lost += 1;
    throw new TypeError('fetch failed');
  };
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'application/json' });
  const producer = new IdempotentProducer(handle, 'meter-7', { fetch: losing, autoClaim: true, maxBatchBytes: 200, lingerMs: 0, maxInFlight: 1 });
  for (let n = 0; n < 120; n += 1) {
    producer.append(JSON.stringify({ n }));
    if (n % 10 === 9) await producer.flush();
  }
  await producer.flush();
  await producer.close();
  const items = await (await stream<{ n: number }>({ url: handle.url, live: false })).json();
  expect(items.map(({ n }) => n)).toEqual(Array.from({ length: 120 }, (_, n) => n));
  expect(lost).toBeGreaterThan(1);
});

it('a second producer under the same name fences the first', async () => {
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'text/plain' });
  const errors: Error[] = [];
  const first = new IdempotentProducer(handle, 'writer', { epoch: 0, onError: (error) => errors.push(error) });
  first.append('one;');
  await first.flush();
  const second = new IdempotentProducer(handle, 'writer', { epoch: 1 });
  second.append('two;');
  await second.flush();
  first.append('late;');
  await first.flush().catch(() => undefined);
  expect(errors.map((error) => error.name)).toContain('StaleEpochError');
  expect(await (await stream({ url: handle.url, live: false })).text()).toBe('one;two;');
});

it('streams a body in and bytes out', async () => {
  const handle = await DurableStream.create({ url: freshUrl(), contentType: 'application/octet-stream' });
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 20; i += 1) yield new Uint8Array(10_000).fill(i);
  }
  await handle.appendStream(source());
  const body = await (await stream({ url: handle.url, live: false })).body();
  expect(body.length).toBe(200_000);
  for (let i = 0; i < 20; i += 1) expect([body[i * 10_000], body[i * 10_000 + 9_999]]).toEqual([i, i]);
});
