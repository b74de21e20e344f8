/**
 * Limits of subscriptions, each with its unit and its relation to the others (I11).
 */

/** Subscriptions of one node; beyond it 429 SUBSCRIPTION_LIMIT. */
export const SUBSCRIPTIONS_MAX = 10_000;
/** Streams that one subscription names itself, beside what its pattern matches. */
export const EXPLICIT_LINKS_MAX = 5_000;
/** Links of all subscriptions through patterns: eight bytes of memory each. */
export const GLOB_LINKS_MAX = 20_000_000;
/** Streams that some subscription is linked to, in memory. */
export const LINKED_STREAMS_MAX = 500_000;

/** Cursors in one row, about, when a subscription is made; */
export const PAGE_LINKS = 256;
/** ... and cursors that move at once from which whole pages are written instead of a row each: rows cost more than bytes. */
export const PAGED_FROM = 64;

/** Links and cursors that go into one log record, about: a subscription goes whole. */
export const BATCH_LINKS_MAX = 262_144;
/** Rows written in one batch that say what the log holds. */
export const LOGGED_ROWS_AT_ONCE = 1_000;

/** Bytes of UTF-8 of a subscription's id. */
export const ID_BYTES_MAX = 256;
/** Characters of a pattern, a description, a worker's name. */
export const PATTERN_CHARS_MAX = 512;
export const DESCRIPTION_CHARS_MAX = 2_048;
export const WORKER_CHARS_MAX = 256;
/** Segments of a pattern. */
export const PATTERN_SEGMENTS_MAX = 64;
/** Bytes of the body of a request to these routes. */
export const BODY_BYTES_MAX = 1_048_576;
/** Acks in one request. */
export const ACKS_MAX = 10_000;

export const LEASE_MS_MIN = 1_000;
export const LEASE_MS_MAX = 600_000;
export const LEASE_MS_DEFAULT = 30_000;
/** A token is good for so long, ms, while its wake lasts. */
export const TOKEN_MS = 86_400_000;
/** Characters of a token that are looked at. */
export const TOKEN_CHARS_MAX = 2_048;

/** A subscription of up to so many links shows all of them in a wake; a larger one only those with something pending, */
export const WAKE_LINKS_WHOLE = 100;
/** ... and at most so many; the rest comes with the next wake. */
export const WAKE_LINKS_MAX = 1_000;

/** Deliveries under way at a time, in all and to one origin. */
export const DELIVERIES_MAX = 256;
export const DELIVERIES_PER_ORIGIN = 64;
/** Deliveries that may start within PACE_MS, ms: while the event loop was busy for less than BUSY_SHARE of the time before, and while it was busier. Appends go first. */
export const PACE_MS = 20;
export const STARTS_MAX = 16;
export const STARTS_WHEN_BUSY = 2;
export const BUSY_SHARE = 0.8;
/** A delivery that no worker took up after so long is made by the node itself, ms; */
export const TAKE_MS = 1_000;
/** ... and so are all others for so long after that, ms: then workers are asked again. */
export const HERE_MS = 10_000;
/** A worker that took a delivery up has so long beyond its deadline to tell of the outcome, ms. */
export const REPORT_MS = 3_000;
/** Deliveries under way have so long to end when the node stops, ms. */
export const STOP_MS = 2_000;

/** Back-off of failed deliveries: the first gap, the largest, and the share by which each may be shorter or longer (SUB-36). */
export const RETRY_MS_MIN = 1_000;
export const RETRY_MS_MAX = 60_000;
export const RETRY_JITTER = 0.2;

/** Looks for what is to be done again after a failed batch, ms apart. */
export const TICK_MS = 1_000;
/** Looks over all streams for what was missed, ms apart. */
export const SCAN_MS = 300_000;
/** Streams read at a time by such a look. */
export const SCAN_READS = 64;
/** A deleted subscription's generation is remembered so long, ms: longer than any token of it is good. */
export const END_KEPT_MS = 7 * 86_400_000;
/** Rows deleted in one batch. */
export const DELETED_ROWS_AT_ONCE = 1_000;

/** A signing key is replaced after so long, ms; its public part is shown for so long after that (P6.5, P7.1: replay windows are minutes). */
export const SIGNING_KEY_MS = 90 * 86_400_000;
export const RETIRED_KEY_MS = 86_400_000;
/** Keys on record. A rotation beyond it is refused until an old one is out of its time. */
export const SIGNING_KEYS_MAX = 16;

if (DELIVERIES_PER_ORIGIN > DELIVERIES_MAX) throw new Error('one origin takes no more than all');
if (TOKEN_MS >= END_KEPT_MS) throw new Error('a token has to end before the generation that fences it is forgotten');
if (LEASE_MS_MAX >= TOKEN_MS) throw new Error('a token has to outlast a lease');
if (HERE_MS <= TAKE_MS) throw new Error('a queue without workers is asked less often than it is waited for');
