/**
 * Whether a keyed write applies, repeats one on record, or is refused (requirements section 13).
 *
 * Owns: the verdict and the record that follows from a write. Promises: both are pure; the caller looks at the record and stages the
 * write in one turn (PROD-15, PROD-16). A verdict says nothing about closure, content type, body or `Stream-Seq`.
 */
import type { ProducerRecord } from '../storage/records/types.js';
import { FirnError, type ErrorCode } from './errors.js';
import type { Offset } from './types.js';

/** The key of a write as checked by `write-headers`. */
export interface ProducerClaim {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
  /** `Producer-Digest`, null: not sent. */
  readonly digest: string | null;
}

export interface ProducerCase {
  /** null: none, or forgotten. */
  readonly record: ProducerRecord | null;
  /** Highest epoch of a forgotten record of the stream, -1: none. */
  readonly floor: number;
  readonly claim: ProducerClaim;
  /** The request carries `Stream-Incarnation`: only then the floor binds. */
  readonly tokened: boolean;
}

export interface ClosedEpoch {
  readonly closedEpoch: number;
  /** Its last accepted seq. */
  readonly closedSeq: number;
}

export type ProducerVerdict =
  /** It is the next write; `replaces`: the epoch that it closes (PROD-23). */
  | { readonly kind: 'apply'; readonly replaces: ClosedEpoch | null }
  /** It is on record; `newest`: with its range, else only its receipt is gone (PROD-06, PROD-24). */
  | { readonly kind: 'duplicate'; readonly newest: boolean }
  /** The error carries the headers of the answer, except those of the stream. */
  | { readonly kind: 'refuse'; readonly error: FirnError };

const APPLY: ProducerVerdict = { kind: 'apply', replaces: null };
const DUPLICATE_NEWEST: ProducerVerdict = { kind: 'duplicate', newest: true };
const DUPLICATE_OLDER: ProducerVerdict = { kind: 'duplicate', newest: false };

/** The first rule that fits decides. */
export function judgeProducer({ record, floor, claim, tokened }: ProducerCase): ProducerVerdict {
  if (record === null) return judgeUnknown(claim, floor, tokened);
  if (claim.epoch < record.epoch) return judgeOldEpoch(record, claim);
  if (claim.epoch > record.epoch) {
    if (claim.seq !== 0) return unclaimedEpoch();
    return { kind: 'apply', replaces: { closedEpoch: record.epoch, closedSeq: record.lastSeq } };
  }
  if (claim.seq === 0 && claim.digest !== record.firstDigest) return keyConflict(record);
  if (claim.seq === record.lastSeq) return claim.digest === record.lastDigest ? DUPLICATE_NEWEST : keyConflict(record);
  if (claim.seq < record.lastSeq) return DUPLICATE_OLDER;
  return claim.seq === record.lastSeq + 1 ? APPLY : gap(record.lastSeq + 1, claim.seq);
}

/** The record after `claim` was applied with the stream's range `start` .. `end`; `closed`: this write closed the stream. Its `change` is 0 until the batch of the write has a number. */
export function nextProducerRecord(
  record: ProducerRecord | null,
  claim: ProducerClaim,
  range: { readonly start: Offset; readonly end: Offset },
  closed: boolean,
  nowMs: number,
): ProducerRecord {
  const sameEpoch = record !== null && record.epoch === claim.epoch;
  const fits = sameEpoch ? claim.seq === record.lastSeq + 1 : claim.seq === 0 && (record === null || claim.epoch > record.epoch);
  if (!fits) throw new Error(`write ${claim.epoch}/${claim.seq} does not follow the producer's record`);
  return {
    epoch: claim.epoch,
    lastSeq: claim.seq,
    firstDigest: sameEpoch ? record.firstDigest : claim.digest,
    lastDigest: claim.digest,
    lastStart: range.start,
    lastEnd: range.end,
    lastClosed: closed,
    closedEpoch: sameEpoch ? record.closedEpoch : (record?.epoch ?? -1),
    closedSeq: sameEpoch ? record.closedSeq : (record?.lastSeq ?? -1),
    lastAtMs: nowMs,
    change: 0,
  };
}

function judgeUnknown(claim: ProducerClaim, floor: number, tokened: boolean): ProducerVerdict {
  if (tokened && claim.epoch <= floor) {
    return forbid('PRODUCER_EXPIRED', { 'Producer-Epoch': String(floor), 'Producer-Outcome': 'producer-expired' });
  }
  return claim.seq === 0 ? APPLY : gap(0, claim.seq);
}

function judgeOldEpoch(record: ProducerRecord, claim: ProducerClaim): ProducerVerdict {
  const current = { 'Producer-Epoch': String(record.epoch) };
  if (claim.epoch !== record.closedEpoch) return forbid('PRODUCER_EPOCH_STALE', { ...current, 'Producer-Outcome': 'stale-epoch' });
  return forbid('PRODUCER_EPOCH_CLOSED', {
    ...current,
    'Producer-Outcome': 'epoch-closed;by=claim',
    'Producer-Closed-Epoch': String(record.closedEpoch),
    'Producer-Closed-Seq': String(record.closedSeq),
  });
}

function keyConflict(record: ProducerRecord): ProducerVerdict {
  return forbid('PRODUCER_KEY_CONFLICT', { 'Producer-Epoch': String(record.epoch), 'Producer-Outcome': 'key-conflict' });
}

function forbid(code: ErrorCode, headers: Record<string, string>): ProducerVerdict {
  return { kind: 'refuse', error: new FirnError(code, { headers }) };
}

function unclaimedEpoch(): ProducerVerdict {
  const headers = { 'Producer-Expected-Seq': '0' };
  return { kind: 'refuse', error: new FirnError('INVALID_PRODUCER', { detail: 'a new epoch begins with producer-seq 0', headers }) };
}

function gap(expected: number, received: number): ProducerVerdict {
  const headers = { 'Producer-Expected-Seq': String(expected), 'Producer-Received-Seq': String(received) };
  return { kind: 'refuse', error: new FirnError('PRODUCER_SEQ_CONFLICT', { detail: `producer-seq ${expected} comes next, not ${received}`, headers }) };
}
