/**
 * The demonstration's own small client: it knows the protocol and nothing of the server's code.
 */
import { Agent, request, type Dispatcher } from 'undici';

const agent = new Agent({ connections: 64, headersTimeout: 0, bodyTimeout: 0, pipelining: 1 });

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Call {
  readonly method?: Dispatcher.HttpMethod;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
  readonly signal?: AbortSignal;
  /** Statuses that are no failure. */
  readonly expect: readonly number[];
}

/** One request, its whole answer. Throws for a status that was not expected. */
export async function call(url: string, options: Call): Promise<Answer> {
  const answer = await open(url, options);
  const body = Buffer.from(await answer.body.arrayBuffer());
  return { status: answer.statusCode, headers: answer.headers as Record<string, string>, body };
}

/** One request, its body still to come. */
export async function open(url: string, options: Call): Promise<Dispatcher.ResponseData> {
  const { method = 'GET', headers = {}, body = null, signal } = options;
  const answer = await request(url, { dispatcher: agent, method, headers, body, ...(signal === undefined ? {} : { signal }) });
  if (!options.expect.includes(answer.statusCode)) throw new Error(`${method} ${url}: ${answer.statusCode} ${(await answer.body.text()).slice(0, 500)}`);
  return answer;
}

export function header(answer: { readonly headers: Readonly<Record<string, unknown>> }, name: string): string {
  const value = answer.headers[name];
  if (typeof value !== 'string') throw new Error(`an answer without ${name}`);
  return value;
}

export async function closeClient(): Promise<void> {
  await agent.close();
}
