/**
 * What a data directory knows about the store it belongs to, kept in rows of the hot store.
 *
 * Owns: the rows `identity`, `session/{p}`, `claim/{p}`, `tokens/{p}` and `purge/{p}/{bucket}` of `metaRow`. Promises: they are durable before anything
 * that rests on them leaves the node; a row that does not parse is damage, never a new directory (I9).
 */
import { BadBytes } from '../../../shared/storage/codec.js';
import { TOKEN_KEY_BYTES } from '../../../shared/protocol/incarnation.js';
import type { ColdKind } from '../../../shared/config/index.js';
import { metaRow } from '../hot/keys/index.js';
import { within } from '../hot/keys/layout.js';
import type { DurableStore } from '../hot/durable.js';
import type { HotOp, HotReads } from '../hot/store.js';

const VERSION = 1;

type RowReads = Pick<HotReads, 'get'>;

/** A place that keeps meta rows: the log's queue of a running node, or the store itself while nothing runs on it. */
export interface MetaRows extends RowReads {
  /** Durable when it resolves. */
  write(ops: readonly HotOp[]): Promise<void>;
}

/** Meta rows of a store that nobody else writes to (restore, tests). */
export function rowsOfStore(store: DurableStore): MetaRows {
  return { get: (key) => store.get(key), write: (ops) => store.commit(ops) };
}

export interface Identity {
  readonly cold: ColdKind;
  /** null with `FIRN_COLD=none`. */
  readonly storeId: string | null;
  readonly partitions: number;
  /** 32 bytes. */
  readonly tokenKey: Buffer;
  /** `creating`: `store.json` may not be there yet; `restoring`: rows are being filled in; `ready` otherwise. */
  readonly state: 'creating' | 'restoring' | 'ready';
}

/** The session that the directory is bound to; every session below `fencedBelow` is known to be fenced. */
export interface BoundSession {
  readonly session: number;
  readonly fencedBelow: number;
}

/** Token counters below `reserved` of this session may have been used. */
export interface TokenReserve {
  readonly session: number;
  readonly reserved: number;
}

const IDENTITY = 'identity';

export async function readIdentity(rows: RowReads): Promise<Identity | null> {
  const json = await readJson(rows, IDENTITY);
  if (json === null) return null;
  const { version, cold, storeId, partitions, tokenKey, state } = json;
  const key = typeof tokenKey === 'string' ? Buffer.from(tokenKey, 'hex') : Buffer.alloc(0);
  const sound =
    version === VERSION && (cold === 's3' || cold === 'fs' || cold === 'none') && (storeId === null || typeof storeId === 'string') &&
    isCount(partitions) && key.length === TOKEN_KEY_BYTES && (state === 'creating' || state === 'restoring' || state === 'ready');
  if (!sound) throw new BadBytes('identity row', 'not what this version writes');
  return { cold, storeId, partitions, tokenKey: key, state };
}

export function identityRow(identity: Identity): HotOp {
  return put(IDENTITY, { version: VERSION, ...identity, tokenKey: identity.tokenKey.toString('hex') });
}

export async function readBoundSession(rows: RowReads, partition: number): Promise<BoundSession | null> {
  const json = await readJson(rows, `session/${partition}`);
  if (json === null) return null;
  if (!isCount(json['session']) || !isCount(json['fencedBelow'])) throw new BadBytes('session row', 'not what this version writes');
  return { session: json['session'], fencedBelow: json['fencedBelow'] };
}

export function boundSessionRow(partition: number, bound: BoundSession): HotOp {
  return put(`session/${partition}`, bound);
}

/** The secret of a claim, durable here before the claim is made: tells an own claim whose answer was lost from another node's. */
export async function readClaimNonce(rows: RowReads, partition: number): Promise<string | null> {
  const json = await readJson(rows, `claim/${partition}`);
  if (json === null) return null;
  if (typeof json['nonce'] !== 'string') throw new BadBytes('claim row', 'not what this version writes');
  return json['nonce'];
}

export function claimNonceRow(partition: number, nonce: string): HotOp {
  return put(`claim/${partition}`, { nonce });
}

export async function readTokenReserve(rows: RowReads, partition: number): Promise<TokenReserve | null> {
  const json = await readJson(rows, `tokens/${partition}`);
  if (json === null) return null;
  if (!isCount(json['session']) || !isCount(json['reserved'])) throw new BadBytes('token row', 'not what this version writes');
  return { session: json['session'], reserved: json['reserved'] };
}

export function tokenReserveRow(partition: number, reserve: TokenReserve): HotOp {
  return put(`tokens/${partition}`, reserve);
}

/** Marks a purge that the log of a partition does not hold yet. */
export function purgeMark(partition: number, bucket: string): HotOp {
  return put(`purge/${partition}/${bucket}`, {});
}

export function purgeUnmark(partition: number, bucket: string): HotOp {
  return { type: 'del', key: metaRow.key(`purge/${partition}/${bucket}`) };
}

/** Buckets whose purge the log of a partition does not hold yet, at most `limit`. */
export async function unloggedPurges(store: HotReads, partition: number, limit: number): Promise<string[]> {
  const prefix = `purge/${partition}/`;
  const buckets: string[] = [];
  for await (const page of store.scan({ ...within(metaRow.key(prefix)), limit, values: false })) {
    for (const entry of page) buckets.push(metaRow.decodeKey(entry.key).name.slice(prefix.length));
  }
  return buckets;
}

function put(name: string, value: object): HotOp {
  return { type: 'put', key: metaRow.key(name), value: Buffer.from(JSON.stringify(value)) };
}

async function readJson(rows: RowReads, name: string): Promise<Record<string, unknown> | null> {
  const value = await rows.get(metaRow.key(name));
  if (value === undefined) return null;
  try {
    const json: unknown = JSON.parse(value.toString('utf8'));
    if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new BadBytes(`meta row ${name}`, 'not a JSON object');
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
