/**
 * The table of settings: one row a variable of the operator contract (architecture section 3).
 *
 * Owns: names, defaults, allowed values and their sentences. Promises: the schema, the flags of the command line and
 * `docs/configuration.md` are made from this table alone, so they cannot disagree.
 */
import { z } from 'zod';
import { isAddressRange } from './net.js';
import {
  LIST_ENTRIES_MAX, PARTITIONS_MAX, PERIOD_MS_MAX, REQUEST_BYTES_CEILING, SNAPSHOT_BYTES_CEILING, SNAPSHOT_BYTES_MAX_WITHOUT_COLD,
} from './limits.js';

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** One setting. `T` is what the schema makes of the text. */
export interface Variable<T> {
  /** `FIRN_…`; the flag is the same name in lower case with dashes and without the prefix. */
  readonly name: `FIRN_${string}`;
  readonly schema: z.ZodType<T, string>;
  /** Completes "allowed is …". */
  readonly allowed: string;
  /** Default as an operator reads it. */
  readonly defaultText: string;
  readonly meaning: string;
  /** The value is never shown, neither in errors nor in logs. */
  readonly secret: boolean;
  /** A flag without a value means true. */
  readonly boolean: boolean;
}

type Row<T> = Omit<Variable<T>, 'secret' | 'boolean'> & { readonly secret?: boolean; readonly boolean?: boolean };

function variable<T>(row: Row<T>): Variable<T> {
  return { secret: false, boolean: false, ...row };
}

/** What is wrong is said once, by `allowed`; the schema's own message is not shown. */
function checked(test: (text: string) => boolean): z.ZodType<string, string> {
  return z.string().refine(test);
}

function whole(name: Variable<number>['name'], min: number, max: number, defaultText: string, meaning: string): Variable<number> {
  const schema = z.string().regex(/^\d{1,16}$/).transform(Number).pipe(z.number().int().min(min).max(max));
  return variable({ name, schema, allowed: `a whole number from ${min} to ${max}`, defaultText, meaning });
}

function flag(name: Variable<boolean>['name'], defaultText: string, meaning: string): Variable<boolean> {
  const schema = z.enum(['1', '0', 'true', 'false']).transform((text) => text === '1' || text === 'true');
  return variable({ name, schema, allowed: '1, 0, true or false', defaultText, meaning, boolean: true });
}

function text(name: Variable<string>['name'], pattern: RegExp, allowed: string, defaultText: string, meaning: string): Variable<string> {
  return variable({ name, schema: checked((value) => pattern.test(value)), allowed, defaultText, meaning });
}

function choice<const T extends string>(name: Variable<T>['name'], values: readonly [T, ...T[]], defaultText: string, meaning: string): Variable<T> {
  const allowed = `${values.slice(0, -1).join(', ')} or ${values[values.length - 1]}`;
  return variable<T>({ name, schema: z.enum(values) as unknown as z.ZodType<T, string>, allowed, defaultText, meaning });
}

function parseUrl(value: string): URL | null {
  return URL.canParse(value) ? new URL(value) : null;
}

/** What the client of Redis reads without a guess. A query is refused: it could carry a password past those that are hidden in logs. */
function isRedisUrl(value: string): boolean {
  const url = parseUrl(value);
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === '' || /[?#]/.test(value)) return false;
  return /^(\/\d{0,9})?$/.test(url.pathname) && isDecodable(url.username) && isDecodable(url.password);
}

function isDecodable(encoded: string): boolean {
  try {
    decodeURIComponent(encoded);
    return true;
  } catch {
    return false;
  }
}

function isOrigin(value: string): boolean {
  const url = parseUrl(value);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && (url.origin === value || `${url.origin}/` === value);
}

/** As browsers send it: without a slash at the end. */
const ORIGIN = checked(isOrigin).transform((value) => new URL(value).origin);

function origin(name: Variable<string>['name'], defaultText: string, meaning: string): Variable<string> {
  return variable({ name, schema: ORIGIN, allowed: 'an http or https origin without a path, such as https://logs.example.com', defaultText, meaning });
}

function splitList(value: string): string[] {
  return value.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '');
}

function list(name: Variable<string[]>['name'], entry: z.ZodType<string, string>, allowed: string, defaultText: string, meaning: string): Variable<string[]> {
  const schema = z.string().transform(splitList).pipe(z.array(entry).min(1).max(LIST_ENTRIES_MAX));
  return variable({ name, schema, allowed, defaultText, meaning });
}

const HOST = /^[A-Za-z0-9_.:[\]-]{1,255}$/;
const HOST_ALLOWED = 'a host name or an IP address';
const NONE = 'none';

/** A `*` stands alone: beside origins it would make them meaningless. */
const CORS_ENTRY = z.union([z.literal('*'), ORIGIN]);
const WEBHOOK_ENTRY = checked((value) => value === 'none' || isAddressRange(value));

/** In the form in which a URL gives its host. */
const WEBHOOK_DOMAIN = checked((value) => /^(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/.test(value) && value.length <= 253).transform((value) => value.toLowerCase());

export const VARIABLES = {
  host: text('FIRN_HOST', HOST, HOST_ALLOWED, '127.0.0.1', 'Address of the client listener: both surfaces, nothing else.'),
  port: whole('FIRN_PORT', 0, 65_535, '4437', 'Port of the client listener; 0 takes a free one, named by the `listening` line.'),
  adminHost: text('FIRN_ADMIN_HOST', HOST, HOST_ALLOWED, '127.0.0.1', 'Address of the admin listener: `/__firn/…`, workers.'),
  adminPort: whole('FIRN_ADMIN_PORT', 0, 65_535, '4438', 'Port of the admin listener; 0 takes a free one.'),
  adminToken: variable({
    name: 'FIRN_ADMIN_TOKEN', schema: checked((value) => /^[\x21-\x7e]{1,1024}$/.test(value)), allowed: '1 to 1024 visible ASCII characters',
    defaultText: NONE, meaning: 'Bearer token of the admin listener; required when it listens beyond loopback. Without it only requests whose `Host` is localhost or a loopback address are answered.', secret: true,
  }),
  nodeAdminUrl: origin('FIRN_NODE_ADMIN_URL', 'from `FIRN_ADMIN_HOST` and `FIRN_ADMIN_PORT`', 'Where a worker or the command line finds the node. Handlers in a node\'s process always use their own node.'),
  publicUrl: origin('FIRN_PUBLIC_URL', NONE, 'Origin in `Location` and other links to this node; none: the Host of the request.'),
  dataDir: text('FIRN_DATA_DIR', /^[^\0]+$/, 'a path', './data', 'Data directory: hot tier, embedded object store, staging, cache.'),
  cold: choice('FIRN_COLD', ['s3', 'fs', 'none'], '`s3` with a bucket, else `fs`', 'Cold tier: S3, the file system, or none. Fixed when the store is created.'),
  s3Bucket: text('FIRN_S3_BUCKET', /^[A-Za-z0-9._-]{1,255}$/, 'the name of a bucket', NONE, 'Bucket of the cold tier. Credentials come by the AWS SDK\'s own chain.'),
  s3Prefix: text('FIRN_S3_PREFIX', /^(?!\/)[A-Za-z0-9!_.*'()/-]{1,512}$/, 'a key prefix of letters, digits and ! _ . * \' ( ) / - that does not begin with /', NONE, 'Prefix of every key in the bucket.'),
  s3Endpoint: origin('FIRN_S3_ENDPOINT', NONE, 'Endpoint of an S3-compatible store; none: AWS.'),
  s3Region: text('FIRN_S3_REGION', /^[A-Za-z0-9-]{1,64}$/, 'the name of a region', NONE, 'Region of the bucket.'),
  s3ForcePathStyle: flag('FIRN_S3_FORCE_PATH_STYLE', NONE, 'Put the bucket into the path instead of the host name.'),
  s3Sse: choice('FIRN_S3_SSE', ['AES256', 'aws:kms'], 'as the bucket is set up', 'Encryption at rest that every upload asks for.'),
  s3SseKmsKeyId: text('FIRN_S3_SSE_KMS_KEY_ID', /^[\x21-\x7e]{1,2048}$/, 'the id, alias or ARN of a key', 'the key of the account', 'Key of `FIRN_S3_SSE=aws:kms`.'),
  partitions: whole('FIRN_PARTITIONS', 1, PARTITIONS_MAX, '1', 'Partitions of a new store; an existing one keeps its own.'),
  redisUrl: variable({
    name: 'FIRN_REDIS_URL', schema: checked(isRedisUrl), allowed: 'redis:// or rediss:// with [USER:PASSWORD@]HOST[:PORT][/NUMBER], special characters percent-encoded, without a query',
    defaultText: NONE, meaning: 'Run jobs under BullMQ. `maxmemory-policy` has to be `noeviction`.', secret: true,
  }),
  jobs: choice('FIRN_JOBS', ['embedded', 'queue', 'both'], '`embedded` without Redis, `both` with it', '`embedded`: in process, without Redis; `queue`: enqueue only, workers run elsewhere; `both`: enqueue, and run a worker here; what Redis cannot take runs in the node\'s process meanwhile.'),
  sealBytes: whole('FIRN_SEAL_BYTES', 1, Number.MAX_SAFE_INTEGER, '33554432', 'A partition\'s seal is due when its unsealed bytes reach this.'),
  sealAgeMs: whole('FIRN_SEAL_AGE_MS', 1, PERIOD_MS_MAX, '60000', 'A partition\'s seal is due when its oldest unsealed change is this old, ms.'),
  hotKeepMs: whole('FIRN_HOT_KEEP_MS', 0, PERIOD_MS_MAX, '600000', 'Keep sealed data hot this long for recent reads and complete bootstraps, ms; 0 evicts at once. Earlier, oldest first, while all hot bytes exceed `FIRN_HOT_BYTES_MAX` or free disk is below twice `FIRN_DISK_FREE_MIN`.'),
  hotBytesMax: whole('FIRN_HOT_BYTES_MAX', 1, Number.MAX_SAFE_INTEGER, '8589934592', 'Unsealed bytes from which writes get 503 `COLD_BACKPRESSURE` with `Retry-After`; no limit with `FIRN_COLD=none`.'),
  diskFreeMin: whole('FIRN_DISK_FREE_MIN', 0, Number.MAX_SAFE_INTEGER, '536870912', 'Free disk bytes below which writes get 503 `WAL_DISK_PRESSURE`, until twice as much is free.'),
  cacheBytesMax: whole('FIRN_CACHE_BYTES_MAX', 0, Number.MAX_SAFE_INTEGER, '0', 'Disk that frames read from the object store may take in `cache/` of the data directory, bytes; 0 keeps none there. It yields while free disk is below twice `FIRN_DISK_FREE_MIN`; no effect without S3.'),
  requestBytesMax: whole('FIRN_REQUEST_BYTES_MAX', 1, REQUEST_BYTES_CEILING, '33554432', 'Largest body of one append or create, bytes.'),
  snapshotBytesMax: whole('FIRN_SNAPSHOT_BYTES_MAX', 1, SNAPSHOT_BYTES_CEILING, `1073741824; with \`FIRN_COLD=none\` ${SNAPSHOT_BYTES_MAX_WITHOUT_COLD}`, 'Largest snapshot, bytes.'),
  corsOrigins: list('FIRN_CORS_ORIGINS', CORS_ENTRY, '*, or http and https origins separated by commas', NONE, 'Origins that get `Access-Control-Allow-Origin`, with every protocol header exposed.'),
  webhookAllow: list('FIRN_WEBHOOK_ALLOW', WEBHOOK_ENTRY, 'none, or IP addresses and ranges (address/bits) separated by commas', 'loopback while the node listens on loopback (for a worker: and finds its node there), else none', 'Private addresses that webhooks may reach from the process that sends them: the node, and each worker with its own setting.'),
  webhookDomains: list('FIRN_WEBHOOK_DOMAINS', WEBHOOK_DOMAIN, 'host names, and *. with a domain for everything below it, separated by commas', 'any', 'Hosts that webhooks may go to, and no others; a worker has its own setting.'),
  auth: text('FIRN_AUTH', /^[^\0]+$/, 'the path of an auth configuration', NONE, 'Auth configuration. Without it a node listens on loopback only, unless `FIRN_ALLOW_OPEN=1`.'),
  allowOpen: flag('FIRN_ALLOW_OPEN', '0', 'Listen beyond loopback without auth.'),
  log: choice('FIRN_LOG', LOG_LEVELS, 'info', 'Level of the log: JSON lines on standard output.'),
} as const;

export type VariableKey = keyof typeof VARIABLES;

/** `FIRN_SEAL_AGE_MS` -> `seal-age-ms`. */
export function flagOf(name: string): string {
  return name.slice('FIRN_'.length).toLowerCase().replaceAll('_', '-');
}
