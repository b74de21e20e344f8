/**
 * The JSON bodies of requests about subscriptions (P6.2, P6.4, P7): syntax only, no state.
 *
 * Promises: what is returned was checked; what is wrong is a 400 that names the member and what it has to be, and never its value (ERR-05).
 */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { FirnError } from '../../../../shared/protocol/errors.js';
import { parsePosition } from '../../../../shared/protocol/offsets.js';
import { streamPathKey } from '../../../../shared/protocol/stream-path.js';
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { ACKS_MAX, DESCRIPTION_CHARS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, WORKER_CHARS_MAX } from '../../subscriptions/limits.js';
import { normalPattern } from '../../subscriptions/pattern-index.js';
import type { Ack, CreateSubscription, Ticket } from '../../subscriptions/types.js';

const WELL_FORMED = z.string().refine((text) => !/\p{Surrogate}/u.test(text), 'Invalid input: expected Unicode text without lone surrogates');

const CREATE = z.object({
  type: z.enum(['webhook', 'pull-wake']),
  pattern: z.string().nullish(),
  streams: z.array(z.string()).nullish(),
  webhook: z.object({ url: WELL_FORMED }).nullish(),
  wake_stream: z.string().nullish(),
  lease_ttl_ms: z.int().min(LEASE_MS_MIN).max(LEASE_MS_MAX).default(LEASE_MS_DEFAULT),
  description: WELL_FORMED.max(DESCRIPTION_CHARS_MAX).nullish(),
});
const STREAMS = z.object({ streams: z.array(z.string()) });
const CLAIM = z.object({ worker: WELL_FORMED.min(1).max(WORKER_CHARS_MAX) });
const WAKE = { wake_id: z.string(), generation: z.int() };
const ACK = z.object({ stream: z.string().optional(), path: z.string().optional(), offset: z.string() });
const TICKET = z.object({ ...WAKE, acks: z.array(ACK).max(ACKS_MAX).nullish(), done: z.boolean().nullish() });
const RELEASE = z.object(WAKE);

/** Throws INVALID_REQUEST, INVALID_STREAM_ID. */
export function createOf(body: Buffer, id: string, origin: string): CreateSubscription {
  const given = parsed(CREATE, body);
  const isWebhook = given.type === 'webhook';
  const webhookUrl = isWebhook ? (given.webhook?.url ?? '') : null;
  if (webhookUrl === '') throw badBody('a webhook subscription needs webhook.url');
  const wakeStream = isWebhook ? null : streamOf(given.wake_stream ?? '', 'a pull-wake subscription needs wake_stream');
  const streams = (given.streams ?? []).map(streamPathKey);
  const pattern = given.pattern === undefined || given.pattern === null || given.pattern === '' ? null : normalPattern(given.pattern);
  if (pattern === null && streams.length === 0) throw badBody('a subscription needs a pattern or streams');
  return { id, type: given.type, pattern, streams, webhookUrl, wakeStream, leaseTtlMs: given.lease_ttl_ms, description: given.description ?? null, origin };
}

export function streamsOf(body: Buffer): StreamKey[] {
  return parsed(STREAMS, body).streams.map(streamPathKey);
}

export function workerOf(body: Buffer): string {
  return parsed(CLAIM, body).worker;
}

/** Throws INVALID_REQUEST, INVALID_STREAM_ID, INVALID_OFFSET. */
export function ticketOf(body: Buffer, token: string | null): Ticket {
  const { wake_id: wakeId, generation, acks, done } = parsed(TICKET, body);
  return { token, wakeId, generation, acks: (acks ?? []).map(ackOf), done: done ?? false };
}

export function releaseOf(body: Buffer, token: string | null): Ticket {
  const { wake_id: wakeId, generation } = parsed(RELEASE, body);
  return { token, wakeId, generation, acks: [], done: false };
}

function ackOf({ stream, path, offset }: z.infer<typeof ACK>): Ack {
  return { stream: streamOf(stream ?? path ?? '', 'an ack names its stream'), offset: offset === '-1' ? -1 : parsePosition(offset, 'base') };
}

function streamOf(text: string, missing: string): StreamKey {
  if (text === '') throw badBody(missing);
  return streamPathKey(text);
}

function parsed<T>(schema: z.ZodType<T>, body: Buffer): T {
  const result = schema.safeParse(jsonOf(body));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const at = issue?.path.filter((part) => typeof part === 'string').join('.') ?? '';
  // What is expected, and of what came its type alone.
  throw badBody(at === '' ? 'the body is not the JSON object that this takes' : `${at}: ${issue?.message ?? 'not what it has to be'}`);
}

function jsonOf(body: Buffer): unknown {
  if (!isUtf8(body)) throw badBody('the body is not UTF-8');
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw badBody('the body is not JSON');
  }
}

function badBody(detail: string): FirnError {
  return new FirnError('INVALID_REQUEST', { detail });
}
