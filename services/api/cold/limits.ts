/**
 * Limits of the cold tier, each with its unit and its relation to the others (I11).
 */
import { BLOCK_PAYLOAD_MAX } from '../../../shared/storage/block.js';
import { SOURCE_OBJECTS_MAX } from '../../../shared/storage/source-frames.js';
import { RUN_BYTES_MIN } from '../../worker/handlers/compact.js';
import { ALIVE_MS } from '../../worker/handlers/run-try.js';

/** How often a node looks for a newer session of a partition, ms (architecture section 7). */
export const SESSION_CHECK_MS = 5_000;
/** A node that starts waits so long for the first answer of its object store, ms, before it counts as away: the store's own deadline is longer. */
export const START_WAIT_MS = 5_000;
/** Wait before the object store is asked again after it did not answer, ms: first and longest. */
export const STORE_RETRY_MS = 250;
export const STORE_RETRY_MAX_MS = 10_000;
/** Incarnation counters reserved in RocksDB at a time: one small batch per so many creations. */
export const TOKEN_BLOCK = 4_096;

/** A slice of an applied record: streams, and bytes of its rows (architecture section 6). */
export const SLICE_STREAMS_MAX = 1_000;
export const SLICE_BYTES_MAX = 1_048_576;
/** Rows that one step of eviction, trimming or removal deletes. */
export const SLICE_ROWS_MAX = 1_000;

/** Ranges (blocks) of one plan, and its raw bytes; a stream is never cut, so the last one may go beyond both. */
export const PLAN_RANGES_MAX = 65_536;
export const PLAN_BYTES_MAX = 268_435_456;
/** A backlog of more than one plan is sealed by age: into so many bands at most it is cut, each of which costs a walk over its partition's marks. */
export const BACKLOG_BANDS_MAX = 8;
/** Steps of clean-up in one round, so that what waits for the log is not looked at without end. */
export const CLEAN_STEPS_MAX = 256;
/** Purges of one plan. */
export const PLAN_PURGES_MAX = 1_024;
/** Streams of one plan, and producers in it: bounds the log record to a single PUT. */
export const PLAN_STREAMS_MAX = 16_384;
export const PLAN_PRODUCERS_MAX = 65_536;
/** Tries to read a stream's state and producers from one moment before the stream is left to the next plan. */
export const PLAN_STATE_TRIES = 20;
/** A stream whose range cannot be read is left out of plans for this long, ms: first and longest (R123). */
export const PARK_MS = 5_000;
export const PARK_MAX_MS = 300_000;
/** Wait before a failed plan is tried again, ms: first and longest (R030: it never ends). */
export const PLAN_RETRY_MS = 500;
export const PLAN_RETRY_MAX_MS = 30_000;
/** A try that was taken up and not heard of for this long counts as lost, ms. */
export const JOB_SILENT_MS = 60_000;
/** A job that nobody took up is handed over again after so long, ms: the queue may have lost it. */
export const JOB_REMIND_MS = 5_000;
/** An object that was written and is not shown is asked for so often, with waits that double from this one on, ms: 12.7 s in all. */
export const SHOWN_TRIES_MAX = 8;
export const SHOWN_WAIT_MS = 100;
/** Tries of one offload or compaction before the next one gets its turn. */
export const OFFLOAD_TRIES_MAX = 5;
/** How often the scan for due work runs, ms, whatever the hints say (I5). */
export const DUE_SCAN_MS = 1_000;

/**
 * So many neighbouring places of one stream that are each shorter than a tier are put together; tiers are `RUN_BYTES_MIN` divided by this once, twice, … A byte is written once more for each tier
 * that it passes, so one that came with at least `RUN_BYTES_MIN / COMPACT_FAN_IN²` (1 KiB) of its stream is written three times at most, its seal included.
 */
export const COMPACT_FAN_IN = 32;
/** Tiers below `RUN_BYTES_MIN`: the last one ends at 32 bytes. */
export const COMPACT_TIERS = 3;
/** An object of which more than this share is not named any more is written anew; for a run that was asked for, more than the other. */
export const COMPACT_GARBAGE_SHARE_MAX = 0.5;
export const COMPACT_NOW_GARBAGE_SHARE_MAX = 0.1;
/** Objects up to this size are written anew when there are `COMPACT_FAN_IN` of them (for a run that was asked for, two), bytes; those up to the other one apart from the larger ones, and none with more references than half of `COMPACT_STREAMS_MAX`. */
export const COMPACT_OBJECT_BYTES_SMALL = 8_388_608;
export const COMPACT_OBJECT_BYTES_TINY = 262_144;
/** One compaction: raw bytes, sources (ranges and snapshots), references, objects that they lie in, streams. The last stream may go beyond the first three. */
export const COMPACT_BYTES_MAX = 268_435_456;
export const COMPACT_SOURCES_MAX = 16_384;
export const COMPACT_REFS_MAX = 131_072;
export const COMPACT_OBJECTS_MAX = SOURCE_OBJECTS_MAX;
export const COMPACT_STREAMS_MAX = 8_192;
/** One range of it: bytes, references and objects at which it is cut. */
export const COMPACT_RANGE_BYTES_MAX = 67_108_864;
export const COMPACT_RANGE_REFS_MAX = 4_096;
export const COMPACT_RANGE_OBJECTS_MAX = 64;
/** Streams that a walk remembers before their compactions run and it goes on. */
export const COMPACT_FOUND_MAX = 131_072;
/** A look at all references is due after so many log records, or after so long when there was any, ms; and not before so many times what the last one took has passed. */
export const COMPACT_RECORDS = 8;
export const COMPACT_AGE_MS = 600_000;
export const COMPACT_REST_FACTOR = 10;
/** Passes of a run that was asked for: each finds what the one before left in pieces. */
export const COMPACT_PASSES_MAX = 4;

/** Bytes of decompressed frames in memory. */
export const FRAME_CACHE_BYTES_MAX = 33_554_432;
/** A file of the cache on disk counts for at least so much, bytes: a block of the disk. */
export const CACHE_FILE_BYTES_MIN = 4_096;
/** Files of that cache: 64 GiB of whole frames, and some 60 MB of memory for their names. */
export const CACHE_FILES_MAX = 262_144;
/** Frames that wait to be written there, bytes; what comes beyond is not kept. */
export const CACHE_WAITING_BYTES_MAX = 16_777_216;
/** After a write there that failed none is tried for so long, ms. */
export const CACHE_REST_MS = 10_000;
/** Its files are looked at so many at a time when a node starts. */
export const CACHE_STATS_TOGETHER = 32;
/** While room on the disk is short so many of its files go at a time, and how often, ms: some 250 MB a second. */
export const CACHE_SHED_FILES = 1_024;
export const CACHE_SHED_MS = 1_000;
/** Neighbouring frames of one object are fetched by one GET up to this many stored bytes: as a stream, of which little is in memory. */
export const COALESCE_BYTES_MAX = 33_554_432;
/** A reader of so much at a time, bytes, will come for what follows: the GET goes on into it, as far as one page of references tells. */
export const FOLLOW_BYTES_MIN = 4_194_304;
/** Frames of one GET that may have come before somebody asks for them, most of them about 256 KiB; unpacking and sending go on side by side. */
export const FRAMES_AHEAD = 16;
/** ... and of all GETs together: then each may have no more than `FRAMES_AHEAD_MIN`. */
export const FRAMES_AHEAD_ALL = 128;
export const FRAMES_AHEAD_MIN = 2;
/** They wait so long, ms: then their GET ends and they go. */
export const REST_MS = 200;
/** Frames of one GET for a reader who let one wait so long: its GETs end before it rests again. */
export const SLOW_GET_FRAMES = 2;
/** References looked up at a time by a cold read: 64 blocks of at most 256 KiB. */
export const REF_PAGE = 64;
/** A reader opens the next group of frames when less than this of the one it reads is left, bytes of the stream; one group at least is open beside it. */
export const OPEN_AHEAD_BYTES = 1_048_576;
/** Longest wait of a reader for one frame, ms. */
export const GET_DEADLINE_MS = 30_000;

/** A checkpoint is due after so many log records or bytes of log (architecture section 6). */
export const CHECKPOINT_RECORDS = 1_000;
export const CHECKPOINT_LOG_BYTES = 67_108_864;
/** ... or changes of streams: whoever merges the log with a checkpoint (the next one, a restore) has all of them in memory, packed, at some 250 bytes each. */
export const CHECKPOINT_CHANGES = 262_144;
/** Stored bytes of one change, about, where only the length of a record is known. */
export const CHANGE_BYTES_ABOUT = 64;

/** Streams of a partition whose part of a log record may be passed over for damage: at more of them the partition's log waits. */
export const BEHIND_MAX = 4_096;

/** An object that may go stays so long after this node learned of it, ms: longer than a node needs to notice that it lost its session, and than a reader takes from a reference to its object. */
export const COLLECT_GRACE_MS = 15_000;
/** A reader may hold an object that nothing names any more for so long, ms; then it is cut. The largest snapshot over a line of 10 Mbit/s takes as long. */
export const READER_PIN_MS_MAX = 900_000;
/** Objects whose grace runs at a time, in one partition; others wait for their turn. */
export const COLLECT_MARKED_MAX = 65_536;
/** Passes of one collection: what waits for a checkpoint, then for its grace, comes into the next one. */
export const COLLECT_PASSES_MAX = 8;
/** Garbage is looked for so often, ms; a failed collection is tried again as late, and none that was not asked for begins sooner after the last one than `COLLECT_AGAIN_MS`. */
export const GARBAGE_LOOK_MS = 60_000;
export const COLLECT_AGAIN_MS = 600_000;
/** A collection is due when so many bytes are garbage, or when some garbage has been known for so long, ms. */
export const COLLECT_GARBAGE_BYTES = 268_435_456;
export const COLLECT_AGE_MS = 3_600_000;
/** And once after the start and then so often, ms, for what no row tells of: objects of killed workers, unfinished uploads, names that nobody knows. */
export const COLLECT_FIRST_MS = 60_000;
export const COLLECT_LIST_MS = 21_600_000;

/** Free space below this multiple of `diskFreeMin` makes sealed copies go before their time. */
export const DISK_FREE_FACTOR = 2;

if (COALESCE_BYTES_MAX < BLOCK_PAYLOAD_MAX) throw new Error('one GET must be able to fetch a whole frame');
if (ALIVE_MS * 3 > JOB_SILENT_MS) throw new Error('a try that works has to be heard of before it counts as lost');
if (COMPACT_RANGE_OBJECTS_MAX * 2 > COMPACT_OBJECTS_MAX) throw new Error('a range and the one before its cut have to go into one compaction');
if (COMPACT_RANGE_BYTES_MAX < 2 * RUN_BYTES_MIN || COMPACT_BYTES_MAX < COMPACT_RANGE_BYTES_MAX) throw new Error('a compaction holds the longest range, and a range several runs');
if (COMPACT_OBJECT_BYTES_TINY * COMPACT_FAN_IN > COMPACT_OBJECT_BYTES_SMALL) throw new Error('tiny objects put together have to leave their tier and no other');
if (COLLECT_GRACE_MS < 2 * SESSION_CHECK_MS) throw new Error('a node must know that its session is over before anything that it marked may go');
if (PLAN_STREAMS_MAX > PLAN_RANGES_MAX) throw new Error('a plan holds at least one range a stream');
