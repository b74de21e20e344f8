/**
 * One delivery to a webhook: the handler, whatever runs it (P7.1, SUB-28 .. SUB-30, SUB-56).
 *
 * Owns: the connection, the deadline, the reading of the answer. Promises: each delivery resolves and connects anew, so that the address is judged each time; nothing is followed; what a receiver sends
 * is read up to a limit and never kept. It knows no state: whoever calls it decides what an outcome means, so a run too many does no harm.
 */
import { Client, type Dispatcher } from 'undici';
import { withSignal } from '../../../shared/time/joined-signal.js';
import { ANSWER_BYTES_MAX, CONNECT_MS } from './limits.js';
import type { Delivery, DeliveryOutcome } from '../node-port.js';
import { TargetRefused, type WebhookTargets } from './targets.js';

/** Never rejects but when `signal` fires: then nothing is known of the outcome. */
export async function deliver(delivery: Delivery, targets: WebhookTargets, signal: AbortSignal): Promise<DeliveryOutcome> {
  let client: Client | null = null;
  try {
    const url = new URL(delivery.url);
    targets.checkHost(url);
    // No connection outlives its delivery.
    client = new Client(url.origin, { pipelining: 0, connect: { lookup: targets.lookup, timeout: CONNECT_MS }, headersTimeout: delivery.deadlineMs, bodyTimeout: delivery.deadlineMs });
    return await withSignal([signal], delivery.deadlineMs, (both) => post(client!, url, delivery, both));
  } catch (error) {
    signal.throwIfAborted();
    return { kind: 'failed', why: reasonOf(error) };
  } finally {
    client?.destroy().catch(() => undefined);
  }
}

async function post(client: Client, url: URL, { body, signature }: Delivery, signal: AbortSignal): Promise<DeliveryOutcome> {
  const answer = await client.request({
    method: 'POST', path: url.pathname + url.search, body, signal,
    headers: { 'content-type': 'application/json', accept: 'application/json', 'user-agent': 'firn', 'webhook-signature': signature },
  });
  // Redirects are failures: they would lead to an address that nobody judged.
  if (answer.statusCode < 200 || answer.statusCode > 299) {
    answer.body.on('error', () => undefined);
    answer.body.destroy();
    return { kind: 'failed', why: `status ${answer.statusCode}` };
  }
  return { kind: (await saysDone(answer.body)) ? 'done' : 'accepted' };
}

/** Whether the answer is `{"done":true}`. One that is too long says nothing; one that does not end in time is a failure. */
async function saysDone(body: Dispatcher.ResponseData['body']): Promise<boolean> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of body as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > ANSWER_BYTES_MAX) return false;
      pieces.push(piece);
    }
    const answer: unknown = JSON.parse(Buffer.concat(pieces).toString('utf8'));
    return typeof answer === 'object' && answer !== null && (answer as { done?: unknown }).done === true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TargetRefused) return error.why;
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === 'string' ? code : String(name);
}
