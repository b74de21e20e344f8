/**
 * Creating objects: the one primitive, create-if-absent, and its outcomes (architecture section 7, I4, I10).
 *
 * Owns: what each answer to a conditional PUT means.
 *
 *   200 that names an ETag   created; without one the answer is not the store's
 *   412                      something is there: its bytes tell ours (an earlier try that landed, its answer lost) from theirs
 *   409, or gone meanwhile   nobody knows yet: again, until the deadline
 *   anything that passes     may have landed or not: again, with the very same bytes and the same condition
 *
 * `If-Match` is not used (Ceph answers 412 to one that matches). A server that ignores the condition would break the log without a sign, so the first object of a
 * process is put twice: the second time has to be refused.
 */
import { Readable } from 'node:stream';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { ObjectMissing, StoreRefused, type PutOutcome } from '../object-store.js';
import { bodyHash, pieces, signedHash } from './body-hash.js';
import { TryFailed } from './failures.js';
import { SEND_BUFFER_BYTES_MAX, STALL_MS, UPLOAD_BYTES_PER_SECOND_MIN } from './limits.js';
import { readObject, sizeOf } from './reads.js';
import type { Requests, Try } from './requests.js';
import { Answered, type Retries } from './retries.js';

/** Encryption that the server is asked for. */
export interface Encryption {
  readonly ServerSideEncryption?: 'AES256' | 'aws:kms';
  readonly SSEKMSKeyId?: string;
}

export interface Upload {
  readonly key: string;
  readonly parts: readonly Buffer[];
  readonly bytes: number;
}

/** Extra time for an upload of so many bytes, ms. */
export function uploadMs(bytes: number): number {
  return (bytes / UPLOAD_BYTES_PER_SECOND_MIN) * 1_000;
}

/** The body of one try; that the connection takes it is what shows that the try moves. */
export function bodyOf({ parts, bytes }: Pick<Upload, 'parts' | 'bytes'>, own: Try): Readable {
  return Readable.from(
    (function* () {
      for (const piece of pieces(parts)) {
        own.watch.moved();
        yield piece;
      }
      own.watch.allow(STALL_MS + uploadMs(Math.min(bytes, SEND_BUFFER_BYTES_MAX)), 'no answer to a whole upload');
    })(),
    { objectMode: false },
  );
}

export class Creator {
  /** Whether this server was seen to refuse a second PUT. */
  #proven = false;

  constructor(
    private readonly requests: Requests,
    private readonly encryption: Encryption,
  ) {}

  async create(upload: Upload, signal: AbortSignal | undefined): Promise<PutOutcome> {
    const hash = await bodyHash(upload.parts);
    const retries = this.#retries(`put ${upload.key}`, upload, signal);
    for (;;) {
      try {
        await retries.run(() => this.requests.once('other', retries, signal, (own) => this.#put(upload, hash, own)));
        if (!this.#proven) await this.#prove(upload, hash, signal);
        return 'created';
      } catch (error) {
        if (!(error instanceof Answered)) throw error;
        this.#proven = true;
        const there = await this.#compare(upload, signal);
        if (there !== null) return there;
        // Nothing is there, or no more: nothing is settled.
        await retries.after(new TryFailed(`the condition could not be decided: ${error.message}`));
      }
    }
  }

  #retries(what: string, { bytes }: Upload, signal: AbortSignal | undefined): Retries {
    return this.requests.retries(what, signal, { extraMs: uploadMs(bytes), answers: ['exists'] });
  }

  async #put({ key, parts, bytes }: Upload, hash: string, own: Try): Promise<void> {
    const command = new PutObjectCommand({ ...this.requests.at(key), ...this.encryption, IfNoneMatch: '*', ContentLength: bytes, Body: bodyOf({ parts, bytes }, own) });
    command.middlewareStack.add(signedHash(hash), { step: 'build', name: 'signedHash' });
    const { ETag: told } = await this.requests.client.send(command, { abortSignal: own.watch.signal });
    if (told === undefined) throw new TryFailed('the answer names no object');
  }

  async #prove(upload: Upload, hash: string, signal: AbortSignal | undefined): Promise<void> {
    const retries = this.#retries(`second put of ${upload.key}`, upload, signal);
    try {
      await retries.run(() => this.requests.once('other', retries, signal, (own) => this.#put(upload, hash, own)));
    } catch (error) {
      if (!(error instanceof Answered)) throw error;
      this.#proven = true;
      return;
    }
    throw new StoreRefused(`put ${upload.key}: the server took a second PUT with If-None-Match: *, so it does not know create-if-absent, which Firn needs`);
  }

  /** What lies under a taken key against what was to be put there; null: nothing any more. */
  async #compare({ key, parts, bytes }: Upload, signal: AbortSignal | undefined): Promise<PutOutcome | null> {
    const size = await sizeOf(this.requests, key, signal);
    if (size === null) return null;
    if (size !== bytes) return 'exists-theirs';
    const ours = Buffer.concat(parts);
    let at = 0;
    try {
      for await (const piece of readObject(this.requests, 'read', key, undefined, signal)) {
        if (!ours.subarray(at, at + piece.length).equals(piece)) return 'exists-theirs';
        at += piece.length;
      }
    } catch (error) {
      if (error instanceof ObjectMissing) return null;
      throw error;
    }
    return 'exists-ours';
  }
}
