/**
 * Credentials that end before they said so, or never said when.
 *
 * Owns: asking the SDK's chain anew. It renews by itself what names its end (roles, `credential_process`, container endpoints), and keeps everything else for ever: a file of credentials that
 * somebody rewrote, a key that was withdrawn. Promises: the chain is asked at most once in `RENEW_MS`, however many requests are refused; nothing of a credential gets out of here.
 */
import type { S3Client } from '@aws-sdk/client-s3';
import { RENEW_MS } from './limits.js';

/** Codes by which a server says that the key, and not the right, is what it refuses. */
const KEY_CODES = new Set(['ExpiredToken', 'ExpiredTokenException', 'InvalidToken', 'TokenRefreshRequired', 'InvalidAccessKeyId', 'SignatureDoesNotMatch', 'RequestExpired']);

export class Credentials {
  /** Counts the changes that were seen. */
  #generation = 0;
  #renewing: Promise<void> | null = null;
  #notBeforeMs = 0;

  constructor(private readonly client: S3Client) {}

  /** To be noted before a request, for `renewed`. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether an error of a request that began in a generation is worth another try, since there are other credentials now. */
  async renewed(error: unknown, generation: number): Promise<boolean> {
    if (!(error instanceof Error) || !KEY_CODES.has(error.name)) return false;
    if (generation === this.#generation && performance.now() >= this.#notBeforeMs) this.#renewing ??= this.#renew().finally(() => (this.#renewing = null));
    await this.#renewing;
    return generation !== this.#generation;
  }

  /** Never rejects: without new credentials the old refusal stands. */
  async #renew(): Promise<void> {
    const { credentials } = this.client.config;
    try {
      const before = await credentials();
      const after = await credentials({ forceRefresh: true });
      if (before.accessKeyId !== after.accessKeyId || before.secretAccessKey !== after.secretAccessKey || before.sessionToken !== after.sessionToken) this.#generation++;
    } catch {
      // What the chain lacks is said by the next request.
    }
    this.#notBeforeMs = performance.now() + RENEW_MS;
  }
}
