/** When two configurations of a subscription are the same (P6.2, SUB-03). */
import { createHash } from 'node:crypto';
import type { CreateSubscription } from './types.js';

/** SHA-256 of what counts, hex: order and repetition of streams do not. */
export function configurationDigest({ type, pattern, streams, webhookUrl, wakeStream, leaseTtlMs, description }: CreateSubscription): string {
  return createHash('sha256').update(JSON.stringify([type, pattern, [...new Set(streams)].sort(), webhookUrl, wakeStream, leaseTtlMs, description])).digest('hex');
}
