/**
 * The object store on an S3 server (architecture section 7): AWS S3, MinIO, Ceph RGW, R2, any that knows `PUT` with `If-None-Match: *`.
 *
 * Owns: the seam's methods over requests. Importing this module loads the SDK, so it is imported only where a node has S3. Promises: those of `object-store.contract.ts`; reads
 * and writes are retried here and nowhere else; errors name the bucket and the server, never a secret.
 */
import { DeleteObjectCommand, ListObjectsV2Command, type ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { randomInt } from 'node:crypto';
import { checkRange, exactLength, putOnceBytes } from '../object-body.js';
import { checkKey, checkPrefix } from '../object-key.js';
import { ObjectDamaged, ObjectMissing, StoreRefused, type ByteRange, type ObjectInfoListed, type ObjectStore, type PutOutcome, type UploadSweep } from '../object-store.js';
import { describePlace, s3Client, type S3Place } from './client.js';
import { TryFailed } from './failures.js';
import { abortLeftovers } from './leftovers.js';
import { LIST_PAGE, PART_BYTES } from './limits.js';
import { MultipartUpload, partsOf } from './multipart.js';
import { readObject, sizeOf } from './reads.js';
import { Requests } from './requests.js';
import { Answered } from './retries.js';
import { watchedAnswer } from './watched-answer.js';
import { Creator, type Encryption } from './writes.js';

export interface S3StoreOptions extends S3Place {
  /** null: what the bucket does by default. */
  readonly sse: 'AES256' | 'aws:kms' | null;
  /** Key of `aws:kms`; null: the account's own. */
  readonly sseKmsKeyId: string | null;
}

export interface S3StoreDeps {
  /** Each further try, and why. */
  readonly onRetry?: (why: string) => void;
  /** Each second GET made because the first one was late. */
  readonly onHedge?: () => void;
  /** In [0, 1): spreads waits. */
  readonly random?: () => number;
}

const RANDOM_STEPS = 1 << 30;

export class S3ObjectStore implements ObjectStore {
  readonly describe: string;
  readonly #requests: Requests;
  readonly #encryption: Encryption;
  readonly #creator: Creator;

  private constructor(describe: string, requests: Requests, encryption: Encryption) {
    this.describe = describe;
    this.#requests = requests;
    this.#encryption = encryption;
    this.#creator = new Creator(requests, encryption);
  }

  /** Asks the server nothing: it may be away. Throws Error when the settings name no region. */
  static async open(options: S3StoreOptions, deps: S3StoreDeps = {}): Promise<S3ObjectStore> {
    const { bucket, prefix, sse, sseKmsKeyId } = options;
    const where = describePlace(options);
    const requests = new Requests({
      client: await s3Client(options),
      bucket,
      prefix,
      where,
      random: deps.random ?? ((): number => randomInt(RANDOM_STEPS) / RANDOM_STEPS),
      onRetry: deps.onRetry ?? ((): void => undefined),
      onHedge: deps.onHedge ?? ((): void => undefined),
    });
    return new S3ObjectStore(where, requests, { ...(sse === null ? {} : { ServerSideEncryption: sse }), ...(sseKmsKeyId === null ? {} : { SSEKMSKeyId: sseKmsKeyId }) });
  }

  async putOnce(key: string, body: Buffer | readonly Buffer[], signal?: AbortSignal): Promise<PutOutcome> {
    this.#check(key, signal);
    const parts: readonly Buffer[] = Buffer.isBuffer(body) ? [body] : body;
    return this.#creator.create({ key, parts, bytes: putOnceBytes(key, parts) }, signal);
  }

  async putUnique(key: string, body: AsyncIterable<Buffer>, bytes: number, signal?: AbortSignal): Promise<void> {
    this.#check(key, signal);
    const whole = exactLength(body, bytes, key);
    if (bytes <= PART_BYTES) return this.#putSmall(key, whole, bytes, signal);
    // A multipart upload would replace what is there on servers that do not look at a condition at its end.
    if ((await sizeOf(this.#requests, key, signal)) !== null) throw taken(key);
    const upload = await MultipartUpload.begin(this.#requests, key, this.#encryption, signal);
    try {
      for await (const part of partsOf(whole)) {
        signal?.throwIfAborted();
        await upload.add(part.parts, part.bytes);
      }
      await upload.complete(bytes);
    } catch (error) {
      await upload.abort();
      throw error;
    }
  }

  async #putSmall(key: string, body: AsyncIterable<Buffer>, bytes: number, signal: AbortSignal | undefined): Promise<void> {
    const parts: Buffer[] = [];
    for await (const piece of body) {
      signal?.throwIfAborted();
      parts.push(piece);
    }
    if ((await this.#creator.create({ key, parts, bytes }, signal)) === 'exists-theirs') throw taken(key);
  }

  async get(key: string, range?: ByteRange, signal?: AbortSignal): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.#read('read', key, range, signal)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  stream(key: string, range?: ByteRange, signal?: AbortSignal): AsyncIterable<Buffer> {
    return this.#read('stream', key, range, signal);
  }

  async *#read(kind: 'stream' | 'read', key: string, range: ByteRange | undefined, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
    this.#check(key, signal);
    checkRange(range);
    if (range?.length !== 0) return yield* readObject(this.#requests, kind, key, range, signal);
    // No server gives a range of no bytes, and the object has to be there all the same.
    const size = await sizeOf(this.#requests, key, signal);
    if (size === null) throw new ObjectMissing(key);
    if (size < range.from) throw new ObjectDamaged(key, `${size} bytes long where ${range.from} were expected`);
  }

  async size(key: string, signal?: AbortSignal): Promise<number | null> {
    this.#check(key, signal);
    return sizeOf(this.#requests, key, signal);
  }

  async *list(prefix: string, after = ''): AsyncGenerator<ObjectInfoListed> {
    this.#requests.alive();
    checkPrefix(prefix);
    const asked = this.#requests.nameOf(prefix);
    const inBucket = this.#requests.nameOf('');
    // Each page starts after the last key of the one before: nothing is lost when a page has to be asked for again.
    let last = after;
    for (let from = after === '' ? undefined : this.#requests.nameOf(after); ; from = this.#requests.nameOf(last)) {
      const page = await this.#page(prefix, from);
      for (const { Key: name, Size: bytes } of page.Contents ?? []) {
        if (name === undefined || bytes === undefined || !name.startsWith(asked)) throw new StoreRefused(`list of ${this.describe}: the server lists ${name ?? 'an object without a name'}`);
        const key = name.slice(inBucket.length);
        // The empty object by which consoles make a folder: none of ours.
        if (key === '') continue;
        if (key <= last) throw new StoreRefused(`list of ${this.describe}: ${key} after ${last}, but keys have to come in byte order`);
        last = key;
        yield { key, bytes };
      }
      if (page.IsTruncated !== true) return;
    }
  }

  #page(prefix: string, after: string | undefined): Promise<ListObjectsV2CommandOutput> {
    const requests = this.#requests;
    const command = { Bucket: requests.bucket, Prefix: requests.nameOf(prefix), MaxKeys: LIST_PAGE, StartAfter: after };
    return requests.run(`list of "${prefix}"`, undefined, async ({ watch }) => {
      const listing = new ListObjectsV2Command(command);
      listing.middlewareStack.add(watchedAnswer(watch), { step: 'deserialize', priority: 'low', name: 'watchedAnswer' });
      const page = await requests.client.send(listing, { abortSignal: watch.signal });
      // A page that was cut may still be read as one: with fewer keys, or without saying whether it is the last one.
      const keys = page.Contents?.length ?? 0;
      if (page.IsTruncated === undefined || (page.KeyCount ?? keys) !== keys || (page.IsTruncated && keys === 0)) throw new TryFailed('the page is not whole');
      return page;
    });
  }

  async delete(key: string): Promise<void> {
    this.#check(key, undefined);
    const requests = this.#requests;
    try {
      await requests.run(`delete ${key}`, undefined, async ({ watch }) => {
        const { $metadata: { httpStatusCode: status } } = await requests.client.send(new DeleteObjectCommand(requests.at(key)), { abortSignal: watch.signal });
        if (status !== 204) throw new TryFailed(`${status} to a DELETE`);
      }, ['missing']);
    } catch (error) {
      if (!(error instanceof Answered)) throw error;
    }
  }

  async sweepUploads(sweep: UploadSweep): Promise<number> {
    this.#requests.alive();
    return abortLeftovers(this.#requests, sweep);
  }

  async close(): Promise<void> {
    this.#requests.close();
  }

  #check(key: string, signal: AbortSignal | undefined): void {
    this.#requests.alive();
    checkKey(key);
    signal?.throwIfAborted();
  }
}

function taken(key: string): Error {
  return new Error(`object ${key} exists, its name was to be unique`);
}
