/**
 * The configuration of a process: environment and flags in, one checked object out.
 *
 * Owns: `loadConfig`, the rules between settings, and the errors an operator reads. Promises: a `Config` keeps every rule
 * of docs/configuration.md; all that is wrong is reported at once, each with the setting, its value and what is allowed;
 * secrets are masked. Whether the build can do what is asked (S3, Redis, auth) is the node's business at start.
 */
import { z } from 'zod';
import { SNAPSHOT_BYTES_CEILING, SNAPSHOT_BYTES_MAX_WITHOUT_COLD } from './limits.js';
import { bare, httpUrl, isLoopback, LOOPBACK_RANGES } from './net.js';
import { flagOf, VARIABLES, type LOG_LEVELS, type Variable, type VariableKey } from './variables.js';

export type ColdKind = 's3' | 'fs' | 'none';
export type JobsMode = 'embedded' | 'queue' | 'both';
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface S3Config {
  readonly bucket: string;
  /** '' or a prefix without a `/` at its end. */
  readonly prefix: string;
  readonly endpoint: string | null;
  readonly region: string | null;
  readonly forcePathStyle: boolean;
  /** Encryption that uploads ask for; null: what the bucket does by default. */
  readonly sse: 'AES256' | 'aws:kms' | null;
  /** null: the account's own key. */
  readonly sseKmsKeyId: string | null;
}

/** Every setting, checked. Sizes in bytes, periods in ms; null: none. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly adminHost: string;
  readonly adminPort: number;
  readonly adminToken: string | null;
  readonly nodeAdminUrl: string;
  readonly publicUrl: string | null;
  readonly dataDir: string;
  readonly cold: ColdKind;
  readonly s3: S3Config | null;
  readonly partitions: number;
  readonly redisUrl: string | null;
  readonly jobs: JobsMode;
  readonly sealBytes: number;
  readonly sealAgeMs: number;
  readonly hotKeepMs: number;
  readonly hotBytesMax: number;
  readonly diskFreeMin: number;
  /** 0: no cache of cold frames on disk. */
  readonly cacheBytesMax: number;
  readonly requestBytesMax: number;
  readonly snapshotBytesMax: number;
  /** Origins, or the one entry `*`. */
  readonly corsOrigins: readonly string[];
  /** IP addresses and ranges `address/bits`. */
  readonly webhookAllow: readonly string[];
  /** Hosts, or `*.` and a domain, in lower case; empty: any. */
  readonly webhookDomains: readonly string[];
  readonly auth: string | null;
  readonly allowOpen: boolean;
  readonly log: LogLevel;
  /** What is odd but no error: to be logged once at start. */
  readonly warnings: readonly string[];
}

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** By key of the table (`sealAgeMs`), as the command line gives them; a flag wins over the environment. `true`: a flag without a value. */
  readonly flags?: Readonly<Record<string, unknown>>;
  /** `node` (default) adds the rules for listening; `client` is for commands that only call a node. */
  readonly role?: 'node' | 'client';
}

/** The settings are wrong; `problems` has one sentence each. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
  }
}

type Parsed = { [K in VariableKey]?: (typeof VARIABLES)[K] extends Variable<infer T> ? T : never };

const ENTRIES = Object.entries(VARIABLES) as [VariableKey, Variable<unknown>][];
const SHAPE = Object.fromEntries(ENTRIES.map(([key, variable]) => [key, variable.schema.optional()]));
const SCHEMA = z.strictObject(SHAPE);

interface Given {
  readonly values: Record<string, string>;
  /** How the operator wrote the setting: `FIRN_PORT` or `--port`. */
  readonly origin: Map<string, string>;
}

/** An empty variable counts as not set: that is how compose files pass on what the operator left out. */
function collect(source: ConfigSource): Given {
  const values: Record<string, string> = {};
  const origin = new Map<string, string>();
  for (const [key, variable] of ENTRIES) {
    const flag = source.flags?.[key];
    const fromEnv = source.env[variable.name];
    if (flag !== undefined && flag !== null) {
      values[key] = flag === true ? '1' : flag === false ? '0' : String(flag);
      origin.set(key, `--${flagOf(variable.name)}`);
    } else if (fromEnv !== undefined && fromEnv !== '') {
      values[key] = fromEnv;
      origin.set(key, variable.name);
    }
  }
  return { values, origin };
}

function shown(variable: Variable<unknown>, value: string): string {
  if (variable.secret) return '(hidden)';
  return JSON.stringify(value.length > 200 ? `${value.slice(0, 200)}…` : value);
}

function parse(given: Given): Parsed {
  const result = SCHEMA.safeParse(given.values);
  if (result.success) return result.data as Parsed;
  const wrong = new Set(result.error.issues.map((issue) => String(issue.path[0])));
  throw new ConfigError([...wrong].map((key) => {
    const variable: Variable<unknown> = VARIABLES[key as VariableKey];
    return `${given.origin.get(key)} is ${shown(variable, given.values[key] ?? '')}: allowed is ${variable.allowed}`;
  }));
}

function trimPrefix(prefix: string): string {
  return prefix.replace(/\/+$/, '');
}

function compose(parsed: Parsed, role: ConfigSource['role'], warnings: readonly string[]): Config {
  const host = bare(parsed.host ?? '127.0.0.1');
  const adminHost = bare(parsed.adminHost ?? '127.0.0.1');
  const adminPort = parsed.adminPort ?? 4438;
  const cold = parsed.cold ?? (parsed.s3Bucket === undefined ? 'fs' : 's3');
  const redisUrl = parsed.redisUrl ?? null;
  const nodeAdminUrl = parsed.nodeAdminUrl ?? httpUrl(adminHost, adminPort);
  // A worker's loopback is the node's when it finds the node there.
  const isLocal = isLoopback(host) && (role !== 'client' || isLoopback(new URL(nodeAdminUrl).hostname));
  const webhookAllow = parsed.webhookAllow ?? (isLocal ? [...LOOPBACK_RANGES] : []);
  return {
    host,
    port: parsed.port ?? 4437,
    adminHost,
    adminPort,
    adminToken: parsed.adminToken ?? null,
    nodeAdminUrl,
    publicUrl: parsed.publicUrl ?? null,
    dataDir: parsed.dataDir ?? './data',
    cold,
    s3: parsed.s3Bucket === undefined ? null : {
      bucket: parsed.s3Bucket,
      prefix: trimPrefix(parsed.s3Prefix ?? ''),
      endpoint: parsed.s3Endpoint ?? null,
      region: parsed.s3Region ?? null,
      forcePathStyle: parsed.s3ForcePathStyle ?? false,
      sse: parsed.s3Sse ?? null,
      sseKmsKeyId: parsed.s3SseKmsKeyId ?? null,
    },
    partitions: parsed.partitions ?? 1,
    redisUrl,
    jobs: parsed.jobs ?? (redisUrl === null ? 'embedded' : 'both'),
    sealBytes: parsed.sealBytes ?? 33_554_432,
    sealAgeMs: parsed.sealAgeMs ?? 60_000,
    hotKeepMs: parsed.hotKeepMs ?? 600_000,
    hotBytesMax: parsed.hotBytesMax ?? 8_589_934_592,
    diskFreeMin: parsed.diskFreeMin ?? 536_870_912,
    cacheBytesMax: parsed.cacheBytesMax ?? 0,
    requestBytesMax: parsed.requestBytesMax ?? 33_554_432,
    snapshotBytesMax: parsed.snapshotBytesMax ?? (cold === 'none' ? SNAPSHOT_BYTES_MAX_WITHOUT_COLD : SNAPSHOT_BYTES_CEILING),
    corsOrigins: parsed.corsOrigins ?? [],
    webhookAllow: webhookAllow.includes('none') ? [] : webhookAllow,
    webhookDomains: parsed.webhookDomains ?? [],
    auth: parsed.auth ?? null,
    allowOpen: parsed.allowOpen ?? false,
    log: parsed.log ?? 'info',
    warnings,
  };
}

/** Rules between settings that hold for every process. */
function relationProblems(config: Config, parsed: Parsed): string[] {
  const problems: string[] = [];
  if (config.cold === 's3' && config.s3 === null) problems.push('FIRN_COLD is "s3": FIRN_S3_BUCKET has to name the bucket');
  if (parsed.s3SseKmsKeyId !== undefined && parsed.s3Sse !== 'aws:kms') problems.push('FIRN_S3_SSE_KMS_KEY_ID names a key: FIRN_S3_SSE has to be "aws:kms"');
  if (config.jobs !== 'embedded' && config.redisUrl === null) problems.push(`FIRN_JOBS is "${config.jobs}": FIRN_REDIS_URL has to name the Redis server`);
  if (config.cold === 'none' && config.snapshotBytesMax > SNAPSHOT_BYTES_MAX_WITHOUT_COLD) {
    problems.push(`FIRN_SNAPSHOT_BYTES_MAX is "${config.snapshotBytesMax}": with FIRN_COLD=none allowed is at most ${SNAPSHOT_BYTES_MAX_WITHOUT_COLD}`);
  }
  const mixed = [['FIRN_CORS_ORIGINS', '*', parsed.corsOrigins], ['FIRN_WEBHOOK_ALLOW', 'none', parsed.webhookAllow]] as const;
  for (const [name, alone, entries] of mixed) {
    if (entries !== undefined && entries.length > 1 && entries.includes(alone)) problems.push(`${name} lists ${alone} beside other entries: allowed is ${alone} alone`);
  }
  return problems;
}

/** Rules for a process that listens. */
function listenerProblems(config: Config): string[] {
  const problems: string[] = [];
  if (!isLoopback(config.host) && config.auth === null && !config.allowOpen) {
    problems.push(`FIRN_HOST is "${config.host}", beyond loopback, and there is no FIRN_AUTH: allowed is a loopback address, or FIRN_ALLOW_OPEN=1 for a node that everybody may use`);
  }
  if (!isLoopback(config.adminHost) && config.adminToken === null) {
    problems.push(`FIRN_ADMIN_HOST is "${config.adminHost}", beyond loopback: FIRN_ADMIN_TOKEN has to be set`);
  }
  if (config.port !== 0 && config.port === config.adminPort && config.host === config.adminHost) {
    problems.push(`FIRN_PORT and FIRN_ADMIN_PORT are both "${config.port}": the two listeners need a port each`);
  }
  return problems;
}

function unknownVariables(env: ConfigSource['env']): string[] {
  const known = new Set<string>(ENTRIES.map(([, variable]) => variable.name));
  return Object.keys(env)
    .filter((name) => name.startsWith('FIRN_') && !name.startsWith('FIRN_TEST_') && !known.has(name))
    .sort()
    .map((name) => `${name} is no setting of firn and has no effect`);
}

function oddities(config: Config, parsed: Parsed): string[] {
  const odd: string[] = [];
  if (config.cold !== 'none' && config.sealBytes > config.hotBytesMax) {
    odd.push('FIRN_SEAL_BYTES is above FIRN_HOT_BYTES_MAX: only age makes a seal due before writes are refused');
  }
  if (config.cold !== 's3' && parsed.s3Bucket !== undefined) odd.push(`FIRN_S3_BUCKET has no effect with FIRN_COLD=${config.cold}`);
  if (parsed.s3Bucket === undefined && (parsed.s3Prefix ?? parsed.s3Endpoint ?? parsed.s3Region ?? parsed.s3Sse) !== undefined) odd.push('FIRN_S3_… has no effect without FIRN_S3_BUCKET');
  if (config.cold !== 's3' && config.cacheBytesMax > 0) odd.push(`FIRN_CACHE_BYTES_MAX has no effect with FIRN_COLD=${config.cold}: the objects lie on disk already`);
  if (config.jobs === 'queue' && config.cold === 'fs') odd.push('FIRN_JOBS=queue leaves jobs to workers elsewhere, and with FIRN_COLD=fs none of them reaches the objects of this node: nothing is sealed');
  if (config.jobs === 'embedded' && config.redisUrl !== null) odd.push('FIRN_REDIS_URL has no effect with FIRN_JOBS=embedded');
  return odd;
}

/**
 * Reads and checks the settings. Flags win over the environment.
 * Throws `ConfigError` naming every setting that is wrong, its value (secrets hidden) and what is allowed.
 */
export function loadConfig(source: ConfigSource): Config {
  const parsed = parse(collect(source));
  const draft = compose(parsed, source.role, []);
  const problems = relationProblems(draft, parsed);
  if ((source.role ?? 'node') === 'node') problems.push(...listenerProblems(draft));
  if (problems.length > 0) throw new ConfigError(problems);
  return { ...draft, warnings: [...unknownVariables(source.env), ...oddities(draft, parsed)] };
}
