/**
 * Limits of the S3 store, each with its unit and its relation to the others (I11).
 */

/** Longest wait for a connection, ms. */
export const CONNECT_MS = 4_000;
/** A try in which no byte moved for this long, in either direction, is given up, ms (R033). */
export const STALL_MS = 8_000;
/** No further try of an operation begins after this long without progress, ms; readers wait 30 s. */
export const OPERATION_MS = 20_000;
/** An upload may take this much longer for each of its bytes: the slowest line that still counts as working, bytes per second. */
export const UPLOAD_BYTES_PER_SECOND_MIN = 262_144;
/** An answer that brings fewer bytes a second than this, for as long as a try may stand still, counts as standing still: well below what a slow line gives each of `SOCKETS_MAX`. */
export const ANSWER_BYTES_PER_SECOND_MIN = 16_384;
/** What the system may still hold of an upload when its last byte was handed over, bytes. */
export const SEND_BUFFER_BYTES_MAX = 4_194_304;
/** Wait before a further try, ms: first and longest; each is spread over its whole length. */
export const RETRY_MS = 50;
export const RETRY_MAX_MS = 2_000;

/** Credentials that the server refuses are asked for anew at most this often, ms. */
export const RENEW_MS = 1_000;

/** A second GET follows a first one without an answer after the 99th percentile of the waits of late, but never sooner than this, ms. */
export const HEDGE_WAIT_MS_MIN = 50;
/** Share of GETs that may get a second one, and how many may be saved up. */
export const HEDGE_SHARE = 0.05;
export const HEDGE_CREDIT_MAX = 8;
/** Waits that the percentile is taken of, the newest ones, and how many have to come before it is taken (again). */
export const HEDGE_SAMPLES = 1_024;
export const HEDGE_SAMPLES_MIN = 128;

/**
 * Requests under way at a time. Streams follow whoever reads them, who may be slow, so they are apart: they never hold up a cold read, and neither of them a seal.
 */
export const STREAMS_MAX = 64;
export const READS_MAX = 32;
export const OTHERS_MAX = 16;
export const SOCKETS_MAX = STREAMS_MAX + READS_MAX + OTHERS_MAX;
/** A reader that takes nothing for this long gives its connection back, ms; it goes on where it was when it comes again. */
export const READER_IDLE_MS = 3_000;

/** Part of a multipart upload, bytes: held in memory. S3 allows 5 MiB to 5 GiB, and 10,000 parts. */
export const PART_BYTES = 16_777_216;
/** Keys of one page of a listing: the most that S3 gives. */
export const LIST_PAGE = 1_000;
/** Bytes handed to a connection at a time, so that a stalled upload is seen. */
export const UPLOAD_PIECE_BYTES = 262_144;

if (CONNECT_MS > STALL_MS) throw new Error('a connection has to be given up before the try that waits for it');
if (HEDGE_WAIT_MS_MIN >= STALL_MS) throw new Error('a second GET has to come before the first one is given up');
if (OPERATION_MS < 2 * STALL_MS) throw new Error('there has to be time for a second try after one that stalled');
