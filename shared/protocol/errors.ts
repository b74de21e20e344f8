/**
 * Every refusal of the protocol: code, status and sentence (requirements section 25).
 *
 * Owns: the one table from code to answer, and the error class that carries a refusal through the layers. Promises: a code's status
 * never depends on where it was thrown; a message of a status other than 4xx is the table's sentence and names nothing else (ERR-04);
 * every 503 carries `Retry-After` (ERR-07, WO-07).
 *
 * Callers put into `detail` only what the request itself named: never bytes of a body, never a credential (ERR-05).
 */

interface ErrorEntry {
  readonly status: number;
  readonly sentence: string;
  /** Seconds in `Retry-After`; absent: no such header. */
  readonly retryAfter?: number;
}

/** Seconds after which a refused request may be tried again. */
const RETRY_AFTER_S = 1;

function refusal(status: number, sentence: string): ErrorEntry {
  return status === 503 ? { status, sentence, retryAfter: RETRY_AFTER_S } : { status, sentence };
}

const TABLE = {
  INVALID_BUCKET_ID: refusal(400, 'a bucket id has 4 to 64 of a-z, 0-9, "_" and "-", and does not begin with "__"'),
  INVALID_STREAM_ID: refusal(400, 'this is not a valid stream id'),
  MISSING_CONTENT_TYPE: refusal(400, 'a body needs a Content-Type header'),
  EMPTY_APPEND: refusal(400, 'an append holds no data'),
  INVALID_PRODUCER: refusal(400, 'the producer headers are not valid'),
  PRODUCER_DIGEST_MISMATCH: refusal(400, 'Producer-Digest is not the digest of the body'),
  INVALID_RECORD_BOUNDARIES: refusal(400, 'the body is not one valid JSON text'),
  INVALID_REQUEST: refusal(400, 'the request is not valid'),
  INVALID_HEADER: refusal(400, 'a header of the request is not valid'),
  INVALID_QUERY: refusal(400, 'a query parameter of the request is not valid'),
  INVALID_OFFSET: refusal(400, 'the offset is not valid'),
  QUERY_NOT_ACCEPTED: refusal(400, 'this resource takes no query'),
  INVALID_RESOURCE: refusal(400, 'the path does not name a valid resource'),
  BODY_UNREADABLE: refusal(400, 'the body could not be read'),
  NOT_JSON_BOUNDARY: refusal(400, 'the offset is not a message boundary'),
  INVALID_PARTS_COMMIT: refusal(400, 'the list of snapshot parts is not valid'),
  UNKNOWN_PART: refusal(400, 'a listed snapshot part is not staged'),
  SNAPSHOT_DIGEST_MISMATCH: refusal(400, 'Stream-Snapshot-Digest is not the digest of the snapshot'),

  WEBHOOK_URL_REJECTED: refusal(400, 'a webhook may not lead there'),

  TOKEN_INVALID: refusal(401, 'this needs the bearer token of the wake'),
  TOKEN_EXPIRED: refusal(401, 'the token has expired'),

  PRODUCER_EPOCH_CLOSED: refusal(403, 'a newer epoch of this producer has closed the epoch of this write'),
  PRODUCER_EXPIRED: refusal(403, 'the state of this producer has been forgotten'),
  PRODUCER_EPOCH_STALE: refusal(403, 'the epoch of this write is older than the producer\'s current epoch'),
  PRODUCER_KEY_CONFLICT: refusal(403, 'this epoch and sequence number belong to a write with another digest'),

  BUCKET_ERASED: refusal(404, 'the bucket has been erased'),
  STREAM_NOT_FOUND: refusal(404, 'there is no such stream'),
  SNAPSHOT_NOT_FOUND: refusal(404, 'there is no snapshot at this offset'),
  SUBSCRIPTION_NOT_FOUND: refusal(404, 'there is no such subscription'),
  NOT_FOUND: refusal(404, 'there is nothing at this path'),
  METHOD_NOT_ALLOWED: refusal(405, 'this resource does not take this method'),
  BODY_TOO_SLOW: refusal(408, 'the body arrived too slowly'),

  STREAM_ALREADY_EXISTS_CONFLICT: refusal(409, 'a stream with another configuration is there already'),
  CONTENT_TYPE_MISMATCH: refusal(409, 'the stream has another content type'),
  STREAM_CLOSED: refusal(409, 'the stream is closed'),
  STREAM_SEQ_CONFLICT: refusal(409, 'Stream-Seq is not above the last one'),
  PRODUCER_SEQ_CONFLICT: refusal(409, 'Producer-Seq is not the next one'),
  FORK_SOURCE_GONE: refusal(409, 'the source of the fork does not hold what the fork would inherit'),
  SNAPSHOT_CONFLICT: refusal(409, 'this conflicts with the snapshot or the tail of the stream'),
  SUBSCRIPTION_ALREADY_EXISTS: refusal(409, 'a subscription with another configuration is there already'),
  FENCED: refusal(409, 'this wake is not the current one'),
  ALREADY_CLAIMED: refusal(409, 'another worker holds the lease'),
  NO_PENDING_WORK: refusal(409, 'nothing is pending'),
  STREAM_GONE: refusal(410, 'the stream, or this part of it, is gone'),
  INCARNATION_MISMATCH: refusal(412, 'the stream has another incarnation'),
  REQUEST_TOO_LARGE: refusal(413, 'the body is above the limit of a request'),
  SNAPSHOT_TOO_LARGE: refusal(413, 'the body is above the limit of a snapshot'),
  OFFSET_OUT_OF_RANGE: refusal(416, 'the offset lies beyond the tail of the stream'),
  RANGE_NOT_SATISFIABLE: refusal(416, 'the byte range lies outside the snapshot'),
  EXPECTATION_FAILED: refusal(417, 'the only expectation that can be met is 100-continue'),
  PRODUCER_LIMIT: refusal(429, 'the stream has as many producers as it can hold'),
  STAGED_PARTS_LIMIT: refusal(429, 'the stream has as many staged snapshot parts as it can hold'),
  SUBSCRIPTION_LIMIT: refusal(429, 'there are as many subscriptions or links as this server can hold'),
  RATE_LIMITED: { status: 429, sentence: 'too many requests', retryAfter: RETRY_AFTER_S },

  INTERNAL: refusal(500, 'the server failed'),
  NO_COLD_STORE: refusal(501, 'this server has no cold store'),
  COLD_STORE_FAILED: refusal(502, 'the cold store failed'),

  NO_LEADER: refusal(503, 'no server leads this stream yet'),
  OUTCOME_UNKNOWN: refusal(503, 'whether this write was applied is not known'),
  JSON_BOUNDARY_UNVERIFIED: refusal(503, 'the message boundary could not be checked now'),
  SNAPSHOT_COMMITS_BUSY: refusal(503, 'too many snapshots are being committed'),
  SNAPSHOT_COMMIT_IN_PROGRESS: refusal(503, 'a snapshot of this stream is being committed'),
  WAL_DISK_PRESSURE: refusal(503, 'the disk is too full to take writes'),
  INGRESS_BODY_BYTES_LIMIT_REACHED: refusal(503, 'too many request bodies are being received'),
  COLD_BACKPRESSURE: refusal(503, 'the cold store is too far behind to take writes'),
  LIVE_READ_BACKPRESSURE: refusal(503, 'too many live reads are open'),
  APPLY_STOPPED: refusal(503, 'writes have stopped for this stream'),
  GROUP_RESTARTING: refusal(503, 'this part of the server is restarting'),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof TABLE;

/** Code -> status, sentence and `Retry-After`. Codes and statuses are those of Ursula where it has one (ERR-12), the sentences are ours. */
export const ERRORS: Readonly<Record<ErrorCode, ErrorEntry>> = TABLE;

export interface FirnErrorOptions {
  /** What was wrong, in words of the request; shown to the client with a 4xx, otherwise for the log only. */
  readonly detail?: string;
  /** Typed headers of the answer, besides `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further members of the error object in the body. */
  readonly members?: Readonly<Record<string, string | number>>;
  readonly cause?: unknown;
}

/** A refusal. `message` is what the client may see; `detail` may say more to the log. */
export class FirnError extends Error {
  override readonly name = 'FirnError';
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly detail: string | null;
  readonly members: Readonly<Record<string, string | number>>;

  constructor(readonly code: ErrorCode, options: FirnErrorOptions = {}) {
    const entry = ERRORS[code];
    const shown = entry.status < 500 && options.detail !== undefined ? options.detail : entry.sentence;
    super(shown, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = entry.status;
    this.detail = options.detail ?? null;
    this.members = options.members ?? {};
    this.headers = entry.retryAfter === undefined ? { ...options.headers } : { 'Retry-After': String(entry.retryAfter), ...options.headers };
  }
}

/** The JSON body of an error answer and of an SSE error event: one line, without an LF at its end (ERR-01, SSE-19). */
export function errorBody(error: FirnError): Buffer {
  return Buffer.from(JSON.stringify({ error: { code: error.code, message: error.message, ...error.members } }));
}
