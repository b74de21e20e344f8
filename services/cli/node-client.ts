/**
 * Calls to a running node over its two listeners.
 *
 * Owns: addresses, credentials and the reading of refusals. Promises: anything but 2xx throws `Refused` with the node's own sentence; what names a stream
 * and where is decided by the rules of `shared/protocol/ids` alone.
 */
import { request, type Dispatcher } from 'undici';
import { httpUrl, type Config } from '../../shared/config/index.js';
import { FirnError } from '../../shared/protocol/errors.js';
import { baseKey, decodeBucketId, decodeStreamId, keyPath } from '../../shared/protocol/ids.js';
import type { StreamKey } from '../../shared/protocol/types.js';
import { CommandFailed, Refused } from './failures.js';

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
  if (answer.statusCode >= 300) throw new Refused(`${options.method ?? 'GET'} ${new URL(url).pathname}: ${answer.statusCode} ${await refusalText(answer)}`, answer.statusCode);
  return answer;
}

/** A route of the admin listener, such as `/__firn/checkpoint`; answers its JSON. */
export async function callAdmin(config: Config, path: string, options: CallOptions = {}): Promise<unknown> {
  const headers = { ...options.headers, ...(config.adminToken === null ? {} : { authorization: `Bearer ${config.adminToken}` }) };
  const answer = await call(`${config.nodeAdminUrl}${path}`, { ...options, headers });
  return answer.body.json();
}

/** The key that a text names; both surfaces agree on what a key is. Throws `CommandFailed`. */
function keyOf(text: string): StreamKey {
  try {
    return baseKey(text.split('/').map(encodeURIComponent).join('/'));
  } catch (error) {
    if (error instanceof FirnError) throw new CommandFailed(`"${text}" names no stream: ${error.message}`, { cause: error });
    throw error;
  }
}

/** Whether the bucketed surface has this key too. */
function isBucketed(key: StreamKey): boolean {
  const [bucket = '', stream = '', ...more] = keyPath(key).split('/');
  if (more.length > 0) return false;
  try {
    decodeBucketId(bucket);
    decodeStreamId(stream);
    return true;
  } catch (error) {
    if (error instanceof FirnError) return false;
    throw error;
  }
}

/** Where a stream is found: on the bucketed surface when its key has that form, else on the base surface. */
export function streamPath(text: string): string {
  const key = keyOf(text);
  return isBucketed(key) ? `/${keyPath(key)}` : `/v1/stream/${keyPath(key)}`;
}

/** Operations that exist on the bucketed surface alone (snapshots, bootstrap). */
export function bucketedPath(text: string): string {
  const key = keyOf(text);
  if (!isBucketed(key)) throw new CommandFailed(`"${text}" is not of the form bucket/stream: only such streams have snapshots and bootstraps`);
  return `/${keyPath(key)}`;
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
