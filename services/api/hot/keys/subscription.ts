/** A subscription and where its delivery stands: `kind | id` -> the record. Replaced with each change, deleted with the subscription (requirements section 29). */
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { sealed, unsealed, type ByteReader, type ByteWriter } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;
const TYPES = ['webhook', 'pull-wake'] as const;
/** `issued`: to be told to the receiver; `delivered`: told; `claimed`: a worker holds the lease. */
const PHASES = ['issued', 'delivered', 'claimed'] as const;

export type SubscriptionType = (typeof TYPES)[number];
export type WakePhase = (typeof PHASES)[number];

export interface WakeRecord {
  readonly id: string;
  readonly phase: WakePhase;
  /** Wall clock, ms; null: no lease runs. */
  readonly leaseUntilMs: number | null;
  /** The worker that claimed it. */
  readonly holder: string | null;
}

export interface SubscriptionRecord {
  /** Names its rows of links; never used again. */
  readonly number: number;
  /** Pages of its cursors (`subscriptionBaseRow`), at least 1. */
  readonly pages: number;
  readonly type: SubscriptionType;
  readonly pattern: string | null;
  readonly webhookUrl: string | null;
  readonly wakeStream: StreamKey | null;
  readonly leaseTtlMs: number;
  readonly description: string | null;
  /** SHA-256 of the configuration in its normal form, hex. */
  readonly digest: string;
  readonly createdAtMs: number;
  /** Origin in `callback_url`. */
  readonly origin: string;
  readonly generation: number;
  readonly wake: WakeRecord | null;
  /** Failed deliveries in a row. */
  readonly failures: number;
  /** Wall clock, ms; null: none is scheduled. */
  readonly nextAttemptAtMs: number | null;
}

export const subscriptionRow = {
  kind: KIND.subscription,
  key(id: string): Buffer {
    return putText(newKey(KIND.subscription, textBytes(id)), id, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.subscription, 0));
  },
  decodeKey(key: Buffer): { readonly id: string } {
    return { id: new KeyReader(key, 'subscription', KIND.subscription, 1).text() };
  },
  encode(record: SubscriptionRecord): Buffer {
    return sealed(VERSION, record, write);
  },
  decode(value: Buffer): SubscriptionRecord {
    return unsealed(value, 'subscription row', VERSION, read);
  },
};

function write(writer: ByteWriter, record: SubscriptionRecord): void {
  writer.varint(record.number);
  writer.varint(record.pages);
  writer.u8(TYPES.indexOf(record.type));
  optional(writer, record.pattern);
  optional(writer, record.webhookUrl);
  optional(writer, record.wakeStream);
  writer.varint(record.leaseTtlMs);
  optional(writer, record.description);
  writer.hex(record.digest, 32);
  writer.varint(record.createdAtMs);
  writer.string(record.origin);
  writer.varint(record.generation);
  writer.bool(record.wake !== null);
  if (record.wake !== null) {
    writer.string(record.wake.id);
    writer.u8(PHASES.indexOf(record.wake.phase));
    time(writer, record.wake.leaseUntilMs);
    optional(writer, record.wake.holder);
  }
  writer.varint(record.failures);
  time(writer, record.nextAttemptAtMs);
}

function read(reader: ByteReader): SubscriptionRecord {
  return {
    number: reader.varint(),
    pages: pagesOf(reader),
    type: oneOf(reader, TYPES),
    pattern: readOptional(reader),
    webhookUrl: readOptional(reader),
    wakeStream: readOptional(reader) as StreamKey | null,
    leaseTtlMs: reader.varint(),
    description: readOptional(reader),
    digest: reader.hex(32),
    createdAtMs: reader.varint(),
    origin: reader.string(),
    generation: reader.varint(),
    wake: reader.bool() ? { id: reader.string(), phase: oneOf(reader, PHASES), leaseUntilMs: readTime(reader), holder: readOptional(reader) } : null,
    failures: reader.varint(),
    nextAttemptAtMs: readTime(reader),
  };
}

function optional(writer: ByteWriter, text: string | null): void {
  writer.bool(text !== null);
  if (text !== null) writer.string(text);
}

function readOptional(reader: ByteReader): string | null {
  return reader.bool() ? reader.string() : null;
}

/** A time that may be missing: 0, or 1 more than it is. */
function time(writer: ByteWriter, atMs: number | null): void {
  writer.varint(atMs === null ? 0 : atMs + 1);
}

function readTime(reader: ByteReader): number | null {
  const value = reader.varint();
  return value === 0 ? null : value - 1;
}

function oneOf<T>(reader: ByteReader, values: readonly T[]): T {
  const value = values[reader.u8()];
  if (value === undefined) throw reader.bad('an unknown choice');
  return value;
}

function pagesOf(reader: ByteReader): number {
  const pages = reader.varint();
  if (pages === 0) throw reader.bad('no page');
  return pages;
}
