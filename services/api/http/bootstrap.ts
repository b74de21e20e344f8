/**
 * `GET …/bootstrap`: snapshot and what follows, in one answer (requirements section 21).
 *
 * Promises: the parts of one moment, in order, streamed, with a turn for everybody else after each batch of them; an answer that cannot be
 * finished is cut, never closed as if whole (R081).
 */
import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { isJson, OCTET_STREAM } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { multipartEnd, multipartType, newBoundary, partHead, PART_TAIL } from '../../../shared/protocol/multipart.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { BootstrapRead } from '../log/types.js';
import { departure, resumed, writePieces } from './answer-body.js';
import type { Exchange } from './exchange.js';
import { PARTS_BATCH_BYTES } from './limits.js';
import { namesParameter } from './query.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';

/** Most snapshots that may overtake one answer before it gives up. */
const SUPERSEDED_MAX = 10;

export async function getBootstrap(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'bootstrap';
  if (namesParameter(route.query, 'live')) throw new FirnError('INVALID_QUERY', { detail: 'a bootstrap is no live read' });
  for (let attempt = 0; ; attempt++) {
    try {
      await answer(exchange, await exchange.deps.log.bootstrap(route.key!, preconditionOf(exchange.req.headers)));
      return;
    } catch (error) {
      // A newer snapshot took the place of the one that was just found: the next look finds that (BOOT-26).
      const superseded = error instanceof FirnError && error.code === 'SNAPSHOT_NOT_FOUND' && !exchange.res.headersSent;
      if (!superseded || attempt >= SUPERSEDED_MAX) throw error;
    }
  }
}

async function answer(exchange: Exchange, read: BootstrapRead): Promise<void> {
  const boundary = newBoundary(randomBytes);
  const headers = [
    'Content-Type', multipartType(boundary), 'Stream-Snapshot-Offset', read.snapshot === null ? '-1' : formatOffset(read.snapshot.snapshot.offset),
    'Stream-Next-Offset', formatOffset(read.end), 'Stream-Incarnation', String(read.record.incarnation), 'Cache-Control', 'no-store',
  ];
  if (read.upToDate) headers.push('Stream-Up-To-Date', 'true');
  if (read.closed) headers.push('Stream-Closed', 'true');
  if (exchange.isHead) {
    exchange.empty(200, headers);
    return;
  }
  const source = parts(read, boundary, departure(exchange.res));
  // The first bytes of a snapshot are in hand before the head is out, so that a missing body is an error and no broken answer.
  const opening = await opened(source);
  exchange.head(200, headers);
  await writePieces(exchange.res, resumed(opening, source, null));
  exchange.res.end();
}

/** Head of the first part and its first bytes. */
async function opened(source: AsyncIterator<Buffer>): Promise<Buffer[]> {
  const taken: Buffer[] = [];
  for (let i = 0; i < 2; i++) {
    const { done, value } = await source.next();
    if (done === true) break;
    taken.push(value);
  }
  return taken;
}

async function* parts(read: BootstrapRead, boundary: string, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const { snapshot, record } = read;
  yield partHead(boundary, snapshot === null ? OCTET_STREAM : snapshot.snapshot.contentType);
  if (snapshot !== null && snapshot.snapshot.bytes > 0) yield* exactly(snapshot.body(0, snapshot.snapshot.bytes, signal), snapshot.snapshot.bytes);
  yield PART_TAIL;
  if (read.end > read.start) {
    const updates = exactly(read.parts(signal), read.end - read.start);
    const head = partHead(boundary, record.contentType);
    if (isJson(record.contentType)) {
      yield* batched(updates, head);
    } else {
      yield head;
      yield* updates;
      yield PART_TAIL;
    }
  }
  yield multipartEnd(boundary);
}

/** One part a message, many parts a piece: messages may be a few bytes, and come without a wait between them. */
async function* batched(messages: AsyncIterable<Buffer>, head: Buffer): AsyncGenerator<Buffer, void, undefined> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const message of messages) {
    held.push(head, message, PART_TAIL);
    bytes += head.length + message.length + PART_TAIL.length;
    if (bytes < PARTS_BATCH_BYTES) continue;
    yield Buffer.concat(held, bytes);
    held = [];
    bytes = 0;
    await turn();
  }
  if (bytes > 0) yield Buffer.concat(held, bytes);
}

async function* exactly(source: AsyncIterable<Buffer>, length: number): AsyncGenerator<Buffer, void, undefined> {
  let given = 0;
  for await (const piece of source) {
    given += piece.length;
    yield piece;
  }
  if (given !== length) throw new Error(`${given} bytes of a bootstrap, not ${length}`);
}
