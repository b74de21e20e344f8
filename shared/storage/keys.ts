/**
 * Names of everything in the object store but data objects, whose names are in `records/object-id` (architecture section 7).
 *
 * Owns: keys and prefixes, without the bucket's prefix, which the store adds. Promises: numbers are padded, so that byte order is number order; a key that
 * parses was built here.
 */
import { PARTITIONS_MAX } from './slots.js';
import { ATTEMPT_MAX, PART_MAX, SESSION_MAX, partitionDigits, sessionDigits } from './records/object-id.js';

export const STORE_KEY = 'store.json';
/** Positions of a session's log start at 1. */
export const SEQ_MAX = 9_999_999_999;

const SEQ_DIGITS = 10;
const ATTEMPT_DIGITS = 4;
const PART_DIGITS = 5;

const SESSION = /^partitions\/(\d{4})\/sessions\/(\d{6})$/;
const LOG = /^partitions\/(\d{4})\/log\/(\d{6})\/(\d{10})$/;
const CHECKPOINT = /^partitions\/(\d{4})\/checkpoints\/(\d{6})\/(\d{10})$/;
const CHECKPOINT_PART = /^partitions\/(\d{4})\/checkpoint-parts\/(\d{6})\/(\d{10})-(\d{4})-(\d{5})$/;

export interface SessionKey {
  readonly partition: number;
  readonly session: number;
}

/** A log entry, or the checkpoint that covers the log up to and with it. */
export interface LogKey extends SessionKey {
  readonly seq: number;
}

/** A part of a checkpoint; `attempt` tells writers of the same checkpoint apart. */
export interface CheckpointPartKey extends LogKey {
  readonly attempt: number;
  readonly part: number;
}

export function partitionPrefix(partition: number): string {
  check('partition', partition, 0, PARTITIONS_MAX - 1);
  return `partitions/${partitionDigits(partition)}/`;
}

export function sessionPrefix(partition: number): string {
  return `${partitionPrefix(partition)}sessions/`;
}

export function sessionKey(partition: number, session: number): string {
  return `${sessionPrefix(partition)}${checkedSession(session)}`;
}

/** null: not the key of a session. */
export function parseSessionKey(key: string): SessionKey | null {
  const numbers = numbersOf(SESSION, key);
  return numbers === null ? null : { partition: numbers[0], session: numbers[1] };
}

/** All of a partition's log, or that of one session. */
export function logPrefix(partition: number, session?: number): string {
  return `${partitionPrefix(partition)}log/${session === undefined ? '' : `${checkedSession(session)}/`}`;
}

export function logKey(partition: number, session: number, seq: number): string {
  return `${logPrefix(partition, session)}${checkedSeq(seq)}`;
}

export function parseLogKey(key: string): LogKey | null {
  return parsePosition(LOG, key);
}

export function checkpointPrefix(partition: number): string {
  return `${partitionPrefix(partition)}checkpoints/`;
}

/** The manifest; it is written last, so a checkpoint whose key exists is whole. A checkpoint of an empty log covers seq 0. */
export function checkpointKey(partition: number, session: number, seq: number): string {
  return `${checkpointPrefix(partition)}${checkedSession(session)}/${checkedSeq(seq)}`;
}

export function parseCheckpointKey(key: string): LogKey | null {
  return parsePosition(CHECKPOINT, key);
}

export function checkpointPartPrefix(partition: number): string {
  return `${partitionPrefix(partition)}checkpoint-parts/`;
}

export function checkpointPartKey(key: CheckpointPartKey): string {
  check('attempt', key.attempt, 0, ATTEMPT_MAX);
  check('part', key.part, 0, PART_MAX);
  const attempt = String(key.attempt).padStart(ATTEMPT_DIGITS, '0');
  const part = String(key.part).padStart(PART_DIGITS, '0');
  return `${checkpointPartPrefix(key.partition)}${checkedSession(key.session)}/${checkedSeq(key.seq)}-${attempt}-${part}`;
}

export function parseCheckpointPartKey(key: string): CheckpointPartKey | null {
  const position = parsePosition(CHECKPOINT_PART, key);
  const numbers = numbersOf(CHECKPOINT_PART, key);
  return position === null || numbers === null ? null : { ...position, attempt: numbers[3] as number, part: numbers[4] as number };
}

function parsePosition(pattern: RegExp, key: string): LogKey | null {
  const numbers = numbersOf(pattern, key);
  return numbers === null ? null : { partition: numbers[0], session: numbers[1], seq: numbers[2] as number };
}

/** The numbers of a key, partition and session first and within their limits. */
function numbersOf(pattern: RegExp, key: string): [number, number, ...number[]] | null {
  const match = pattern.exec(key);
  if (match === null) return null;
  const [partition = -1, session = -1, ...others] = match.slice(1).map(Number);
  return partition < PARTITIONS_MAX && session <= SESSION_MAX ? [partition, session, ...others] : null;
}

function checkedSession(session: number): string {
  check('session', session, 0, SESSION_MAX);
  return sessionDigits(session);
}

function checkedSeq(seq: number): string {
  check('seq', seq, 0, SEQ_MAX);
  return String(seq).padStart(SEQ_DIGITS, '0');
}

function check(name: string, value: number, min: number, max: number): void {
  if (!Number.isInteger(value) || value < min || value > max) throw new RangeError(`${name} ${value} is not within ${min} and ${max}`);
}
