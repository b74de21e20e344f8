/** A subscription and where its delivery stands: `kind | id` -> the record. Replaced with each change, deleted with the subscription (requirements section 29). */
import { decodeStored, encodeStored, type ByteReader, type ByteWriter } from '../../../../shared/storage/codec.js';
import { oneOf, readOptional, readSubscriptionConfig, writeOptional, writeSubscriptionConfig } from '../../../../shared/storage/records/subscription-config.js';
import type { SubscriptionConfig } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;
/** `issued`: to be told to the receiver; `delivered`: told; `claimed`: a worker holds the lease. */
const PHASES = ['issued', 'delivered', 'claimed'] as const;

export type SubscriptionType = SubscriptionConfig['type'];
export type WakePhase = (typeof PHASES)[number];

export interface WakeRecord {
  readonly id: string;
  readonly phase: WakePhase;
  /** Wall clock, ms; null: no lease runs. */
  readonly leaseUntilMs: number | null;
  /** The worker that claimed it. */
  readonly holder: string | null;
}

export interface SubscriptionRecord extends SubscriptionConfig {
  /** Names its rows of links; never used again. */
  readonly number: number;
  /** Pages of its cursors (`subscriptionBaseRow`), at least 1. */
  readonly pages: number;
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
    return encodeStored(VERSION, record, write);
  },
  decode(value: Buffer): SubscriptionRecord {
    return decodeStored(value, 'subscription row', VERSION, read);
  },
};

function write(writer: ByteWriter, record: SubscriptionRecord): void {
  writer.varint(record.number);
  writer.varint(record.pages);
  writeSubscriptionConfig(writer, record);
  writer.varint(record.generation);
  writer.bool(record.wake !== null);
  if (record.wake !== null) {
    writer.string(record.wake.id);
    writer.u8(PHASES.indexOf(record.wake.phase));
    time(writer, record.wake.leaseUntilMs);
    writeOptional(writer, record.wake.holder);
  }
  writer.varint(record.failures);
  time(writer, record.nextAttemptAtMs);
}

function read(reader: ByteReader): SubscriptionRecord {
  return {
    number: reader.varint(),
    pages: pagesOf(reader),
    ...readSubscriptionConfig(reader),
    generation: reader.varint(),
    wake: reader.bool() ? { id: reader.string(), phase: oneOf(reader, PHASES), leaseUntilMs: readTime(reader), holder: readOptional(reader) } : null,
    failures: reader.varint(),
    nextAttemptAtMs: readTime(reader),
  };
}

/** A time that may be missing: 0, or 1 more than it is. */
function time(writer: ByteWriter, atMs: number | null): void {
  writer.varint(atMs === null ? 0 : atMs + 1);
}

function readTime(reader: ByteReader): number | null {
  const value = reader.varint();
  return value === 0 ? null : value - 1;
}

function pagesOf(reader: ByteReader): number {
  const pages = reader.varint();
  if (pages === 0) throw reader.bad('no page');
  return pages;
}
