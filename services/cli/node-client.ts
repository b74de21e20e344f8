/**
 * Calls to a running node over its two listeners.
 *
 * Owns: addresses, credentials and the reading of refusals. Promises: anything but 2xx throws `CommandFailed` with the node's own sentence.
 */
import { request, type Dispatcher } from 'undici';
import { httpUrl, type Config } from '../../shared/config/index.js';
import { CommandFailed } from './failures.js';

/** A request that waits for work (a checkpoint, a check of everything) may stay silent for long. */
const PATIENT = { headersTimeout: 0, bodyTimeout: 0 };
/** Longest wait for work that a node does on request, ms: the most it accepts. */
export const WORK_MS_MAX = 3_600_000;
/** Most bytes of a refusal that are read. */
const REFUSAL_BYTES_MAX = 65_536;

export type Answer = Dispatcher.ResponseData;

/** No node answers at this address. */
export class NodeAway extends CommandFailed {}

type CallOptions = { readonly method?: Dispatcher.HttpMethod; readonly headers?: Record<string, string>; readonly body?: Dispatcher.DispatchOptions['body']; readonly signal?: AbortSignal };

async function refusalText(answer: Answer): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > REFUSAL_BYTES_MAX) break;
  }
  const text = Buffer.concat(chunks).toString('utf8');
  try {
    const { error } = JSON.parse(text) as { error?: { code?: string; message?: string } };
    if (error?.code !== undefined) return `${error.code}: ${error.message ?? ''}`;
  } catch {
    // Not the node's own form: shown as it is.
  }
  return text.slice(0, 500);
}

async function call(url: string, options: CallOptions): Promise<Answer> {
  let answer: Answer;
  try {
    answer = await request(url, { ...PATIENT, ...options });
  } catch (error) {
    const code = (error as { code?: string }).code ?? '';
    if (code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EHOSTUNREACH') throw new NodeAway(`no node answers at ${new URL(url).origin}`, { cause: error });
    throw error;
  }
  if (answer.statusCode >= 300) throw new CommandFailed(`${options.method ?? 'GET'} ${new URL(url).pathname}: ${answer.statusCode} ${await refusalText(answer)}`);
  return answer;
}

/** A route of the admin listener, such as `/__firn/checkpoint`; answers its JSON. */
export async function callAdmin(config: Config, path: string, options: CallOptions = {}): Promise<unknown> {
  const headers = { ...options.headers, ...(config.adminToken === null ? {} : { authorization: `Bearer ${config.adminToken}` }) };
  const answer = await call(`${config.nodeAdminUrl}${path}`, { ...options, headers });
  return answer.body.json();
}

const BUCKETED = /^(?!__)(?!snapshots\/)(?!v1\/)[a-z0-9_-]{4,64}\/[^/]+$/;

/** Where a stream is found: on the bucketed surface when its key has that form, else on the base surface. */
export function streamPath(key: string): string {
  const path = key.split('/').map((segment) => encodeURIComponent(segment)).join('/');
  return BUCKETED.test(key) ? `/${path}` : `/v1/stream/${path}`;
}

/** Operations that exist on the bucketed surface alone (snapshots, bootstrap). */
export function bucketedPath(key: string): string {
  if (!BUCKETED.test(key)) throw new CommandFailed(`"${key}" is not of the form bucket/stream: only such streams have snapshots and bootstraps`);
  return streamPath(key);
}

/** A path of the client listener. */
export function callClient(config: Config, path: string, options: CallOptions = {}): Promise<Answer> {
  return call(`${httpUrl(config.host, config.port)}${path}`, options);
}

/** A header of an answer that has to be there once. */
export function headerOf(answer: Answer, name: string): string {
  const value = answer.headers[name];
  if (typeof value !== 'string') throw new CommandFailed(`the node answered without ${name}`);
  return value;
}
