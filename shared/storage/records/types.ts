/**
 * What is stored about a stream, in the hot store and in the log alike.
 *
 * Owns: the shapes. Their bytes are in the file of each record beside this one and in `docs/formats.md`.
 * All records are immutable values: a change makes a new one.
 */
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';

/** Who closed a stream: null for an unkeyed close. A repeat of this tuple is a duplicate (CLO-11 .. CLO-14). */
export interface ClosedBy {
  readonly producerId: string;
  readonly epoch: number;
  readonly seq: number;
}

/** Names a data object: `partitions/{partition}/{kind}s/{partition}-{session}-{plan}-{attempt}-{part}` ("merged" has no plural). */
export interface ObjectId {
  readonly kind: 'segment' | 'snapshot' | 'merged';
  readonly partition: number;
  readonly session: number;
  readonly plan: number;
  readonly attempt: number;
  readonly part: number;
}

/** Where one block (a contiguous range of one stream, or a small snapshot) lies in a data object. */
export interface BlockRef {
  readonly object: ObjectId;
  /** Byte position and stored length of the frame, its header included. */
  readonly frameAt: number;
  readonly frameBytes: number;
  /** CRC32C of the frame as stored, header included. */
  readonly frameCrc: number;
  /** Position and length of the block in the decompressed frame. */
  readonly blockAt: number;
  readonly blockBytes: number;
}

/** A cold reference: the bytes [start, end) of a stream are in this block. */
export interface ColdRef extends BlockRef {
  readonly start: Offset;
  readonly end: Offset;
}

/** Where a large snapshot lies: the whole object is its body. */
export interface SnapshotObjectRef {
  readonly object: ObjectId;
  readonly bytes: number;
  /** CRC32C of the body. */
  readonly crc: number;
}

export interface SnapshotRecord {
  readonly offset: Offset;
  /** As stored and returned; part of the digest. */
  readonly contentType: string;
  /** 64 lower-case hex digits (SNAP-35). */
  readonly digest: string;
  readonly bytes: number;
  /** CRC32C of the body. */
  readonly crc: number;
  readonly publishedAtMs: number;
  /** Hot copy: body chunks in RocksDB, a synced file in `staging/`, or none (evicted, or restored). */
  readonly hot: { readonly at: 'inline' } | { readonly at: 'staging'; readonly file: string } | null;
  /** Cold copy: a block of a data object (small) or an object of its own (large); null until a log record names it. */
  readonly cold: { readonly at: 'block'; readonly ref: BlockRef } | { readonly at: 'object'; readonly ref: SnapshotObjectRef } | null;
}

/** What a fork was made of: everything below `at` is read from the source (requirements section 28). */
export interface ForkOrigin {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Where the fork was asked for: a position in the source, and how many bytes, or messages of a JSON stream, behind it. */
  readonly offset: Offset;
  readonly sub: number;
  /** The same in bytes: the fork's own bytes begin here. */
  readonly at: Offset;
  /** Forks between this one and a stream that is none: 1 for a fork of such a stream. */
  readonly depth: number;
}

/**
 * State of one stream. Invariants: retained <= tail; hotStart <= sealed unless retained lies above; [hotStart, tail) is hot;
 * [heldFrom, sealed) is cold; what lies below a fork's `origin.at` is the source's; so every byte of [retained, tail) has a source (I1).
 */
export interface StreamRecord {
  readonly incarnation: Incarnation;
  /** As the creator sent it (CRE-22). */
  readonly contentType: string;
  readonly createdAtMs: number;
  readonly tail: Offset;
  /** Earliest readable offset. */
  readonly retained: Offset;
  /** Cold frontier: published cold references cover [retained, sealed). */
  readonly sealed: Offset;
  /** Lowest offset whose hot copy is still there. */
  readonly hotStart: Offset;
  readonly closed: boolean;
  readonly closedBy: ClosedBy | null;
  /** `Stream-TTL` as sent (decimal digits, any length), and `Stream-Expires-At` as an instant in ms; at most one is set. */
  readonly ttl: string | null;
  readonly expiresAtMs: number | null;
  /** Last durable renewal of a sliding TTL. */
  readonly touchedAtMs: number;
  /** Last `Stream-Seq`. */
  readonly lastSeq: string | null;
  /** Producers on record, and the highest epoch of a forgotten one (-1: none). */
  readonly producers: number;
  readonly producerFloor: number;
  /** The visible snapshot. */
  readonly snapshot: SnapshotRecord | null;
  /** Number of the batch that changed the stream last, and of the last change that the log holds; dirty while they differ. */
  readonly change: number;
  readonly loggedChange: number;
  /** null: not a fork. */
  readonly origin: ForkOrigin | null;
  /** Live forks of this stream: while there are any, none of its bytes goes, whatever becomes of the stream itself. */
  readonly forks: number;
  /** Deleted or expired, and kept for its forks alone (FORK-24). */
  readonly softDeleted: boolean;
}

export interface ProducerRecord {
  readonly epoch: number;
  readonly lastSeq: number;
  /** Digest that came with seq 0 of this epoch and with the newest write; null: none was sent. */
  readonly firstDigest: string | null;
  readonly lastDigest: string | null;
  /** Range of the newest write. */
  readonly lastStart: Offset;
  readonly lastEnd: Offset;
  /** The newest write closed the stream. */
  readonly lastClosed: boolean;
  /** The epoch that this one replaced and its last accepted seq; -1: none. */
  readonly closedEpoch: number;
  readonly closedSeq: number;
  readonly lastAtMs: number;
  /** Number of the batch that changed it last. */
  readonly change: number;
}

/** A producer's record with its id. */
export interface NamedProducer extends ProducerRecord {
  readonly id: string;
}

/** A data object that a log record brings in. */
export interface ObjectInfo {
  readonly id: ObjectId;
  readonly bytes: number;
  /** CRC32C of the whole object as stored. */
  readonly crc: number;
}

/** What a subscription was asked for (requirements section 29). It never changes; another one of the same id is another subscription. */
export interface SubscriptionConfig {
  readonly type: 'webhook' | 'pull-wake';
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
}

/** How far a stream was acknowledged; -1: not at all, which is before an empty stream's tail of 0. */
export interface LinkCursor {
  readonly incarnation: Incarnation;
  readonly acked: number;
}

/** A stream that a subscription names itself; incarnation 0: there was no such stream. */
export interface NamedLink extends LinkCursor {
  readonly key: StreamKey;
}

/** One change that the log holds. */
export type LogDelta =
  /** State at the sealed end and what was sealed since the last record; `refs` may be empty (only state changed). */
  | { readonly kind: 'seal'; readonly key: StreamKey; readonly state: StreamRecord; readonly producers: readonly NamedProducer[]; readonly refs: readonly ColdRef[] }
  /** The stream's snapshot got a cold copy of its own. */
  | { readonly kind: 'offload'; readonly key: StreamKey; readonly incarnation: Incarnation; readonly snapshot: SnapshotRecord }
  | { readonly kind: 'delete'; readonly key: StreamKey; readonly incarnation: Incarnation }
  | { readonly kind: 'purge'; readonly bucket: string }
  /** Objects that no reference names any more, as the older of two checkpoints holds; they may be deleted once this exists (I8). */
  | { readonly kind: 'collect'; readonly objects: readonly ObjectId[] }
  /** The same bytes of one life of a stream in other objects: each part holds as long as what it replaces is still exactly what was read (I6). */
  | { readonly kind: 'compact'; readonly key: StreamKey; readonly incarnation: Incarnation; readonly ranges: readonly CompactedRange[]; readonly snapshot: CompactedSnapshot | null }
  /**
   * A subscription and the cursors that moved since the last record; `whole`: all it has, what the log held of its id counts no more. Deliveries and their generations are not in the log: a restore begins
   * them anew, above every generation that was ever told.
   */
  | {
      readonly kind: 'subscription'; readonly id: string; readonly config: SubscriptionConfig; readonly whole: boolean;
      readonly links: readonly NamedLink[]; readonly unlinked: readonly StreamKey[]; readonly cursors: readonly LinkCursor[];
    }
  | { readonly kind: 'unsubscribe'; readonly id: string };

/** References [from, to) of a stream give way to `refs`, which cover the same range. */
export interface CompactedRange {
  readonly from: Offset;
  readonly to: Offset;
  /** How many references gave way, and the sum that tells them (`refsSum`). */
  readonly was: { readonly refs: number; readonly sum: number };
  readonly refs: readonly ColdRef[];
}

/** The cold copy of the small snapshot at `offset` moved. */
export interface CompactedSnapshot {
  readonly offset: Offset;
  readonly was: BlockRef;
  readonly ref: BlockRef;
}

export interface LogRecord {
  readonly kind: 'record';
  readonly partition: number;
  readonly session: number;
  readonly seq: number;
  /** The plan this record finishes, null for records without one. */
  readonly plan: number | null;
  readonly writtenAtMs: number;
  readonly objects: readonly ObjectInfo[];
  readonly deltas: readonly LogDelta[];
}

/** Ends a session: nothing after it counts (architecture section 7). */
export interface LogFence {
  readonly kind: 'fence';
  readonly partition: number;
  readonly session: number;
  readonly seq: number;
  readonly fencedBy: number;
}

export type LogEntry = LogRecord | LogFence;
