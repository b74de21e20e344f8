/**
 * What must hold before a hot directory is used: its format is known and no batch is missing (architecture section 5).
 *
 * Owns: the format row and the row `verified`. Promises: a directory that passes holds every acknowledged batch; one that does not is left as it is, so that every
 * later open refuses it too.
 */
import { BadBytes, decodeStored, encodeStored } from '../../../shared/storage/codec.js';
import type { Acked } from './acked-file.js';
import { checkedGet } from './checked-reads.js';
import { HotStoreDamaged } from './durable.js';
import { HotStoreCorrupt, HotStoreFormat } from './errors.js';
import { streamsWithGaps, type StreamGap } from './gap-walk.js';
import { META, metaRow } from './keys/meta.js';
import { judgeChain, MarkerRing, type ChainVerdict, type Verified } from './marker-chain.js';
import { rowSum, withSum } from './row-check.js';
import type { HotOp, HotStore } from './store.js';

/** Format of the directory: rows, their keys and values. An older one is upgraded here when there is one. */
const HOT_FORMAT = 2;
/** Formats that are opened and from then on are HOT_FORMAT. 1 had no journal rows: a program of that time would overlook what they hold. */
const UPGRADED = ['1'];
const FORMAT_NAME = 'firn-hot';
const VERIFIED_VERSION = 1;
/** Streams that an error message names; all are in `streamsWithGaps`. */
const STREAMS_TOLD_MAX = 5;

export interface Checked {
  /** The newest batch in the store, 0: none, and its chain sum. */
  readonly batch: number;
  readonly crc: number;
  readonly checkedFrom: number;
  /** The directory was empty. */
  readonly created: boolean;
}

export interface CheckContext {
  readonly dir: string;
  /** null: not known. */
  readonly acked: Acked | null;
  /** Size of the marker ring. */
  readonly places: number;
}

/** Throws `HotStoreDamaged` or `HotStoreFormat`. */
export async function checkStore(store: HotStore, context: CheckContext): Promise<Checked> {
  try {
    return await check(store, context);
  } catch (error) {
    if (error instanceof BadBytes || error instanceof HotStoreCorrupt) {
      throw new HotStoreDamaged([], [], `the hot store ${context.dir} is damaged and cannot be checked: ${error.message}`);
    }
    throw error;
  }
}

async function check(store: HotStore, context: CheckContext): Promise<Checked> {
  const format = await checkedGet(store, metaRow.key(META.format));
  if (format === undefined) return create(store, context);
  const current = isCurrent(format, context.dir);
  const verifiedRow = await checkedGet(store, metaRow.key(META.verified));
  if (verifiedRow === undefined) throw new HotStoreCorrupt('the row that says how far the batches were checked is missing');
  const verified = decodeVerified(verifiedRow);
  const verdict = judgeChain(await MarkerRing.read(store, context.places, verified.n, context.acked?.n ?? null), verified, context.acked);
  if (verdict.missing.length > 0 || verdict.faults.length > 0) throw await damage(store, context, verdict);
  // An open writes the whole log into tables, which have checksums: up to here nothing can get lost unseen any more.
  const ops = verdict.highest === verified.n ? [] : [verifiedOp({ n: verdict.highest, crc: verdict.crc })];
  // Not before the verdict: a directory that is refused is left as it is.
  if (!current) ops.push(formatOp());
  if (ops.length > 0) await store.batch(ops, true);
  return { batch: verdict.highest, crc: verdict.crc, checkedFrom: verdict.checkedFrom, created: false };
}

/** A directory without a format is new when nothing at all is in it. */
async function create(store: HotStore, context: CheckContext): Promise<Checked> {
  for await (const page of store.scan({ from: Buffer.from([0]), to: Buffer.alloc(64, 0xff), limit: 1 })) {
    if (page.length > 0) throw new HotStoreCorrupt('it holds rows but not the row that names its format');
  }
  if (context.acked !== null && context.acked.n > 0) {
    throw new HotStoreDamaged([{ from: 1, to: context.acked.n }], [], `the hot store ${context.dir} is empty, but ${context.acked.n} batches were acknowledged`);
  }
  await store.batch([formatOp(), verifiedOp({ n: 0, crc: 0 })], true);
  return { batch: 0, crc: 0, checkedFrom: 1, created: true };
}

/** false: an older format that only has to be written anew. Throws `HotStoreFormat`. */
function isCurrent(format: Buffer, dir: string): boolean {
  const [name, version = ''] = format.toString('latin1').split(' ');
  if (name !== FORMAT_NAME) throw new HotStoreFormat(`${dir} is not a hot store of Firn`);
  if (UPGRADED.includes(version)) return false;
  if (version !== String(HOT_FORMAT)) throw new HotStoreFormat(`the hot store ${dir} has format ${version}, this program knows format ${HOT_FORMAT}`);
  return true;
}

function formatOp(): HotOp {
  return metaOp(META.format, Buffer.from(`${FORMAT_NAME} ${HOT_FORMAT}`));
}

async function damage(store: HotStore, context: CheckContext, verdict: ChainVerdict): Promise<HotStoreDamaged> {
  const parts: string[] = [];
  if (verdict.missing.length > 0) parts.push(`batches ${verdict.missing.map(({ from, to }) => (from === to ? from : `${from}-${to}`)).join(', ')} are missing`);
  parts.push(...verdict.faults);
  const gaps = await findGaps(store);
  if (typeof gaps === 'string') parts.push(gaps);
  else if (gaps.length > 0) {
    const told = gaps.slice(0, STREAMS_TOLD_MAX).map(({ key, detail }) => `${key} (${detail})`);
    parts.push(`streams with gaps: ${told.join(', ')}${gaps.length > told.length ? ` and ${gaps.length - told.length} more` : ''}`);
  }
  const known = context.acked === null ? 'not known' : String(context.acked.n);
  const streams = typeof gaps === 'string' ? [] : gaps.map(({ key }) => key);
  return new HotStoreDamaged(verdict.missing, streams, `the hot store ${context.dir} lost data: ${parts.join('; ')} (newest batch ${verdict.highest}, acknowledged ${known})`);
}

async function findGaps(store: HotStore): Promise<StreamGap[] | string> {
  try {
    return await streamsWithGaps(store);
  } catch (error) {
    if (error instanceof BadBytes || error instanceof HotStoreCorrupt || error instanceof HotStoreDamaged) return `the streams cannot be walked: ${error.message}`;
    throw error;
  }
}

/** Writes down up to which batch the markers need no further look. */
export function verifiedOp(verified: Verified): HotOp {
  return metaOp(META.verified, encodeVerified(verified));
}

function metaOp(name: string, value: Buffer): HotOp {
  const key = metaRow.key(name);
  return { type: 'put', key, value: withSum(value, rowSum(key, value)) };
}

function encodeVerified(verified: Verified): Buffer {
  return encodeStored(VERIFIED_VERSION, verified, (writer, value) => {
    writer.varint(value.n);
    writer.u32(value.crc);
  });
}

function decodeVerified(value: Buffer): Verified {
  return decodeStored(value, 'verified row', VERIFIED_VERSION, (reader) => ({ n: reader.varint(), crc: reader.u32() }));
}
