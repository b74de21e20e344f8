/**
 * Incarnation tokens (requirements section 20, invariant I7).
 *
 * Owns: how a token is made and read. Promises: equal (partition, session, counter) alone give equal tokens, so a token is never
 * issued twice as long as no triple is; without the key a token tells nothing about the next one (INC-24). The permutation is part
 * of the stored format: changing it could issue an old token again.
 */
import { createHash } from 'node:crypto';
import { FirnError, type ErrorCode } from './errors.js';
import type { Incarnation } from './types.js';

/** What a token hides: 10, 18 and 24 bits. */
export interface IncarnationSource {
  readonly partition: number;
  readonly session: number;
  readonly counter: number;
}

export const PARTITION_LIMIT = 2 ** 10;
export const SESSION_LIMIT = 2 ** 18;
export const COUNTER_LIMIT = 2 ** 24;
/** Bytes of the token key. */
export const TOKEN_KEY_BYTES = 32;

const TOKEN_BASE = 2 ** 52;
const HALF = 2 ** 26;
/** Rounds of the Feistel network; four are a strong permutation, the rest is margin for the small halves. */
const ROUNDS = 8;
const CANONICAL = /^[1-9][0-9]{0,15}$/;

/** Reads a `Stream-Incarnation` header: canonical decimal, 1 .. 2^53-1. Throws INVALID_HEADER (INC-14, INC-23, INC-24). */
export function parseIncarnation(text: string): Incarnation {
  return read(text, 'INVALID_HEADER');
}

/** Reads the token in an incarnation path, as it stands there. Throws INVALID_RESOURCE (CINC-05). */
export function parsePathIncarnation(rawSegment: string): Incarnation {
  return read(rawSegment, 'INVALID_RESOURCE');
}

/** The token of one creation. The three numbers must never have been used together before under this key (32 bytes). */
export function issueIncarnation(key: Buffer, partition: number, session: number, counter: number): Incarnation {
  requireBelow(partition, PARTITION_LIMIT, 'partition');
  requireBelow(session, SESSION_LIMIT, 'session');
  requireBelow(counter, COUNTER_LIMIT, 'counter');
  const half = roundFunction(key);
  let left = partition * 2 ** 16 + Math.floor(session / 4);
  let right = (session % 4) * COUNTER_LIMIT + counter;
  for (let round = 0; round < ROUNDS; round++) {
    [left, right] = [right, left ^ half(round, right)];
  }
  return (TOKEN_BASE + left * HALF + right) as Incarnation;
}

/** The inverse of `issueIncarnation`. Null for a number outside the range of issued tokens. */
export function incarnationSource(key: Buffer, token: Incarnation): IncarnationSource | null {
  const value = token - TOKEN_BASE;
  if (!Number.isSafeInteger(token) || value < 0) return null;
  const half = roundFunction(key);
  let left = Math.floor(value / HALF);
  let right = value % HALF;
  for (let round = ROUNDS - 1; round >= 0; round--) {
    [left, right] = [right ^ half(round, left), left];
  }
  return {
    partition: Math.floor(left / 2 ** 16),
    session: (left % 2 ** 16) * 4 + Math.floor(right / COUNTER_LIMIT),
    counter: right % COUNTER_LIMIT,
  };
}

/** 26 bits that depend on the key, the round and one half. */
function roundFunction(key: Buffer): (round: number, half: number) => number {
  if (key.length !== TOKEN_KEY_BYTES) throw new Error(`a token key has ${TOKEN_KEY_BYTES} bytes, not ${key.length}`);
  const input = Buffer.allocUnsafe(TOKEN_KEY_BYTES + 5);
  key.copy(input);
  return (round, half) => {
    input.writeUInt8(round, TOKEN_KEY_BYTES);
    input.writeUInt32LE(half, TOKEN_KEY_BYTES + 1);
    return createHash('sha256').update(input).digest().readUInt32LE(0) % HALF;
  };
}

function read(text: string, code: ErrorCode): Incarnation {
  const value = CANONICAL.test(text) ? Number(text) : 0;
  if (value < 1 || value > Number.MAX_SAFE_INTEGER) {
    throw new FirnError(code, { detail: 'an incarnation is one decimal number from 1 to 2^53-1 without leading zeros' });
  }
  return value as Incarnation;
}

function requireBelow(value: number, limit: number, name: string): void {
  if (!Number.isInteger(value) || value < 0 || value >= limit) throw new Error(`${name} ${value} does not fit into an incarnation`);
}
