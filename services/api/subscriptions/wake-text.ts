/** What receivers are told of a wake, and workers of a claim (SUB-28, SUB-39, SUB-40). */
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Offset } from '../../../shared/protocol/types.js';
import { isPending, type LinkView, type Wake } from './subscription.js';

/** `-1` before anything was acknowledged: as an offset it reads from the start. */
export function formatCursor(acked: number): string {
  return acked < 0 ? '-1' : formatOffset(acked as Offset);
}

/** A link in a wake, by the names of the wire. */
export function wireLink({ path, explicit, acked, tail }: LinkView): object {
  return { path, link_type: explicit ? 'explicit' : 'glob', acked_offset: formatCursor(acked), tail_offset: formatOffset(tail as Offset), has_pending: isPending(acked, tail) };
}

/** The body of a webhook. */
export function wakeBody(id: string, origin: string, wake: Wake, links: readonly LinkView[], token: string): Buffer {
  return Buffer.from(JSON.stringify({
    subscription_id: id, wake_id: wake.id, generation: wake.generation, streams: links.map(wireLink), callback_url: `${origin}/v1/stream/__ds/subscriptions/${encodeURIComponent(id)}/callback`, callback_token: token,
  }));
}

/** The message in a wake stream. */
export function wakeEvent(id: string, stream: string, generation: number, nowMs: number): Buffer {
  return Buffer.from(JSON.stringify({ type: 'wake', subscription_id: id, stream, generation, ts: nowMs }));
}
