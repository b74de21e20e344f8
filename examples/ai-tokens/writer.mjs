/**
 * Writes the answer of a language model into a stream, token by token, so that it survives the writer: `node examples/ai-tokens/writer.mjs URL`.
 *
 * Start it again after it died, on any machine, and it goes on behind the last token that was stored. Three headers do that:
 * - `Producer-Id`, `-Epoch`, `-Seq`: a request whose answer got lost is sent again and stored once; a new writer has a higher epoch, and from its first token on whatever an old one still sends is refused (403).
 * - `Stream-Seq`, the number of the token: a token that another writer stored meanwhile is refused (409), and the writer looks again at what is there.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Digits of a token's number: values of `Stream-Seq` are compared as text. */
const DIGITS = 9;
const RETRY_MS = 200;
const RETRIES_MAX = 50;

/** What stands for the model: the tokens of a text behind the first `from`, at the pace of a model. A real one is asked to go on from the text so far. */
async function* model(text, from, paceMs) {
  const tokens = text.match(/\s*\S+/g) ?? [];
  for (const token of tokens.slice(from)) {
    await sleep(paceMs);
    yield token;
  }
}

/** Sends until there is an answer: the very same request is stored once, however often it arrives. */
async function post(url, headers, body) {
  for (let tries = 1; ; tries += 1) {
    try {
      const answer = await fetch(url, { method: 'POST', headers, body });
      if (answer.status < 500) return answer;
    } catch (error) {
      if (tries === RETRIES_MAX) throw error;
    }
    if (tries === RETRIES_MAX) throw new Error(`no answer from ${url}`);
    await sleep(RETRY_MS);
  }
}

/** Tokens that are stored already. */
async function stored(url) {
  const answer = await fetch(`${url}?offset=-1`);
  if (!answer.ok) throw new Error(`${url} cannot be read: ${answer.status}`);
  return await answer.json();
}

/** Writes `text` into the stream and closes it; `onToken` is called behind each token that is stored. */
export async function write(url, text, { paceMs = 20, onToken = () => undefined } = {}) {
  const created = await fetch(url, { method: 'PUT', headers: { 'Content-Type': 'application/json' } });
  if (created.status === 409) return;
  if (!created.ok) throw new Error(`${url} cannot be created: ${created.status}`);
  const epoch = String(Date.now());
  let seq = 0;
  let at = (await stored(url)).length;
  for (let done = false; !done; ) {
    done = true;
    for await (const token of model(text, at, paceMs)) {
      const headers = { 'Content-Type': 'application/json', 'Producer-Id': 'model', 'Producer-Epoch': epoch, 'Producer-Seq': String(seq), 'Stream-Seq': String(at + 1).padStart(DIGITS, '0') };
      const answer = await post(url, headers, JSON.stringify(token));
      if (answer.status === 409) {
        at = (await stored(url)).length;
        done = false;
        break;
      }
      if (!answer.ok) throw new Error(`another writer has taken over: ${answer.status}`);
      seq += 1;
      at += 1;
      onToken(at);
    }
  }
  await post(url, { 'Stream-Closed': 'true' });
}

if (process.argv[1]?.endsWith('writer.mjs')) {
  const [url = 'http://127.0.0.1:4437/v1/stream/demo/answer', text = 'Snow that lasts for years turns to firn, and firn to ice: each layer holds what fell, in the order in which it fell.', pace = '200'] = process.argv.slice(2);
  await write(url, text, { paceMs: Number(pace), onToken: (n) => process.stdout.write(`token ${n}\n`) });
}
