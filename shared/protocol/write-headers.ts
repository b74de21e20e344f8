/**
 * Headers that give a write its key and place: the producer headers, `Stream-Seq`, `Stream-Closed`.
 *
 * Promises: what is returned was checked for syntax alone. Values come as Node gives them, white space around removed; a header that
 * came twice is for the caller to refuse.
 */
import { FirnError } from './errors.js';
import type { ProducerClaim } from './producers.js';

/** Raw values, undefined: not sent. */
export interface ProducerHeaders {
  readonly id: string | undefined;
  readonly epoch: string | undefined;
  readonly seq: string | undefined;
  readonly digest: string | undefined;
}

/** Bytes of `Producer-Id` and of `Stream-Seq` (PROD-25, SEQ-09). */
const NAME_BYTES_MAX = 256;
const VISIBLE_NAME = /^[!-~](?:[\t -~]{0,254}[!-~])?$/;
const DIGITS = /^[0-9]+$/;
const DIGEST = /^[0-9a-f]{64}$/;

/** The key of a write, null: it has none. Throws INVALID_PRODUCER (PROD-01 .. PROD-03, PROD-22, PROD-25). */
export function parseProducerClaim({ id, epoch, seq, digest }: ProducerHeaders): ProducerClaim | null {
  if (id === undefined || epoch === undefined || seq === undefined) {
    if (id === undefined && epoch === undefined && seq === undefined && digest === undefined) return null;
    throw badProducer('producer-id, producer-epoch and producer-seq come together, and producer-digest only with them');
  }
  if (!VISIBLE_NAME.test(id)) throw badProducer(`producer-id is 1 to ${NAME_BYTES_MAX} visible ascii characters`);
  if (digest !== undefined && !DIGEST.test(digest)) throw badProducer('producer-digest is 64 lower-case hex digits');
  return { id, epoch: producerNumber(epoch, 'epoch'), seq: producerNumber(seq, 'seq'), digest: digest ?? null };
}

/** Checks a `Stream-Seq` value. Throws INVALID_HEADER (SEQ-09). */
export function parseStreamSeq(text: string): string {
  if (VISIBLE_NAME.test(text)) return text;
  throw new FirnError('INVALID_HEADER', { detail: `stream-seq is 1 to ${NAME_BYTES_MAX} visible ascii characters` });
}

/** Whether a flag like `Stream-Closed` counts as set: `true` in any case, all else as absent (CRE-18, CLO-10). */
export function isTrue(value: string | undefined): boolean {
  return value === 'true' || (value !== undefined && value.length === 4 && value.toLowerCase() === 'true');
}

function producerNumber(text: string, name: 'epoch' | 'seq'): number {
  // A double of 2^53 or more never rounds below 2^53, so the comparison is exact.
  const value = DIGITS.test(text) ? Number(text) : Infinity;
  if (value > Number.MAX_SAFE_INTEGER) throw badProducer(`producer-${name} is a decimal number from 0 to 2^53-1`);
  return value;
}

function badProducer(detail: string): FirnError {
  return new FirnError('INVALID_PRODUCER', { detail });
}
