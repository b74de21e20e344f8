/**
 * The one way in which a request fails (requirements section 25).
 *
 * Owns: turning whatever was thrown into an answer. Promises: the JSON error body with the error's typed headers, `no-store` and the
 * headers of every answer; HEAD without a body (HD-12); an unknown error is 500 INTERNAL, logged here and told to nobody; once a head is
 * out a failure ends the connection, so that no half answer looks whole (R081).
 */
import { ERRORS, errorBody, FirnError } from '../../../shared/protocol/errors.js';
import { unreadBytes } from './body.js';
import type { Exchange } from './exchange.js';
import { DRAIN_KEEP_ALIVE_BYTES, LINGER_IDLE_MS, LINGER_MS } from './limits.js';

/** The client left before its answer: nothing to say to anybody. */
export class ClientGone extends Error {
  constructor() {
    super('the client is gone');
    this.name = 'ClientGone';
  }
}

/** Status in the metrics of a request whose client left before its answer. */
const CLIENT_LEFT = 499;

/** Answers with an error, or cuts the connection where an answer has begun. Never throws. */
export function renderError(exchange: Exchange, thrown: unknown): void {
  const { res, deps } = exchange;
  const error = refusalOf(exchange, thrown);
  if (error === null || exchange.gone) {
    if (!res.headersSent) deps.metrics.requests.count(exchange.routeClass, CLIENT_LEFT);
    res.destroy();
    return;
  }
  if (res.headersSent) {
    deps.logger.warn({ event: 'answer-cut', code: error.code, err: thrown, route: exchange.routeClass }, 'an answer broke after its head: the connection is cut');
    res.destroy();
    return;
  }
  const headers = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];
  for (const name in error.headers) headers.push(name, error.headers[name]!);
  answer(exchange, error.status, headers, errorBody(error));
}

/** null: nobody is there to be answered. */
function refusalOf(exchange: Exchange, thrown: unknown): FirnError | null {
  if (thrown instanceof ClientGone) return null;
  if (thrown instanceof FirnError) {
    if (thrown.status === 500) logFailure(exchange, thrown);
    return thrown;
  }
  logFailure(exchange, thrown);
  return new FirnError('INTERNAL', { cause: thrown });
}

function logFailure(exchange: Exchange, thrown: unknown): void {
  exchange.deps.logger.error({ event: 'request-failed', err: thrown, route: exchange.routeClass, method: exchange.req.method }, 'a request failed');
}

/** Answers while a body may still be under way. `body` null: the status has none. */
export function answer(exchange: Exchange, status: number, headers: string[], body: Buffer | null): void {
  const { req, res } = exchange;
  const unread = unreadBytes(req);
  const asked = req.headers.expect !== undefined;
  const stalled = status === ERRORS.BODY_TOO_SLOW.status;
  if (unread === 0 || (unread <= DRAIN_KEEP_ALIVE_BYTES && !asked && !stalled)) {
    if (body === null) exchange.empty(status, headers);
    else exchange.whole(status, headers, body);
    return;
  }
  headers.push('Connection', 'close');
  if (body !== null) headers.push('Content-Length', String(body.length));
  exchange.head(status, headers);
  if (exchange.isHead || body === null) res.flushHeaders();
  else res.write(body);
  linger(exchange, asked || stalled ? LINGER_IDLE_MS : LINGER_MS);
}

/**
 * Ends the answer only when the client has sent its body or had time to read the answer: a connection that is closed with bytes unread is
 * reset, and the answer may be lost with it.
 */
function linger(exchange: Exchange, ms: number): void {
  const { req, res } = exchange;
  const timer = setTimeout(end, ms);
  function end(): void {
    clearTimeout(timer);
    req.off('end', end);
    req.off('close', end);
    res.end();
  }
  req.on('end', end);
  req.on('close', end);
  req.resume();
}
