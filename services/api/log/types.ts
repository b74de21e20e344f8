/**
 * What the log offers to the layers above (`http`, `live`, `admin`): requests and outcomes of the stream operations.
 *
 * Owns: the interface `StreamLog`. Every refusal is a `FirnError` with a code of `shared/protocol/errors`; nothing else is thrown
 * except for broken invariants. Nothing here knows HTTP.
 */
import type { Dialect, Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { ProducerRecord, SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';

/** The `Stream-Incarnation` precondition; null: none sent. */
export type Precondition = Incarnation | null;

export interface CreateRequest {
  readonly key: StreamKey;
  readonly dialect: Dialect;
  readonly precondition: Precondition;
  /** null: `application/octet-stream`. Syntax was checked. */
  readonly contentType: string | null;
  readonly ttl: string | null;
  readonly expiresAtMs: number | null;
  readonly closed: boolean;
  /** `Stream-Seq` (recorded on creation, bucketed surface only). */
  readonly seq: string | null;
  /** Raw request body; empty: none. */
  readonly body: Buffer;
  /** What it is a fork of; null: of nothing. */
  readonly fork: ForkRequest | null;
}

/** A fork as asked for (requirements section 28). Syntax was checked. */
export interface ForkRequest {
  readonly key: StreamKey;
  /** null: the tail of the source. */
  readonly offset: Offset | null;
  /** Bytes, or messages of a JSON stream, behind `offset`. */
  readonly sub: number;
}

export interface CreateOutcome {
  readonly created: boolean;
  readonly record: StreamRecord;
}

export interface ProducerClaim {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
  /** `Producer-Digest`, null: not sent. */
  readonly digest: string | null;
}

export interface AppendRequest {
  readonly key: StreamKey;
  readonly dialect: Dialect;
  readonly precondition: Precondition;
  /** null: no header. Syntax was checked. */
  readonly contentType: string | null;
  readonly producer: ProducerClaim | null;
  readonly seq: string | null;
  readonly close: boolean;
  /** Raw request body; empty with `close`: close only. */
  readonly body: Buffer;
}

export interface AppendOutcome {
  /** `applied`, or a repeat of a write on record. */
  readonly kind: 'applied' | 'duplicate';
  /** The stream after this write (for a duplicate: now), durable. */
  readonly record: StreamRecord;
  /** Range of this very write; null for a duplicate whose receipt is gone (`receipt-evicted`). */
  readonly range: { readonly start: Offset; readonly end: Offset } | null;
  /** This very write closed the stream. */
  readonly closedHere: boolean;
  /** The producer's record after the write, null for an unkeyed one. */
  readonly producer: ProducerRecord | null;
  /** A keyed write with seq 0 that replaced an epoch: `Producer-Closed-Epoch` and `-Seq` are sent. */
  readonly replacedEpoch: boolean;
}

export interface ReadRequest {
  readonly key: StreamKey;
  readonly precondition: Precondition;
  readonly from: Offset | 'start' | 'now';
  /** Most stream bytes in the answer, already clamped to 1 .. READ_BYTES_MAX. */
  readonly maxBytes: number;
  /** `messages` (base JSON): the range ends at a message end, holds at least one whole message, and `from` must be a boundary. */
  readonly cut: 'bytes' | 'messages';
}

/** A range of a stream that is there, decided at one moment; its bytes follow by `body`. */
export interface ReadWindow {
  readonly record: StreamRecord;
  readonly start: Offset;
  readonly end: Offset;
  /** `end` is the tail at that moment. */
  readonly upToDate: boolean;
  /** `upToDate` and the stream is closed. */
  readonly closed: boolean;
  /** Session that goes into an ETag of a range ending above the logged frontier; null at or below it. */
  readonly session: number | null;
  /**
   * Exactly the bytes [start, end), in order, in pieces of at most 1 MiB. Throws before the first piece or between two; never ends short.
   * Call at most once.
   */
  body(signal?: AbortSignal): AsyncIterable<Buffer>;
}

/** Something happened to a stream, after it is durable. */
export interface StreamEvent {
  /** null: deleted or expired. A different incarnation than the subscriber's: recreated. */
  readonly record: StreamRecord | null;
  /** New bytes [start, end); `data` holds exactly them (the buffers that were written; do not modify). Empty when only state changed. */
  readonly start: Offset;
  readonly end: Offset;
  readonly data: readonly Buffer[];
}

/** A stream kept open for a live read: holds off expiry (TTL-10) and cache eviction until `close`. */
export interface LiveHandle {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Durable state now; null once the stream is gone or was recreated. */
  readonly record: StreamRecord | null;
  /** Calls back synchronously after each durable change. Returns the unsubscribe function. */
  subscribe(listener: (event: StreamEvent) => void): () => void;
  /** A window from `from` of the incarnation that was opened. */
  read(from: Offset, maxBytes: number, cut: 'bytes' | 'messages'): Promise<ReadWindow>;
  close(): void;
}

export interface PublishRequest {
  readonly key: StreamKey;
  readonly precondition: Precondition;
  readonly offset: Offset;
  readonly contentType: string;
  /** Declared length, null when chunked. */
  readonly declaredBytes: number | null;
  readonly body: AsyncIterable<Buffer>;
}

export interface PublishOutcome {
  readonly record: StreamRecord;
  readonly offset: Offset;
  readonly digest: string;
}

/** One part of a snapshot, to be staged. */
export interface PartRequest {
  readonly key: StreamKey;
  readonly precondition: Precondition;
  readonly offset: Offset;
  /** Declared length, null when chunked. */
  readonly declaredBytes: number | null;
  readonly body: AsyncIterable<Buffer>;
}

export interface PartOutcome {
  readonly record: StreamRecord;
  /** `….part`: names the part in a commit. */
  readonly id: string;
}

/** Staged parts that become a snapshot. */
export interface PartsCommit extends Pick<PublishRequest, 'key' | 'precondition' | 'offset' | 'contentType'> {
  /** Of the whole (SNAP-35). */
  readonly digest: string;
  /** Reads the list of parts; called only if the answer depends on it. */
  ids(): Promise<readonly string[]>;
}

export interface SnapshotRead {
  readonly record: StreamRecord;
  readonly snapshot: SnapshotRecord;
  /** Bytes [from, from+length) of the body. Never ends short. */
  body(from: number, length: number, signal?: AbortSignal): AsyncIterable<Buffer>;
}

export interface BootstrapRead {
  readonly record: StreamRecord;
  /** null: none visible. */
  readonly snapshot: SnapshotRead | null;
  /** Snapshot point: snapshot offset, or the retained offset. */
  readonly start: Offset;
  /** End of the update parts. */
  readonly end: Offset;
  readonly upToDate: boolean;
  readonly closed: boolean;
  /**
   * The update parts of [start, end) (hot bytes only), streamed so that many bootstraps cost no memory. JSON: each yielded buffer is exactly one
   * message with its LF, so one multipart part. Else: the yielded buffers are the pieces of ONE part (nothing is yielded when the range is empty).
   * Never ends short: throws. Call at most once.
   */
  parts(signal?: AbortSignal): AsyncIterable<Buffer>;
}

export interface StreamLog {
  create(request: CreateRequest): Promise<CreateOutcome>;
  append(request: AppendRequest): Promise<AppendOutcome>;
  /** The answer to a keyed append that needs no body: a repeat; null: read the body. Throws PRODUCER_KEY_CONFLICT. */
  answerEarly(request: Omit<AppendRequest, 'body'>): Promise<AppendOutcome | null>;
  /** Returns the deleted incarnation. */
  delete(key: StreamKey, precondition: Precondition): Promise<Incarnation>;
  head(key: StreamKey, precondition: Precondition): Promise<StreamRecord>;
  read(request: ReadRequest): Promise<ReadWindow>;
  /** Opens a live read: the checks of a read at `from`, then a handle. `start` is the resolved position. */
  openLive(key: StreamKey, precondition: Precondition, from: Offset | 'start' | 'now', cut: 'bytes' | 'messages'): Promise<{ readonly handle: LiveHandle; readonly start: Offset }>;
  publishSnapshot(request: PublishRequest): Promise<PublishOutcome>;
  readSnapshot(key: StreamKey, precondition: Precondition, offset: Offset): Promise<SnapshotRead>;
  /** Stages a part of a snapshot. Throws STAGED_PARTS_LIMIT, NO_COLD_STORE, and the refusals of a publish at the offset that need no look at content. */
  stagePart(request: PartRequest): Promise<PartOutcome>;
  /**
   * Publishes staged parts as one snapshot; goes on whatever becomes of the caller. Throws like `publishSnapshot`, then in this order NO_COLD_STORE, UNKNOWN_PART, SNAPSHOT_TOO_LARGE,
   * SNAPSHOT_COMMITS_BUSY, SNAPSHOT_COMMIT_IN_PROGRESS, SNAPSHOT_DIGEST_MISMATCH.
   */
  commitParts(request: PartsCommit): Promise<PublishOutcome>;
  /** Drops all staged parts of a stream. Throws SNAPSHOT_COMMIT_IN_PROGRESS. */
  discardParts(key: StreamKey, precondition: Precondition): Promise<StreamRecord>;
  /** Moves the earliest retained offset; returns the record after. */
  retain(key: StreamKey, precondition: Precondition, offset: Offset): Promise<StreamRecord>;
  bootstrap(key: StreamKey, precondition: Precondition): Promise<BootstrapRead>;
  /** Reason why writes are refused right now, null when they are taken: `WAL_DISK_PRESSURE`, `COLD_BACKPRESSURE`, damage. Asked before a body is read. */
  refusingWrites(key: StreamKey): Error | null;
}

/** Most stream bytes in one read answer or SSE event (SIZE-01). */
export const READ_BYTES_MAX = 8_388_608;
/** Most bytes of update parts in one bootstrap answer (BOOT-21). */
export const BOOTSTRAP_BYTES_MAX = 8_388_608;
