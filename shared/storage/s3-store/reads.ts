/**
 * Reading an object: ranges as a stream that survives cuts.
 *
 * Owns: the way from a range to exactly its bytes (I9). Promises: a body that ends early, whatever its status said, is never the end: it goes on where it broke off
 * until the deadline; the size of an object is taken from `Content-Range`, not from the length of an answer; a reader that leaves or rests holds no socket; where the head of an answer is
 * late, a second GET is made beside the first (`hedge`).
 */
import type { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { ObjectDamaged, ObjectMissing, type ByteRange } from '../object-store.js';
import { TryFailed, type AnswerKind } from './failures.js';
import { READER_IDLE_MS } from './limits.js';
import type { Kind, Requests, Try } from './requests.js';
import { Answered, type Retries } from './retries.js';

/** A GET has no condition and no upload: an answer about one is not the store's word on the object, which is not called missing for it (I9). */
const ANSWERS: readonly AnswerKind[] = ['missing', 'beyond'];

interface Wanted {
  readonly kind: Kind;
  readonly key: string;
  readonly from: number;
  /** null: to the end of the object. */
  readonly end: number | null;
  /** What an earlier answer said of the whole object's length. */
  readonly total: number | null;
}

interface OpenBody {
  /** Bytes of the whole object. */
  readonly total: number;
  /** To be read to its end or left. */
  readonly pieces: AsyncIterable<Buffer>;
  /** Ends it unread. */
  discard(): void;
}

/** Bytes of a range, or of the whole object. Throws `ObjectMissing`, `ObjectDamaged`, `StoreUnavailable`, the signal's reason. */
export async function* readObject(requests: Requests, kind: 'stream' | 'read', key: string, range: ByteRange | undefined, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  const retries = requests.retries(`get ${key}`, signal, { answers: ANSWERS });
  let from = range?.from ?? 0;
  let end = range === undefined ? null : range.from + range.length;
  let total: number | null = null;
  while (from !== end) {
    try {
      const body = await openEither(requests, retries, { kind, key, from, end, total }, signal);
      total = body.total;
      end ??= total;
      for await (const piece of body.pieces) {
        from += piece.length;
        retries.progressed(piece.length);
        const givenMs = performance.now();
        yield piece;
        retries.rested(performance.now() - givenMs);
      }
    } catch (error) {
      if (from !== end && !(await goesOn(retries, error, { kind, key, from, end, total }))) return;
    }
  }
}

/** Size in bytes, null when missing. A GET and not a HEAD, whose answer cannot tell an object that is missing from a bucket that is. */
export async function sizeOf(requests: Requests, key: string, signal: AbortSignal | undefined): Promise<number | null> {
  const retries = requests.retries(`size of ${key}`, signal, { answers: ANSWERS });
  try {
    return await retries.run(async () => {
      const body = await openBody(requests, retries, { kind: 'other', key, from: 0, end: 1, total: null }, signal);
      for await (const _ of body.pieces);
      return body.total;
    });
  } catch (error) {
    if (!(error instanceof Answered)) throw error;
    return error.kind === 'beyond' ? 0 : null;
  }
}

/** Waits for another try; false: there is nothing to read. Throws what the operation came to, in the words of the seam. */
async function goesOn(retries: Retries, error: unknown, { key, from, end }: Wanted): Promise<boolean> {
  try {
    await retries.after(error);
    return true;
  } catch (final) {
    if (!(final instanceof Answered)) throw final;
    if (final.kind !== 'beyond') throw new ObjectMissing(key);
    // An object without a first byte is an empty one.
    if (from === 0 && end === null) return false;
    throw new ObjectDamaged(key, `has no byte ${from}`);
  }
}

function openEither(requests: Requests, retries: Retries, wanted: Wanted, signal: AbortSignal | undefined): Promise<OpenBody> {
  return requests.hedges.race({
    ask: (quit) => openBody(requests, retries, wanted, signal, quit),
    discard: (late) => late.discard(),
    hasRoom: () => requests.hasRoom(wanted.kind),
  });
}

function openBody(requests: Requests, retries: Retries, wanted: Wanted, signal: AbortSignal | undefined, quit?: AbortSignal): Promise<OpenBody> {
  const { kind, key, from, end } = wanted;
  return requests.once(kind, retries, signal, async (own) => {
    const range = `bytes=${from}-${end === null ? '' : end - 1}`;
    const askedMs = performance.now();
    const out = await requests.client.send(new GetObjectCommand({ ...requests.at(key), Range: range }), { abortSignal: own.watch.signal });
    requests.hedges.answered(performance.now() - askedMs);
    const body = out.Body as Readable;
    try {
      const { last, total } = placeOf(wanted, out.ContentRange);
      own.keep();
      const discard = (): void => {
        body.destroy();
        own.end();
      };
      return { total, pieces: piecesOf(body, last + 1 - from, own), discard };
    } catch (error) {
      body.destroy();
      throw error;
    }
  }, quit);
}

/** Last byte of an answer and bytes of the whole object, checked against what was asked for. */
function placeOf({ key, from, end, total: before }: Wanted, told: string | undefined): { readonly last: number; readonly total: number } {
  const [, first, last, total] = (/^bytes (\d+)-(\d+)\/(\d+)$/.exec(told ?? '') ?? []).map(Number);
  if (first === undefined || last === undefined || total === undefined) throw new TryFailed(`the answer to a range says "${told ?? 'nothing'}"`);
  if (total < (end ?? 0) || total !== (before ?? total)) throw new ObjectDamaged(key, `${total} bytes long where ${before ?? end} were expected`);
  if (first !== from || last !== (end ?? total) - 1) throw new TryFailed(`bytes from ${from} to ${end ?? total} were asked for, the answer has ${told}`);
  return { last, total };
}

async function* piecesOf(body: Readable, bytes: number, own: Try): AsyncGenerator<Buffer> {
  const { watch } = own;
  // The reader may be resting and not come back for long: the place goes with the connection.
  const cut = (): void => {
    body.destroy(watch.signal.reason as Error);
    own.end();
  };
  let seen = 0;
  try {
    watch.signal.addEventListener('abort', cut, { once: true });
    for await (const piece of body as AsyncIterable<Buffer>) {
      seen += piece.length;
      if (seen > bytes) break;
      watch.arrived(piece.length);
      watch.allow(READER_IDLE_MS, 'the reader took nothing');
      yield piece;
      watch.goOn();
    }
    if (seen !== bytes) throw new TryFailed(`the body ended at byte ${seen} of ${bytes}`);
  } catch (error) {
    throw watch.signal.aborted ? watch.signal.reason : error;
  } finally {
    watch.signal.removeEventListener('abort', cut);
    body.destroy();
    own.end();
  }
}
