/**
 * What is stored of a subscription in the hot store and in the log alike: its configuration, its links and its cursors (requirements section 29).
 *
 * Owns: their bytes. They are embedded: in rows, in log records, in items of a checkpoint.
 */
import type { Incarnation, StreamKey } from '../../protocol/types.js';
import type { ByteReader, ByteWriter } from '../codec.js';
import type { LinkCursor, NamedLink, SubscriptionConfig } from './types.js';

const TYPES = ['webhook', 'pull-wake'] as const;

/** Bytes that a cursor, and a named link, take at least. */
export const LINK_CURSOR_BYTES_MIN = 2;
export const NAMED_LINK_BYTES_MIN = 3;

export function writeSubscriptionConfig(writer: ByteWriter, config: SubscriptionConfig): void {
  writer.u8(TYPES.indexOf(config.type));
  writeOptional(writer, config.pattern);
  writeOptional(writer, config.webhookUrl);
  writeOptional(writer, config.wakeStream);
  writer.varint(config.leaseTtlMs);
  writeOptional(writer, config.description);
  writer.hex(config.digest, 32);
  writer.varint(config.createdAtMs);
  writer.string(config.origin);
}

export function readSubscriptionConfig(reader: ByteReader): SubscriptionConfig {
  return {
    type: oneOf(reader, TYPES),
    pattern: readOptional(reader),
    webhookUrl: readOptional(reader),
    wakeStream: readOptional(reader) as StreamKey | null,
    leaseTtlMs: reader.varint(),
    description: readOptional(reader),
    digest: reader.hex(32),
    createdAtMs: reader.varint(),
    origin: reader.string(),
  };
}

export function writeLinkCursor(writer: ByteWriter, { incarnation, acked }: LinkCursor): void {
  writer.varint(incarnation);
  writer.varint(acked + 1);
}

export function readLinkCursor(reader: ByteReader): LinkCursor {
  return { incarnation: reader.varint() as Incarnation, acked: reader.varint() - 1 };
}

export function writeNamedLink(writer: ByteWriter, link: NamedLink): void {
  writer.string(link.key);
  writeLinkCursor(writer, link);
}

export function readNamedLink(reader: ByteReader): NamedLink {
  return { key: reader.string() as StreamKey, ...readLinkCursor(reader) };
}

/** A text that may be missing: a flag byte, and the text. */
export function writeOptional(writer: ByteWriter, text: string | null): void {
  writer.bool(text !== null);
  if (text !== null) writer.string(text);
}

export function readOptional(reader: ByteReader): string | null {
  return reader.bool() ? reader.string() : null;
}

/** A choice by its number. */
export function oneOf<T>(reader: ByteReader, values: readonly T[]): T {
  const value = values[reader.u8()];
  if (value === undefined) throw reader.bad('an unknown choice');
  return value;
}
