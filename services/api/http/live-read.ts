/**
 * Live reads over HTTP: long-poll and SSE (requirements sections 8 to 10).
 *
 * Owns: their heads, and the answers of a long-poll. Promises: whatever is wrong with a request is a plain HTTP answer before a live
 * answer begins (SSE-03, LP-14); an offset behind the request's is never given.
 */
import { answerCursor } from '../../../shared/protocol/cursor.js';
import { JSON_TYPE, NDJSON } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { LiveGate } from '../live/gate.js';
import { SseHub, type HubTimes } from '../live/hub.js';
import { LongPolls, type Wake } from '../live/long-poll.js';
import { representationOf, type Representation } from '../live/representation.js';
import type { LiveHandle, Precondition } from '../log/types.js';
import type { HttpDeps } from './deps.js';
import { ClientGone } from './errors.js';
import type { Exchange } from './exchange.js';
import type { ReadQuery } from './query.js';
import type { Route } from './routes.js';
import { answerWindow, cutOf } from './window.js';

export class LiveReads {
  readonly gate: LiveGate;
  readonly hub: SseHub;
  readonly polls = new LongPolls();
  readonly #readers = new Map<StreamKey, number>();
  #ending = false;

  constructor(deps: HttpDeps, options: { readonly times?: Partial<HubTimes>; readonly readersMax?: number } = {}) {
    this.gate = new LiveGate(options.readersMax);
    this.hub = new SseHub({
      now: deps.now, random: deps.random, cut: deps.metrics.liveReadersCut, times: options.times,
      onFailure: (error) => deps.logger.error({ event: 'live-read-failed', err: error }, 'a live read failed'),
    });
  }

  /** Live readers connected to a stream now. */
  readersOf(key: StreamKey): number {
    return this.#readers.get(key) ?? 0;
  }

  /** Takes a reader in. Returns what lets it go again. Throws LIVE_READ_BACKPRESSURE. */
  #enter(exchange: Exchange, kind: 'long-poll' | 'sse', key: StreamKey): () => void {
    const gauge = exchange.deps.metrics.liveReaders[kind];
    this.gate.enter();
    gauge.add(1);
    this.#readers.set(key, this.readersOf(key) + 1);
    return () => {
      this.gate.leave();
      gauge.add(-1);
      const left = this.readersOf(key) - 1;
      if (left === 0) this.#readers.delete(key);
      else this.#readers.set(key, left);
    };
  }

  /** Ends all of them, with what tells the client where to go on. */
  shutdown(): void {
    this.#ending = true;
    this.polls.shutdown();
    this.hub.shutdown();
  }

  close(): void {
    this.hub.close();
  }

  async open(exchange: Exchange, route: Route, query: ReadQuery, precondition: Precondition): Promise<void> {
    const kind = query.live!;
    exchange.routeClass = kind;
    const leave = this.#enter(exchange, kind, route.key!);
    let handle: LiveHandle | null = null;
    let handedOver = false;
    try {
      const opened = await exchange.deps.log.openLive(route.key!, precondition, query.offset!, cutOf(route.dialect));
      handle = opened.handle;
      if (exchange.gone) throw new ClientGone();
      if (kind === 'sse') {
        this.#openSse(exchange, route, query, precondition, handle, opened.start, leave);
        handedOver = true;
        return;
      }
      await this.#longPoll(exchange, route, query, precondition, handle, opened.start);
    } finally {
      if (!handedOver) {
        try {
          handle?.close();
        } finally {
          leave();
        }
      }
    }
  }

  async #longPoll(exchange: Exchange, route: Route, query: ReadQuery, precondition: Precondition, handle: LiveHandle, start: Offset): Promise<void> {
    const { deps, res } = exchange;
    const opened = live(handle);
    if (opened.tail === start && !opened.closed) {
      const wake = await this.polls.wait(handle, start, query.timeoutMs, res);
      refuseWake(wake, precondition);
    }
    const record = live(handle);
    const cursor = answerCursor(query.cursor, deps.now(), deps.random);
    if (record.tail === start) {
      exchange.empty(204, this.#nothingNew(record, cursor));
      return;
    }
    const window = await handle.read(start, query.maxBytes, cutOf(route.dialect));
    await answerWindow(exchange, route.dialect, window, { cursor, positional: query.offset !== 'now', revalidate: false });
  }

  /** LP-04, LP-06: never an offset behind the request's, since the tail is where the request stands. */
  #nothingNew(record: StreamRecord, cursor: string): string[] {
    const headers = ['Stream-Next-Offset', formatOffset(record.tail), 'Stream-Incarnation', String(record.incarnation), 'Stream-Up-To-Date', 'true', 'Cache-Control', 'no-store'];
    if (record.closed) headers.push('Stream-Closed', 'true');
    else headers.push('Stream-Cursor', cursor);
    if (this.#ending) headers.push('Connection', 'close');
    return headers;
  }

  #openSse(exchange: Exchange, route: Route, query: ReadQuery, precondition: Precondition, handle: LiveHandle, start: Offset, leave: () => void): void {
    const { res } = exchange;
    const record = live(handle);
    const representation = representationOf(record.contentType, route.dialect);
    exchange.head(200, sseHeaders(record, representation));
    res.flushHeaders();
    this.hub.add({
      handle, start, representation, maxBytes: query.maxBytes, cursor: query.cursor, withToken: precondition !== null, res, onOver: leave,
    });
  }
}

function sseHeaders(record: StreamRecord, representation: Representation): string[] {
  const dataType = representation === 'ndjson' ? NDJSON : representation === 'array' ? JSON_TYPE : record.contentType;
  const headers = [
    'Content-Type', 'text/event-stream', 'Cache-Control', 'no-cache, no-store, no-transform', 'X-Accel-Buffering', 'no',
    'Stream-Incarnation', String(record.incarnation), 'Stream-Data-Content-Type', dataType,
  ];
  if (representation === 'base64') headers.push('Stream-Sse-Data-Encoding', 'base64');
  return headers;
}

/** The stream as it is; it may have gone while the request was on its way. */
function live(handle: LiveHandle): StreamRecord {
  const { record } = handle;
  if (record === null) throw new FirnError('STREAM_NOT_FOUND');
  return record;
}

/** A long-poll without the precondition sees a recreated stream as gone, so that two incarnations are never spliced (DEL-07, INC-18). */
function refuseWake(wake: Wake, precondition: Precondition): void {
  if (wake.kind === 'left') throw new ClientGone();
  if (wake.kind === 'recreated' && precondition !== null) {
    throw new FirnError('INCARNATION_MISMATCH', { headers: { 'Stream-Incarnation': String(wake.incarnation) } });
  }
  if (wake.kind === 'gone' || wake.kind === 'recreated') throw new FirnError('STREAM_NOT_FOUND');
}
