/**
 * `store.json`, the birth certificate of a store in its object store, and the small JSON object that claims a session (architecture section 7).
 *
 * Owns: both documents. Promises: what parses is complete and within limits; an unknown format, hash or field value is refused with a sentence that names it,
 * since nobody may write into a store that he does not understand.
 */
import { z } from 'zod';
import { TOKEN_KEY_BYTES } from '../protocol/incarnation.js';
import { BadBytes } from './codec.js';
import { SESSION_MAX } from './records/object-id.js';
import { PARTITIONS_MAX } from './slots.js';

/** Format of everything in the store. A change that older programs would misread raises it. */
export const STORE_FORMAT = 1;
export const SLOT_HASH = 'crc32c-16';
/** Neither document is ever longer. */
const DOCUMENT_BYTES_MAX = 65_536;

export interface StoreDocument {
  readonly format: typeof STORE_FORMAT;
  /** Says whether a data directory and a store belong together. */
  readonly storeId: string;
  readonly slotHash: typeof SLOT_HASH;
  readonly partitions: number;
  readonly cold: 'fs' | 's3';
  /** 32 random bytes. */
  readonly tokenKey: Buffer;
}

export interface SessionDocument {
  readonly format: typeof STORE_FORMAT;
  readonly partition: number;
  readonly session: number;
  /** Random, new for each run of a node: tells the claimer's own claim from another's. */
  readonly node: string;
  readonly claimedAtMs: number;
}

const name = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);

const storeShape = z.strictObject({
  format: z.literal(STORE_FORMAT),
  storeId: name,
  slotHash: z.literal(SLOT_HASH),
  partitions: z.int().min(1).max(PARTITIONS_MAX),
  cold: z.enum(['fs', 's3']),
  tokenKey: z
    .base64()
    .transform((text) => Buffer.from(text, 'base64'))
    .refine((key) => key.length === TOKEN_KEY_BYTES, `not ${TOKEN_KEY_BYTES} bytes`),
});

const sessionShape = z.strictObject({
  format: z.literal(STORE_FORMAT),
  partition: z.int().min(0).max(PARTITIONS_MAX - 1),
  session: z.int().min(0).max(SESSION_MAX),
  node: name,
  claimedAtMs: z.int().min(0),
});

/** The bytes of `store.json`; the same document always gives the same bytes. Throws Error for a document that would not parse. */
export function encodeStoreDocument(document: StoreDocument): Buffer {
  const { format, storeId, slotHash, partitions, cold, tokenKey } = document;
  return encodeDocument({ format, storeId, slotHash, partitions, cold, tokenKey: tokenKey.toString('base64') }, storeShape);
}

/** Throws `BadBytes`. */
export function parseStoreDocument(bytes: Buffer): StoreDocument {
  return parseDocument(bytes, 'store.json', storeShape);
}

/** The bytes of `sessions/{n}`. */
export function encodeSessionDocument(document: SessionDocument): Buffer {
  const { format, partition, session, node, claimedAtMs } = document;
  return encodeDocument({ format, partition, session, node, claimedAtMs }, sessionShape);
}

/** Throws `BadBytes`. */
export function parseSessionDocument(bytes: Buffer): SessionDocument {
  return parseDocument(bytes, 'session', sessionShape);
}

function encodeDocument(document: Record<string, unknown>, shape: z.ZodType): Buffer {
  const checked = shape.safeParse(document);
  if (!checked.success) throw new Error(`not a document to write: ${z.prettifyError(checked.error)}`);
  return Buffer.from(`${JSON.stringify(document, null, 2)}\n`, 'utf8');
}

function parseDocument<T>(bytes: Buffer, what: string, shape: z.ZodType<T>): T {
  if (bytes.length > DOCUMENT_BYTES_MAX) throw new BadBytes(what, `${bytes.length} bytes`);
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new BadBytes(what, 'not JSON');
  }
  const checked = shape.safeParse(json);
  if (!checked.success) throw new BadBytes(what, z.prettifyError(checked.error));
  return checked.data;
}
