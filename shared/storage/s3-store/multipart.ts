/**
 * Large bodies from a stream, under names that are never used twice (architecture section 7, R039, R041).
 *
 * Owns: one multipart upload from its first part to its end. Promises: at most one part is in memory; whatever goes wrong, cancellation included, the upload is
 * aborted, as far as the store can be reached. What a killed process leaves is found by `leftovers`.
 */
import { AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand, UploadPartCommand, type CompletedPart } from '@aws-sdk/client-s3';
import { StoreUnavailable } from '../object-store.js';
import { bodyHash, signedHash } from './body-hash.js';
import { TryFailed } from './failures.js';
import { PART_BYTES } from './limits.js';
import { sizeOf } from './reads.js';
import type { Requests } from './requests.js';
import { Answered } from './retries.js';
import { bodyOf, uploadMs, type Encryption } from './writes.js';

/** As the server's commands want it. */
interface UploadPlace {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string;
}

export class MultipartUpload {
  readonly #parts: CompletedPart[] = [];

  private constructor(
    private readonly requests: Requests,
    private readonly key: string,
    private readonly id: string,
    private readonly signal: AbortSignal | undefined,
  ) {}

  static async begin(requests: Requests, key: string, encryption: Encryption, signal: AbortSignal | undefined): Promise<MultipartUpload> {
    const id = await requests.run(`begin the upload of ${key}`, signal, async ({ watch }) => {
      const { UploadId: told } = await requests.client.send(new CreateMultipartUploadCommand({ ...requests.at(key), ...encryption }), { abortSignal: watch.signal });
      if (told === undefined) throw new TryFailed('the answer names no upload');
      return told;
    });
    return new MultipartUpload(requests, key, id, signal);
  }

  get #at(): UploadPlace {
    return { ...this.requests.at(this.key), UploadId: this.id };
  }

  async add(parts: readonly Buffer[], bytes: number): Promise<void> {
    const { requests, signal } = this;
    const hash = await bodyHash(parts);
    const number = this.#parts.length + 1;
    const retries = requests.retries(`put part ${number} of ${this.key}`, signal, { extraMs: uploadMs(bytes), answers: ['no-upload'] });
    const etag = await retries.run(() => requests.once('other', retries, signal, async (own) => {
      const command = new UploadPartCommand({ ...this.#at, PartNumber: number, ContentLength: bytes, Body: bodyOf({ parts, bytes }, own) });
      command.middlewareStack.add(signedHash(hash), { step: 'build', name: 'signedHash' });
      const { ETag: told } = await requests.client.send(command, { abortSignal: own.watch.signal });
      if (told === undefined) throw new TryFailed('the answer names no part');
      return told;
    })).catch((error: unknown) => {
      throw this.#inWords(error);
    });
    this.#parts.push({ PartNumber: number, ETag: etag });
  }

  /** The object is there, whole, when this resolves. */
  async complete(bytes: number): Promise<void> {
    const { requests, signal } = this;
    const command = { ...this.#at, MultipartUpload: { Parts: this.#parts } };
    try {
      await requests.run(`end the upload of ${this.key}`, signal, async ({ watch }) => {
        const { ETag: told } = await requests.client.send(new CompleteMultipartUploadCommand(command), { abortSignal: watch.signal });
        if (told === undefined) throw new TryFailed('the answer names no object');
      }, ['no-upload']);
    } catch (error) {
      // The answer of an earlier try was lost: the upload is gone because it became the object, whose name nobody else uses.
      if (error instanceof Answered && (await sizeOf(requests, this.key, signal)) === bytes) return;
      throw this.#inWords(error);
    }
  }

  /** An upload that somebody aborted cannot go on; another one under another name can. */
  #inWords(error: unknown): unknown {
    return error instanceof Answered ? new StoreUnavailable(`the upload of ${this.key} is gone: ${error.message}`) : error;
  }

  /** Even when the caller's signal has fired. Never throws. */
  async abort(): Promise<void> {
    await abortUpload(this.requests, this.#at, undefined).catch(() => false);
  }
}

/** false: it was gone. */
export async function abortUpload(requests: Requests, at: UploadPlace, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    await requests.run(`abort the upload of ${at.Key}`, signal, ({ watch }) => requests.client.send(new AbortMultipartUploadCommand(at), { abortSignal: watch.signal }), ['no-upload']);
    return true;
  } catch (error) {
    if (error instanceof Answered) return false;
    throw error;
  }
}

/** Groups a stream into parts of `PART_BYTES`; the last one is what remains. */
export async function* partsOf(body: AsyncIterable<Buffer>): AsyncGenerator<{ readonly parts: readonly Buffer[]; readonly bytes: number }> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (let piece of body) {
    while (bytes + piece.length >= PART_BYTES) {
      const fits = PART_BYTES - bytes;
      yield { parts: [...parts, piece.subarray(0, fits)], bytes: PART_BYTES };
      piece = piece.subarray(fits);
      parts = [];
      bytes = 0;
    }
    if (piece.length === 0) continue;
    parts.push(piece);
    bytes += piece.length;
  }
  if (bytes > 0) yield { parts, bytes };
}
