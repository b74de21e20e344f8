/**
 * `@durable-streams/aisdk-transport`, unmodified: a chat of the AI SDK whose answers go through a stream of a running node.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDurableChatTransport, toDurableStreamResponse } from '@durable-streams/aisdk-transport';
import type { UIMessage, UIMessageChunk } from 'ai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { useNode } from '../support/node.js';

const node = useNode();

const WORDS = ['An ', 'answer ', 'in ', 'small ', 'pieces, ', '"quoted", ', 'with a\nline break and é.'];

function chunksOf(words: readonly string[]): UIMessageChunk[] {
  return [
    { type: 'start', messageId: 'm1' },
    { type: 'text-start', id: 't1' },
    ...words.map((delta): UIMessageChunk => ({ type: 'text-delta', id: 't1', delta })),
    { type: 'text-end', id: 't1' },
    { type: 'finish' },
  ];
}

/** What a model would give, slowly. */
async function* generated(): AsyncGenerator<UIMessageChunk> {
  for (const chunk of chunksOf(WORDS)) {
    await sleep(20);
    yield chunk;
  }
}

/** The application's own server: starts an answer, and tells who comes back where it is. */
let app: Server;
let api = '';

beforeAll(async () => {
  let at = '';
  app = createServer((req, res) => {
    void (async () => {
      if (req.method === 'GET') {
        if (at === '') return res.writeHead(204).end();
        return res.writeHead(200, { Location: at }).end();
      }
      for await (const _ of req);
      at = `${node.url}/v1/stream/chats/answer-1`;
      const response = await toDurableStreamResponse({ source: generated(), stream: { writeUrl: at } });
      return res.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
    })();
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  api = `http://127.0.0.1:${(app.address() as AddressInfo).port}/api/chat`;
});

afterAll(() => new Promise((resolve) => app.close(resolve)));

async function read(stream: ReadableStream<UIMessageChunk>, most = Infinity): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = [];
  const reader = stream.getReader();
  while (chunks.length < most) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
  }
  await reader.cancel();
  return chunks;
}

it('a chat is answered through a stream, and one who reloads the page gets the whole answer', async () => {
  const transport = createDurableChatTransport<UIMessage>({ api });
  expect(await transport.reconnectToStream({ chatId: 'c1' })).toBeNull();
  const message: UIMessage = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Well?' }] };
  const answer = await transport.sendMessages({ trigger: 'submit-message', chatId: 'c1', messageId: undefined, messages: [message], abortSignal: undefined });
  // The page is gone in the middle of it.
  expect(await read(answer, 3)).toEqual(chunksOf(WORDS).slice(0, 3));
  const again = await transport.reconnectToStream({ chatId: 'c1' });
  expect(await read(again!)).toEqual(chunksOf(WORDS));
  expect((await fetch(`${node.url}/v1/stream/chats/answer-1`, { method: 'HEAD' })).headers.get('stream-closed')).toBe('true');
});
