/**
 * What an error of an S3 request means.
 *
 * Owns: the one table from errors to meanings. Promises: an object is called missing only when the server says so by code (a 404 of a proxy, or of a bucket that
 * is gone, is not that: I9); a refusal that an operator has to end is told from a fault that passes; no text of a secret gets into a message.
 */

/**
 * `passing`: try again; `conflict`: a condition could not be decided, try again; `exists`: something lies under the key of a conditional PUT; `missing`: no such
 * object; `beyond`: no such range; `no-upload`: no such multipart upload; `refused`: the server understood and does not want to.
 */
export type FailureKind = 'passing' | 'conflict' | 'refused' | AnswerKind;
/** What only the operation itself can make sense of, or nobody. */
export type AnswerKind = 'exists' | 'missing' | 'beyond' | 'no-upload';

export interface Failure {
  readonly kind: FailureKind;
  readonly why: string;
}

/** A try that did not move, or an answer that is not whole. */
export class TryFailed extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'TryFailed';
  }
}

/** Codes by which a 4xx is about this one try and not about the request: time, transfer, load, or a condition. */
const PASSING_CODES = new Set([
  'RequestTimeout', 'RequestTimeTooSkewed', 'RequestExpired', 'ExpiredToken', 'XAmzContentSHA256Mismatch', 'BadDigest', 'IncompleteBody', 'SlowDown', 'TooManyRequests', 'Throttling', 'ThrottlingException',
]);
const PASSING_STATUS = new Set([408, 425, 429]);
/** What the SDK puts where a server says nothing. */
const SAYS_NOTHING = new Set(['', 'UnknownError']);
const NO_CREDENTIALS = new Set(['CredentialsProviderError', 'ProviderError', 'TokenProviderError', 'ChainedProviderError']);

/** null: no error of a request but one of this program. */
export function judge(error: unknown): Failure | null {
  if (!(error instanceof Error)) return null;
  if (error instanceof TryFailed) return { kind: 'passing', why: error.message };
  if (NO_CREDENTIALS.has(error.name)) return { kind: 'refused', why: `no credentials: ${error.message}` };
  const status = statusOf(error);
  if (status !== null) return { kind: byStatus(status, error.name), why: `${status} ${error.name}${sentenceOf(error)}` };
  const code = (error as NodeJS.ErrnoException).code;
  if (error.name === 'TimeoutError' || typeof code === 'string') return { kind: isOfTls(code) ? 'refused' : 'passing', why: `${code ?? error.name}: ${error.message}` };
  return null;
}

function byStatus(status: number, code: string): FailureKind {
  if (PASSING_CODES.has(code) || PASSING_STATUS.has(status)) return 'passing';
  if (status === 409) return 'conflict';
  if (status === 412) return 'exists';
  // An object without a first byte is an empty one: nobody but the store may say so.
  if (status === 416) return code === 'InvalidRange' ? 'beyond' : 'passing';
  if (code === 'NoSuchKey') return 'missing';
  if (code === 'NoSuchUpload') return 'no-upload';
  if (code === 'NoSuchBucket') return 'refused';
  // Whatever stands in between may answer so; only a code of S3 tells about an object.
  if (status === 404 || status === 501) return status === 404 ? 'passing' : 'refused';
  return status >= 300 && status < 500 ? 'refused' : 'passing';
}

/** Behind its first line the SDK explains itself to programmers. */
function sentenceOf({ message }: Error): string {
  const [line = ''] = message.split('\n');
  return SAYS_NOTHING.has(line) ? '' : `: ${line}`;
}

/** A good status with a body that cannot be read counts as a failed try too: the SDK leaves the status on the error. */
function statusOf(error: Error): number | null {
  const { $metadata: metadata, $response: response } = error as { $metadata?: { httpStatusCode?: unknown }; $response?: { statusCode?: unknown } };
  const status = metadata?.httpStatusCode ?? response?.statusCode;
  return typeof status === 'number' ? status : null;
}

/** Certificates that are not trusted stay so until somebody changes something. */
function isOfTls(code: string | undefined): boolean {
  return code !== undefined && /^(ERR_TLS_|CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_)/.test(code);
}
