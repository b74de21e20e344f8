/**
 * Names of data objects, in stored values and as keys of the object store (architecture section 7).
 *
 * Owns: both forms of `ObjectId`. Promises: keys sort bytewise as their numbers do; a key that parses was built by `objectKey`.
 */
import { PARTITIONS_MAX } from '../slots.js';
import type { ByteReader, ByteWriter } from '../codec.js';
import type { ObjectId, ObjectInfo } from './types.js';

/** Sessions of a partition: 18 bits of an incarnation token. */
export const SESSION_MAX = 262_143;
export const PLAN_MAX = 9_999_999_999;
export const ATTEMPT_MAX = 9_999;
export const PART_MAX = 99_999;

const PARTITION_DIGITS = 4;
const SESSION_DIGITS = 6;
const PLAN_DIGITS = 10;
const ATTEMPT_DIGITS = 4;
const PART_DIGITS = 5;

export const OBJECT_ID_BYTES_MIN = 6;
export const OBJECT_INFO_BYTES_MIN = OBJECT_ID_BYTES_MIN + 5;

const KINDS = ['segment', 'snapshot', 'merged'] as const;
const FOLDERS = { segment: 'segments', snapshot: 'snapshots', merged: 'merged' } as const;
const KEY = /^partitions\/(\d{4})\/(segments|snapshots|merged)\/(\d{4})-(\d{6})-(\d{10})-(\d{4})-(\d{5})$/;

export function partitionDigits(partition: number): string {
  return String(partition).padStart(PARTITION_DIGITS, '0');
}

export function sessionDigits(session: number): string {
  return String(session).padStart(SESSION_DIGITS, '0');
}

/** `{partition}-{session}-{plan}`, the name of a plan in keys and job ids. */
export function planName(partition: number, session: number, plan: number): string {
  return `${partitionDigits(partition)}-${sessionDigits(session)}-${String(plan).padStart(PLAN_DIGITS, '0')}`;
}

/** `partitions/{p}/{kind}/{partition}-{session}-{plan}-{attempt}-{part}`. Throws RangeError for numbers beyond their limits. */
export function objectKey(id: ObjectId): string {
  checkId(id);
  const attempt = String(id.attempt).padStart(ATTEMPT_DIGITS, '0');
  const part = String(id.part).padStart(PART_DIGITS, '0');
  return `partitions/${partitionDigits(id.partition)}/${FOLDERS[id.kind]}/${planName(id.partition, id.session, id.plan)}-${attempt}-${part}`;
}

/** The folder of one kind of object, as a prefix for listing. */
export function objectPrefix(partition: number, kind: ObjectId['kind']): string {
  return `partitions/${partitionDigits(partition)}/${FOLDERS[kind]}/`;
}

/** null: not the key of a data object. */
export function parseObjectKey(key: string): ObjectId | null {
  const match = KEY.exec(key);
  if (match === null || match[1] !== match[3]) return null;
  const kind = KINDS.find((candidate) => FOLDERS[candidate] === match[2]);
  if (kind === undefined) return null;
  const id = { kind, partition: Number(match[3]), session: Number(match[4]), plan: Number(match[5]), attempt: Number(match[6]), part: Number(match[7]) };
  return idFault(id) === null ? id : null;
}

export function sameObject(a: ObjectId, b: ObjectId): boolean {
  return a.plan === b.plan && a.part === b.part && a.attempt === b.attempt && a.session === b.session && a.partition === b.partition && a.kind === b.kind;
}

export function writeObjectId(writer: ByteWriter, id: ObjectId): void {
  checkId(id);
  writer.u8(KINDS.indexOf(id.kind));
  writer.varint(id.partition);
  writer.varint(id.session);
  writer.varint(id.plan);
  writer.varint(id.attempt);
  writer.varint(id.part);
}

export function readObjectId(reader: ByteReader): ObjectId {
  const kind = KINDS[reader.u8()];
  if (kind === undefined) throw reader.bad('unknown kind of object');
  return {
    kind,
    partition: reader.varint(PARTITIONS_MAX - 1),
    session: reader.varint(SESSION_MAX),
    plan: reader.varint(PLAN_MAX),
    attempt: reader.varint(ATTEMPT_MAX),
    part: reader.varint(PART_MAX),
  };
}

export function writeObjectInfo(writer: ByteWriter, object: ObjectInfo): void {
  writeObjectId(writer, object.id);
  writer.varint(object.bytes);
  writer.u32(object.crc);
}

export function readObjectInfo(reader: ByteReader): ObjectInfo {
  return { id: readObjectId(reader), bytes: reader.varint(), crc: reader.u32() };
}

function checkId(id: ObjectId): void {
  const fault = idFault(id);
  if (fault !== null) throw new RangeError(`${fault} of an object id out of range`);
}

function idFault(id: ObjectId): string | null {
  if (!KINDS.includes(id.kind)) return 'kind';
  if (!within(id.partition, PARTITIONS_MAX - 1)) return 'partition';
  if (!within(id.session, SESSION_MAX)) return 'session';
  if (!within(id.plan, PLAN_MAX)) return 'plan';
  if (!within(id.attempt, ATTEMPT_MAX)) return 'attempt';
  return within(id.part, PART_MAX) ? null : 'part';
}

function within(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}
