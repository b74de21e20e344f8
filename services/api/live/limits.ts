/**
 * Limits of live reads, each with its unit and its relation to the others (I11).
 */
import { READ_BYTES_MAX } from '../log/types.js';

/** Live readers of one node, both kinds together; beyond it 503 LIVE_READ_BACKPRESSURE. */
export const LIVE_READERS_MAX = 65_536;

/** One event that is framed once for everybody at the tail, stream bytes: framing holds up everything else. Larger ones are read from storage by each reader (SIZE-02). */
export const SHARED_EVENT_BYTES_MAX = 262_144;
/** One event of a reader that catches up, stream bytes: small, since each such reader has its own. */
export const CATCH_UP_EVENT_BYTES = 131_072;
/** Events of readers that catch up which are kept for those close behind, bytes on one node. */
export const STORED_EVENTS_BYTES_MAX = 4_194_304;
/** Events above CATCH_UP_EVENT_BYTES, which hold one large JSON message each: bytes of all that are made or wait for a slow reader, on one node (while one is made it takes up to three times its bytes). A larger one goes alone. */
export const LARGE_EVENTS_BYTES_MAX = 67_108_864;
/** Least bytes of an event that carries UTF-8 text: one character (SIZE-07). */
export const TEXT_EVENT_BYTES_MIN = 4;
/** Readers that read from storage at the same moment. */
export const CATCH_UPS_AT_ONCE = 32;

/** A reader whose socket holds more than this is paused: nothing is written or kept for it until it has drained, bytes (R052). */
export const LAG_BYTES = 65_536;
/** A reader that takes nothing of what it should drain for this long is cut, ms. */
export const STALL_MS = 20_000;
/** What is left of an ended answer has to be taken within this time, ms (R127). */
export const END_GRACE_MS = 5_000;

/** An idle answer gets a comment after this time, ms: proxies cut at 60 s, watchdogs of clients earlier (R059). */
export const HEARTBEAT_MS = 15_000;
/** An answer ends between these two, ms (SSE-12). */
export const LIFE_MIN_MS = 52_000;
export const LIFE_MAX_MS = 68_000;
/** Step of the one timer of all readers, ms. */
export const TICK_MS = 1_000;

/** Longest share of the main thread's time for writing an event to many readers, ms; then others have their turn. */
export const FAN_OUT_TURN_MS = 2;
/** Readers written to between two looks at the clock. */
export const READERS_A_LOOK = 16;

if (SHARED_EVENT_BYTES_MAX > READ_BYTES_MAX) throw new Error('an event holds no more than a read');
if (CATCH_UP_EVENT_BYTES > SHARED_EVENT_BYTES_MAX) throw new Error('an event of one reader is no larger than one of all');
if (LARGE_EVENTS_BYTES_MAX < CATCH_UP_EVENT_BYTES) throw new Error('a large event is larger than any other');
if (LIFE_MIN_MS < 50_000 || LIFE_MAX_MS > 70_000) throw new Error('an SSE answer lives about 60 s');
if (HEARTBEAT_MS + TICK_MS >= LIFE_MIN_MS) throw new Error('a comment comes before the end');
if (TICK_MS > STALL_MS) throw new Error('a stalled reader is noticed in time');
