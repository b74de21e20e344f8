/**
 * Folding: small neighbouring values of a stream become one larger value (architecture section 5, "Values").
 *
 * Owns: which values are joined, and the operations for it. Promises: the same bytes, entry borders and times under fewer keys; sums are combined, never computed anew; no value
 * reaches over a border (a plan's end, the frontier), so that sealing and eviction still find theirs. Nothing is written here: the operations go through the log's queue.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { BLOCK_ENTRIES_MAX, decodeBlockHead, mergeBlocks, type BlockHead } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { HotDamaged } from './errors.js';
import { dataRow } from './keys/data.js';
import type { HotEntry, HotOp, HotStore } from './store.js';

/** Most payload of a folded value: reading values of this size is limited by memory bandwidth, not by their number. */
export const FOLD_TARGET_BYTES = 65_536;
/** A value with this much payload is left alone: reading values of this size is fast enough, and under load writing each byte once more costs more than it gains. */
export const FOLD_SMALL_BYTES = FOLD_TARGET_BYTES / 8;
/** Fewer values are joined only when the result is no longer small. */
export const FOLD_ROWS_MIN = 4;
/** Stored bytes looked at in one step: bounds the batch that comes of it. */
export const FOLD_STEP_BYTES = 1_048_576;

interface Row {
  readonly entry: HotEntry;
  readonly head: BlockHead;
}

/**
 * Operations that fold `rows`: neighbouring data rows of one incarnation, in order. `borders`: offsets that no value may reach over. Empty when nothing is worth it.
 * Throws `HotDamaged` for rows that are damaged or do not touch.
 */
export function planFold(rows: readonly HotEntry[], borders: readonly Offset[]): HotOp[] {
  const border = new Set<number>(borders);
  const ops: HotOp[] = [];
  let group: Row[] = [];
  let bytes = 0;
  let entries = 0;
  let before: BlockHead | undefined;
  const close = (): void => {
    if (isWorth(group.length, bytes)) addFold(ops, group);
    group = [];
    bytes = 0;
    entries = 0;
  };
  for (const entry of rows) {
    const head = readHead(entry);
    if (before !== undefined && head.start !== before.end) throw damaged(entry, `values end at ${before.end} and go on at ${head.start}`);
    before = head;
    const length = head.end - head.start;
    if (bytes + length > FOLD_TARGET_BYTES || entries + head.entries.length > BLOCK_ENTRIES_MAX || border.has(head.start)) close();
    if (length >= FOLD_SMALL_BYTES) {
      close();
      continue;
    }
    group.push({ entry, head });
    bytes += length;
    entries += head.entries.length;
  }
  close();
  return ops;
}

/** What a step of folding found. */
export interface FoldStep {
  readonly ops: readonly HotOp[];
  /** The range of the values that were read: the operations are valid while all of it is hot, of this incarnation, and no new border lies in it. */
  readonly from: Offset;
  readonly to: Offset;
  /** Whether values above `to` are left. */
  readonly more: boolean;
}

/** Reads whole values within [from, to) of a stream, at most about `FOLD_STEP_BYTES` of them, and plans their folding. */
export async function foldStep(store: Pick<HotStore, 'scan'>, slot: number, incarnation: Incarnation, from: Offset, to: Offset, borders: readonly Offset[]): Promise<FoldStep> {
  const rows: HotEntry[] = [];
  let bytes = 0;
  let more = false;
  reading: for await (const page of store.scan({ ...dataRow.range(slot, incarnation, from + 1, to + 1), pageBytes: FOLD_STEP_BYTES })) {
    for (const entry of page) {
      if (bytes >= FOLD_STEP_BYTES) {
        more = true;
        break reading;
      }
      // A value that begins below the range is not ours to change.
      if (rows.length === 0 && readHead(entry).start < from) continue;
      rows.push(entry);
      bytes += entry.value.length;
    }
  }
  const first = rows[0];
  const last = rows.at(-1);
  if (first === undefined || last === undefined) return { ops: [], from, to, more: false };
  return { ops: planFold(rows, borders), from: readHead(first).start, to: readHead(last).end, more };
}

function isWorth(rows: number, bytes: number): boolean {
  return rows >= FOLD_ROWS_MIN || (rows >= 2 && bytes >= FOLD_SMALL_BYTES);
}

/** The joined value takes the key of the last one. */
function addFold(ops: HotOp[], group: readonly Row[]): void {
  const last = group.at(-1) as Row;
  for (const { entry } of group.slice(0, -1)) ops.push({ type: 'del', key: entry.key });
  try {
    ops.push({ type: 'put', key: last.entry.key, value: mergeBlocks(group.map(({ entry }) => entry.value)) });
  } catch (error) {
    if (error instanceof BadBytes) throw damaged(last.entry, error.message, error);
    throw error;
  }
}

function readHead(entry: HotEntry): BlockHead {
  try {
    const head = decodeBlockHead(entry.value);
    if (head.end !== dataRow.decodeKey(entry.key).end) throw new BadBytes('data row', `a block up to ${head.end} under another end`);
    return head;
  } catch (error) {
    if (error instanceof BadBytes) throw damaged(entry, error.message, error);
    throw error;
  }
}

function damaged(entry: HotEntry, detail: string, cause?: unknown): HotDamaged {
  const { incarnation, end } = dataRow.decodeKey(entry.key);
  return new HotDamaged(incarnation, end, detail, { cause });
}
