/**
 * Limits of the log, each with its unit and its relation to the others (I11).
 */
import { BODY_CHUNK_MAX } from '../hot/keys/body.js';

/** One synced batch takes at most this many bytes of payload, or one larger request alone (architecture section 5). */
export const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** ... or this many requests. */
export const BATCH_REQUESTS_MAX = 1024;
/** Streams in a batch from which on a journal row costs less than rows of their own. */
export const JOURNAL_STREAMS_MIN = 4;
/** Appends of one stream in one batch up to this many bytes go into the batch's journal row; longer ones into rows of their stream at once. */
export const JOURNAL_APPENDS_BYTES_MAX = 4_096;
/** Ends of streams that only the journal and memory hold: bytes in all, */
export const JOURNAL_BYTES_MAX = 8 * 1024 * 1024;
/** ... bytes and appends of one stream, */
export const JOURNAL_TAIL_BYTES_MAX = 64 * 1024;
export const JOURNAL_TAIL_APPENDS_MAX = 256;
/** ... and age in ms. */
export const JOURNAL_AGE_MS = 1_000;
/** Looks for old ends that no batch has taken along, ms apart. */
export const JOURNAL_LOOK_MS = 250;
/** Streams whose state is in memory; only ones in use exceed it. */
export const SLOTS_MAX = 20_000;
/** Producers remembered in memory for one stream while nothing of it is in flight. */
export const PRODUCERS_CACHED_MAX = 256;
/** Producers on record for one stream; beyond it ones idle for PRODUCER_IDLE_MS go, else 429 PRODUCER_LIMIT. */
export const PRODUCERS_MAX = 4096;
export const PRODUCER_IDLE_MS = 3_600_000;
/** A producer idle this long is forgotten; its epoch goes into the floor. */
export const PRODUCER_FORGET_MS = 7 * 86_400_000;
/** A sliding TTL is renewed on disk once this share of it has passed since the last durable renewal. */
export const TOUCH_SHARE = 1 / 4;
/** Snapshot bodies below this live in RocksDB, larger ones in a staging file until they are offloaded. */
export const SNAPSHOT_INLINE_MAX = 1024 * 1024;
/** Superseded snapshots whose digest is remembered for repeats (SNAP-30). */
export const SNAPSHOTS_REMEMBERED = 16;
/** Parts of snapshots that one stream may have staged or under way: how many, */
export const STAGED_PARTS_MAX = 8_192;
/** ... and bytes in all; a further one gets 429 STAGED_PARTS_LIMIT. */
export const STAGED_BYTES_MAX = 2 * 1024 * 1024 * 1024;
/** The same for all streams of a node together. */
export const STAGED_PARTS_NODE_MAX = 8 * STAGED_PARTS_MAX;
export const STAGED_BYTES_NODE_MAX = 8 * STAGED_BYTES_MAX;
/** A part that no commit has used goes after this, ms. */
export const STAGED_PART_AGE_MS = 86_400_000;
/** Streams with staged parts looked at in one sweep. */
export const STAGED_STREAMS_SWEEP_MAX = 256;
/** Commits of parts that copy bytes at the same time on a node; a further one gets 503 SNAPSHOT_COMMITS_BUSY. */
export const PARTS_COMMITS_MAX = 2;
/** Expired streams removed in one sweep of a partition. */
export const EXPIRY_SWEEP_MAX = 256;
/** A reopen of a poisoned store is tried this often. */
export const REOPEN_RETRY_MS = 500;

if (SNAPSHOT_INLINE_MAX > BATCH_BYTES_MAX) throw new Error('an inline snapshot must fit into one batch');
if (BODY_CHUNK_MAX > SNAPSHOT_INLINE_MAX) throw new Error('a body row is a part of an inline snapshot');
if (JOURNAL_APPENDS_BYTES_MAX > JOURNAL_TAIL_BYTES_MAX) throw new Error('one append may not be more than the end of a stream may hold');
