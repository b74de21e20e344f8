/**
 * Large bodies from a stream, under names that are never used twice (design section 7, R039, R041).
 *
 * Owns: one multipart upload from its first part to its end. Promises: at most one part is in memory; whatever goes wrong, cancellation included, the upload is
 * aborted, as far as the store can be reached. What a killed process leaves, a rule of the bucket has to sweep (AbortIncompleteMultipartUpload, see `docs/operations.md`): nothing here does.
 */
import { AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand, UploadPartCommand, type CompletedPart } from '@aws-sdk/client-s3';
import { bodyHash, signedHash } from './body-hash.js';
import { TryFailed } from './failures.js';
import { PART_BYTES } from './limits.js';
import { sizeOf } from './reads.js';
import type { Requests } from './requests.js';
import { Answered } from './retries.js';
import { bodyOf, uploadMs, type Encryption } from './writes.js';

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

  get #at(): { readonly Bucket: string; readonly Key: string; readonly UploadId: string } {
    return { ...this.requests.at(this.key), UploadId: this.id };
  }

  async add(parts: readonly Buffer[], bytes: number): Promise<void> {
    const { requests, signal } = this;
    const hash = await bodyHash(parts);
    const number = this.#parts.length + 1;
    const retries = requests.retries(`put part ${number} of ${this.key}`, signal, uploadMs(bytes));
    const etag = await retries.run(() => requests.once('other', retries, signal, async (own) => {
      const command = new UploadPartCommand({ ...this.#at, PartNumber: number, ContentLength: bytes, Body: bodyOf({ parts, bytes }, own) });
      command.middlewareStack.add(signedHash(hash), { step: 'build', name: 'signedHash' });
      const { ETag: told } = await requests.client.send(command, { abortSignal: own.watch.signal });
      if (told === undefined) throw new TryFailed('the answer names no part');
      return told;
    }));
    this.#parts.push({ PartNumber: number, ETag: etag });
  }

  /** The object is there, whole, when this resolves. */
  async complete(bytes: number): Promise<void> {
    const command = { ...this.#at, MultipartUpload: { Parts: this.#parts } };
    try {
      await this.requests.run(`end the upload of ${this.key}`, this.signal, ({ watch }) => this.requests.client.send(new CompleteMultipartUploadCommand(command), { abortSignal: watch.signal }));
    } catch (error) {
      // The answer of an earlier try was lost: the upload is gone because it became the object, whose name nobody else uses.
      if (!(error instanceof Answered) || (await sizeOf(this.requests, this.key, this.signal)) !== bytes) throw error;
    }
  }

  /** Even when the caller's signal has fired. Never throws. */
  async abort(): Promise<void> {
    await this.requests.run(`abort the upload of ${this.key}`, undefined, ({ watch }) => this.requests.client.send(new AbortMultipartUploadCommand(this.#at), { abortSignal: watch.signal })).catch(() => undefined);
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
