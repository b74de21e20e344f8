/**
 * Limits of the client listener, each with its unit and its relation to the others (I11).
 */
import { READ_BYTES_MAX } from '../log/types.js';

/** Bytes of request bodies held in memory by one node, counted from the declared length or as they grow (architecture section 5). */
export const INGRESS_BYTES_MAX = 268_435_456;
/** Bytes of a declared body that are taken of that budget before any has come; most bodies are smaller. */
export const BODY_HELD_AT_ONCE = 65_536;
/** What a larger body holds grows by this factor, up to its declared length, whenever it has filled what it holds. */
export const BODY_GROWTH = 4;
/** What a streamed upload holds at most: the pieces between the socket and the log. */
export const UPLOAD_WINDOW_BYTES = 1_048_576;
/** A body has to bring at least BODY_WINDOW_BYTES in each window of BODY_WINDOW_MS until it is complete, else 408 (WO-08, R139). */
export const BODY_WINDOW_MS = 10_000;
export const BODY_WINDOW_BYTES = 10_240;
/** ... and a declared one that is held in memory also so much that it would be complete within this time, ms. */
export const BODY_TIME_MS = 600_000;
/** How often bodies under way are looked at, ms. */
export const BODY_CHECK_MS = 500;

/** An answer that has more than this waiting in memory for its socket is given nothing more until it has drained, bytes: one piece of the log, mostly of 256 KiB, may wait whole. */
export const ANSWER_BUFFER_BYTES = 65_536;
/** Answers that wait so for their clients; of so many the next piece is read meanwhile. Beyond that each holds what it has written and no more. */
export const ANSWERS_AHEAD_MAX = 32;
/** What waits so in all answers of a process, bytes; beyond it those that have waited longest are cut. */
export const ANSWERS_WAITING_BYTES_MAX = 268_435_456;
/**
 * A client that takes nothing for this long while something waits for it is cut, ms (R053). What is taken shows only in steps: a system says
 * that there is room once a third of its send buffer is free, and that buffer has up to SEND_BUFFER_BYTES.
 */
export const ANSWER_STALL_MS = 180_000;
/** Largest send buffer that Linux gives a connection by default, bytes. */
const SEND_BUFFER_BYTES = 4_194_304;
/** Clients that take so much are never cut, bytes a second. */
const TAKING_RATE = 10_240;
/** How often connections are looked at for that, ms. */
export const STALL_CHECK_MS = 2_000;
/** Small pieces of one answer are gathered to this size before they are written, bytes. */
export const GATHER_BYTES = 65_536;

/** Parts of a bootstrap that are made in one turn of the event loop, bytes. */
export const PARTS_BATCH_BYTES = 262_144;

/** JSON answers from this size on may be compressed, bytes; their tags are weak for that reason. */
export const GZIP_BYTES_MIN = 256;
/** JSON answers up to this size are compressed in one piece and keep a Content-Length, bytes. */
export const GZIP_WHOLE_MAX = 65_536;

/** Reads shorter than this are finished before a departed client could be noticed: they take no abort signal, bytes. */
export const ABORTABLE_BYTES_MIN = 262_144;

/** Grid of cacheable chunks in offset space, bytes (CINC-06). */
export const CHUNK_GRID_BYTES = 4_194_304;

/** Parts that one commit may list, and the longest list: each an id and its LF. */
export const COMMIT_PARTS_MAX = 4_096;
export const PART_ID_CHARS_MAX = 64;
export const PARTS_LIST_BYTES_MAX = COMMIT_PARTS_MAX * (PART_ID_CHARS_MAX + 1);

/** Whole request head, ms; a body has its own minimum rate. */
export const HEADERS_TIMEOUT_MS = 15_000;
/** Idle connections live longer than those of the pools in front (60 s is common), ms (R072). */
export const KEEP_ALIVE_MS = 75_000;
/** ... looked at so often, ms. */
export const IDLE_CHECK_MS = 5_000;
/** How often Node looks for slow heads, ms. */
export const CONNECTIONS_CHECK_MS = 2_000;
/** File descriptors kept back for the stores when connections are bounded (R093). */
export const DESCRIPTORS_RESERVED = 256;
/** Connections at most, whatever the process may open. */
export const CONNECTIONS_MAX = 65_536;

/** A refused upload is read and dropped for so long that the client sees the answer before the connection ends, ms. */
export const LINGER_MS = 5_000;
/** ... of a client that has nothing under way: it asked first (`Expect`), or it stalls, ms. */
export const LINGER_IDLE_MS = 200;
/** Rest of a refused body that is dropped without ending the connection, bytes. */
export const DRAIN_KEEP_ALIVE_BYTES = 65_536;

/** Most characters of a request target that are looked at; keys and parameters are far shorter. */
export const TARGET_CHARS_MAX = 8_192;

if (CHUNK_GRID_BYTES > READ_BYTES_MAX) throw new Error('a chunk has to fit into one read');
if (GZIP_BYTES_MIN > GZIP_WHOLE_MAX) throw new Error('the smallest compressed answer has to fit into one piece');
if (BODY_HELD_AT_ONCE > UPLOAD_WINDOW_BYTES) throw new Error('an upload holds no more at once than at most');
if (UPLOAD_WINDOW_BYTES > INGRESS_BYTES_MAX) throw new Error('one upload has to fit into the budget of bodies');
if ((SEND_BUFFER_BYTES / 3 / TAKING_RATE) * 1_000 + STALL_CHECK_MS > ANSWER_STALL_MS) throw new Error('a slow client has to be seen taking something');
if (STALL_CHECK_MS > ANSWER_STALL_MS) throw new Error('a stalled client has to be noticed within its time');
if (BODY_CHECK_MS > BODY_WINDOW_MS) throw new Error('a slow body has to be noticed within its window');
