/**
 * A plan: what one seal or offload job moves, fixed at one moment (design section 6, step 1).
 *
 * Owns: the bytes of its row and of the pages that hold its streams. A plan of 65,536 streams is one small row and pages of at most 256 KiB each.
 * Promises: `decodePlanPages(encodePlanPages(streams))` are the same streams in the same order, and pages that are missing, doubled or of another plan
 * are refused (I6: what does not hold is dropped).
 */
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { BadBytes, ByteWriter, openSealed, sealed, unsealed, type ByteReader } from '../codec.js';
import { crc32c } from '../crc.js';
import { PARTITIONS_MAX } from '../slots.js';
import { ATTEMPT_MAX, PLAN_MAX, SESSION_MAX } from './object-id.js';
import { NAMED_PRODUCER_BYTES_MIN, readNamedProducer, writeNamedProducer } from './producer-record.js';
import { readSnapshotRecord, writeSnapshotRecord } from './snapshot-record.js';
import { readIncarnation, readStreamRecord, writeStreamRecord } from './stream-record.js';
import type { NamedProducer, SnapshotRecord, StreamRecord } from './types.js';

const VERSION = 1;
const PAGE_VERSION = 1;
const WHAT = 'plan';

export const PLAN_STREAMS_MAX = 65_536;
/** A value of the hot store. One stream without its producers takes at most 20 strings of 16 KiB less than that; producers flow over pages. */
export const PLAN_PAGE_BYTES_MAX = 262_144;
/** A page is closed once it is this full, so that one more stream and producer still fit. */
const PAGE_FULL_BYTES = 65_536;
const ERROR_BYTES_MAX = 1_024;
export const PLAN_PURGES_MAX = 1_024;
/** A bucket's id is part of a stream key of at most 122 bytes. */
const BUCKET_BYTES_MAX = 122;

const KINDS = ['seal', 'offload'] as const;
/** `open`: to be done or under way. `parked`: failed for good until somebody looks. `logged`: its log record exists and is being applied. `done`: applied; rows may go. */
const STATES = ['open', 'parked', 'logged', 'done'] as const;

export type PlanKind = (typeof KINDS)[number];
export type PlanState = (typeof STATES)[number];

/** The row of a plan. Its streams lie in `pages` pages beside it. */
export interface Plan {
  readonly partition: number;
  readonly session: number;
  readonly plan: number;
  readonly kind: PlanKind;
  readonly state: PlanState;
  readonly createdAtMs: number;
  /** Number of the newest durable batch at the cut: what changed later stays dirty. */
  readonly batch: number;
  /** Tries so far; part of the names of the objects that the next try makes. */
  readonly attempt: number;
  /** Not before this moment; 0: now. */
  readonly retryAtMs: number;
  /** Why the last try failed, cut to 1,024 bytes. */
  readonly lastError: string | null;
  readonly streams: number;
  readonly pages: number;
  /** Logical bytes to move. */
  readonly bytes: number;
  /** Buckets whose purge the log is to hold, at most 1,024. */
  readonly purges: readonly string[];
}

/** One stream of a plan. */
export interface PlanStream {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Range to seal; both the same: only the state goes into the log. */
  readonly from: Offset;
  readonly to: Offset;
  /** State at the cut; null: the stream was deleted, and the log is to say so. */
  readonly state: StreamRecord | null;
  /** Producers that the log does not hold yet as they are. */
  readonly producers: readonly NamedProducer[];
  /** The snapshot whose body is moved: a small one by `seal`, a large one by `offload`. */
  readonly snapshot: SnapshotRecord | null;
  /** After this plan the log holds everything up to `state.change`; false: something has to follow, the stream stays dirty. */
  readonly settles: boolean;
}

const STATE = 1;
const SNAPSHOT = 2;
const SETTLES = 4;
const FLAGS_ALL = STATE | SNAPSHOT | SETTLES;
const STREAM = 0;
const MORE_PRODUCERS = 1;

export function encodePlan(plan: Plan): Buffer {
  return sealed(VERSION, plan, (writer, value) => {
    checkPlan(value);
    writer.varint(value.partition);
    writer.varint(value.session);
    writer.varint(value.plan);
    writer.u8(KINDS.indexOf(value.kind));
    writer.u8(STATES.indexOf(value.state));
    writer.varint(value.createdAtMs);
    writer.varint(value.batch);
    writer.varint(value.attempt);
    writer.varint(value.retryAtMs);
    writer.bool(value.lastError !== null);
    if (value.lastError !== null) writer.string(cutText(value.lastError, ERROR_BYTES_MAX), ERROR_BYTES_MAX);
    writer.varint(value.streams);
    writer.varint(value.pages);
    writer.varint(value.bytes);
    writer.varint(value.purges.length);
    for (const bucket of value.purges) writer.string(bucket, BUCKET_BYTES_MAX);
  });
}

export function decodePlan(buffer: Buffer): Plan {
  return unsealed(buffer, WHAT, VERSION, (reader) => ({
    partition: reader.varint(PARTITIONS_MAX - 1),
    session: reader.varint(SESSION_MAX),
    plan: reader.varint(PLAN_MAX),
    kind: oneOf(reader, KINDS),
    state: oneOf(reader, STATES),
    createdAtMs: reader.varint(),
    batch: reader.varint(),
    attempt: reader.varint(ATTEMPT_MAX),
    retryAtMs: reader.varint(),
    lastError: reader.bool() ? reader.string(ERROR_BYTES_MAX) : null,
    streams: reader.varint(PLAN_STREAMS_MAX),
    pages: reader.varint(),
    bytes: reader.varint(),
    purges: readPurges(reader),
  }));
}

/** Pages, in order, for any number of streams up to PLAN_STREAMS_MAX; none for no streams. */
export function encodePlanPages(streams: Iterable<PlanStream>): Buffer[] {
  const pages: Buffer[] = [];
  const items = new ByteWriter(PAGE_FULL_BYTES);
  let before = 0;
  const close = (): void => {
    const page = sealed(PAGE_VERSION, items.take(), (writer, bytes) => {
      writer.varint(pages.length);
      // The sum of the page before ties the pages of one plan together.
      writer.u32(before);
      writer.raw(bytes);
    });
    if (page.length > PLAN_PAGE_BYTES_MAX) throw new Error(`a plan's page of ${page.length} bytes`);
    before = crc32c(page);
    pages.push(page);
  };
  let count = 0;
  for (const stream of streams) {
    if (++count > PLAN_STREAMS_MAX) throw new RangeError(`a plan of more than ${PLAN_STREAMS_MAX} streams`);
    writeStream(items, stream);
    let written = 0;
    while (written < stream.producers.length) {
      if (items.length >= PAGE_FULL_BYTES) close();
      items.u8(MORE_PRODUCERS);
      written = writeProducers(items, stream.producers, written);
    }
    if (items.length >= PAGE_FULL_BYTES) close();
  }
  if (items.length > 0) close();
  return pages;
}

/** Streams of a plan from its pages, in order, read one page at a time. Throws `BadBytes`. */
export async function* readPlanPages(pages: Iterable<Buffer> | AsyncIterable<Buffer>): AsyncGenerator<PlanStream> {
  const reading = new PageReading();
  for await (const page of pages) yield* reading.read(page);
  yield* reading.finish();
}

/** The same with all pages at hand. */
export function decodePlanPages(pages: Iterable<Buffer>): PlanStream[] {
  const reading = new PageReading();
  const streams: PlanStream[] = [];
  for (const page of pages) streams.push(...reading.read(page));
  streams.push(...reading.finish());
  return streams;
}

/** Producers from `from` on until the page is full; returns where the next page goes on. */
function writeProducers(items: ByteWriter, producers: readonly NamedProducer[], from: number): number {
  const part = new ByteWriter(4_096);
  let next = from;
  do {
    writeNamedProducer(part, producers[next] as NamedProducer);
    next++;
  } while (next < producers.length && items.length + part.length < PAGE_FULL_BYTES);
  items.varint(next - from);
  items.raw(part.take());
  return next;
}

function writeStream(writer: ByteWriter, stream: PlanStream): void {
  if (stream.to < stream.from) throw new Error(`a plan's range from ${stream.from} to ${stream.to}`);
  if (stream.state !== null && stream.state.incarnation !== stream.incarnation) throw new Error('a plan with the state of another incarnation');
  writer.u8(STREAM);
  writer.u8((stream.state !== null ? STATE : 0) | (stream.snapshot !== null ? SNAPSHOT : 0) | (stream.settles ? SETTLES : 0));
  writer.string(stream.key);
  writer.varint(stream.incarnation);
  writer.varint(stream.from);
  writer.varint(stream.to - stream.from);
  if (stream.state !== null) writeStreamRecord(writer, stream.state);
  if (stream.snapshot !== null) writeSnapshotRecord(writer, stream.snapshot);
}

function readStream(reader: ByteReader): PlanStream {
  const flags = reader.u8();
  if ((flags & ~FLAGS_ALL) !== 0) throw reader.bad(`unknown flags ${flags}`);
  const key = reader.string() as StreamKey;
  const incarnation = readIncarnation(reader);
  const from = reader.varint();
  const bytes = reader.varint(Number.MAX_SAFE_INTEGER - from);
  const state = (flags & STATE) !== 0 ? readStreamRecord(reader) : null;
  if (state !== null && state.incarnation !== incarnation) throw reader.bad('the state of another incarnation');
  const snapshot = (flags & SNAPSHOT) !== 0 ? readSnapshotRecord(reader) : null;
  return { key, incarnation, from: from as Offset, to: (from + bytes) as Offset, state, producers: [], snapshot, settles: (flags & SETTLES) !== 0 };
}

/** Reads page after page; a stream is given out once the item behind it shows that its producers are complete. */
class PageReading {
  private pages = 0;
  private before = 0;
  private open: PlanStream | null = null;

  *read(page: Buffer): Generator<PlanStream> {
    if (page.length > PLAN_PAGE_BYTES_MAX) throw new BadBytes(WHAT, `a page of ${page.length} bytes`);
    const reader = openSealed(page, 'page of a plan', PAGE_VERSION);
    if (reader.varint() !== this.pages || reader.u32() !== this.before) throw reader.bad(`not page ${this.pages} of this plan`);
    this.pages++;
    this.before = crc32c(page);
    if (reader.left === 0) throw reader.bad('an empty page');
    while (reader.left > 0) {
      const kind = reader.u8();
      if (kind === STREAM) {
        if (this.open !== null) yield this.open;
        this.open = readStream(reader);
      } else if (kind === MORE_PRODUCERS && this.open !== null) {
        this.open = { ...this.open, producers: this.open.producers.concat(reader.many(NAMED_PRODUCER_BYTES_MIN, readNamedProducer)) };
      } else {
        throw reader.bad(`unknown item ${kind}`);
      }
    }
  }

  *finish(): Generator<PlanStream> {
    if (this.open !== null) yield this.open;
    this.open = null;
  }
}

function readPurges(reader: ByteReader): string[] {
  const purges = reader.many(1, (one) => one.string(BUCKET_BYTES_MAX));
  if (purges.length > PLAN_PURGES_MAX) throw reader.bad(`${purges.length} purges`);
  return purges;
}

function checkPlan(plan: Plan): void {
  if (plan.purges.length > PLAN_PURGES_MAX) throw new RangeError(`a plan of ${plan.purges.length} purges`);
  if (plan.partition >= PARTITIONS_MAX || plan.session > SESSION_MAX || plan.plan > PLAN_MAX || plan.attempt > ATTEMPT_MAX) throw new RangeError('a plan beyond the limits of its name');
  if (plan.streams > PLAN_STREAMS_MAX) throw new RangeError(`a plan of ${plan.streams} streams`);
}

function oneOf<T extends string>(reader: ByteReader, names: readonly T[]): T {
  const name = names[reader.u8()];
  if (name === undefined) throw reader.bad('unknown kind or state');
  return name;
}

/** At most `bytesMax` bytes of UTF-8, cut between characters. */
function cutText(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
