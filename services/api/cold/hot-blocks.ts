/**
 * The hot blocks of a range, cut to it exactly and joined to large ones: what a seal uploads and is compared with.
 *
 * Owns: the cut of a stored block at a frontier that lies inside it (a retention boundary, or a value folded meanwhile), and the sums of a range.
 * Promises: entry boundaries and times survive every cut and join; a damaged value throws `BadBytes`, a missing one `HotGap` (I9).
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { checkBlock, decodeBlock, decodeBlockHead, decodeBlockSpan, encodeBlock, type Block, type BlockEntry, type BlockHead } from '../../../shared/storage/block.js';
import { crc32cCombine } from '../../../shared/storage/crc.js';
import { joinedBlocks } from '../../../shared/storage/join-blocks.js';
import { HotGap } from '../hot/errors.js';
import { dataRow } from '../hot/keys/index.js';
import { SCAN_PAGE_BYTES } from '../hot/rocks-store.js';
import type { HotReads } from '../hot/store.js';

/** Allowance for keys and heads of blocks, so that a short range is fetched in one page and no more. */
const PAGE_SLACK_BYTES = 4_096;

export interface HotRange {
  readonly slot: number;
  readonly incarnation: Incarnation;
  readonly from: Offset;
  readonly to: Offset;
}

/** Stored values that overlap the range, in order and without a gap; the first and the last may reach beyond it. */
async function* storedValues(store: HotReads, range: HotRange): AsyncGenerator<Buffer> {
  const { slot, incarnation, from, to } = range;
  let at = from;
  if (at >= to) return;
  for await (const page of store.scan({ ...dataRow.covering(slot, incarnation, from, to), through: to, pageBytes: Math.min(SCAN_PAGE_BYTES, to - from + PAGE_SLACK_BYTES) })) {
    for (const { value } of page) {
      const head = decodeBlockSpan(value);
      if (head.start > at) throw new HotGap(incarnation, at);
      if (head.end <= at) continue;
      yield value;
      at = head.end;
      if (at >= to) return;
    }
  }
  throw new HotGap(incarnation, at);
}

/** The part of a block within [from, to), itself when that is all of it. Its bytes were checked. */
export function cutBlock(value: Buffer, from: Offset, to: Offset): Buffer {
  const span = checkBlock(value);
  if (span.start >= from && span.end <= to) return value;
  const block = decodeBlock(value);
  const start = Math.max(block.start, from) as Offset;
  const end = Math.min(block.end, to) as Offset;
  const { entries, resumes, continues } = entriesWithin(block, start, end);
  return encodeBlock({ start, resumes, continues, entries, payload: [block.payload.subarray(start - block.start, end - block.start)] });
}

function entriesWithin(block: Block, from: Offset, to: Offset): { entries: BlockEntry[]; resumes: boolean; continues: boolean } {
  const entries: BlockEntry[] = [];
  let resumes = false;
  let continues = false;
  let at = block.start as number;
  for (const [index, entry] of block.entries.entries()) {
    const end = at + entry.bytes;
    const low = Math.max(at, from);
    const high = Math.min(end, to);
    if (high > low) {
      if (entries.length === 0) resumes = low > at || (index === 0 && block.resumes);
      continues = high < end || (index === block.entries.length - 1 && block.continues);
      entries.push({ bytes: high - low, atMs: entry.atMs });
    }
    at = end;
  }
  return { entries, resumes, continues };
}

/** Blocks that cover the range exactly, neighbours joined as far as one block holds them. Every byte was checked against its sum. */
export function rangeBlocks(store: HotReads, range: HotRange): AsyncGenerator<Buffer> {
  return joinedBlocks(cutValues(store, range));
}

async function* cutValues(store: HotReads, range: HotRange): AsyncGenerator<Buffer> {
  for await (const value of storedValues(store, range)) yield cutBlock(value, range.from, range.to);
}

/** Sum of a range's bytes and of its append boundaries, however it is cut into blocks. */
export class RangeSum {
  #at: Offset;
  #crc = 0;
  #boundaries = 0;
  #entries = 0;

  constructor(readonly from: Offset) {
    this.#at = from;
  }

  get end(): Offset {
    return this.#at;
  }

  /** Takes the next block; false when it does not continue the range. The sum of its payload is the stored one. */
  add(head: BlockHead): boolean {
    if (head.start !== this.#at) return false;
    this.#crc = crc32cCombine(this.#crc, head.crc, head.end - head.start);
    let at = head.start as number;
    const last = head.entries.length - 1;
    for (const [index, entry] of head.entries.entries()) {
      at += entry.bytes;
      if (index === last && head.continues) break;
      this.#note(at, entry.atMs);
    }
    this.#at = head.end;
    return true;
  }

  #note(end: number, atMs: number): void {
    this.#entries++;
    let sum = Math.imul(this.#boundaries ^ (end % 0x1_0000_0000), 0x9e37_79b1);
    sum = Math.imul((sum ^ (sum >>> 15)) + Math.floor(end / 0x1_0000_0000), 0x85eb_ca77);
    sum = Math.imul(sum ^ (sum >>> 13) ^ (atMs % 0x1_0000_0000), 0xc2b2_ae3d);
    this.#boundaries = (sum ^ (sum >>> 16)) >>> 0;
  }

  equals(other: RangeSum): boolean {
    return this.from === other.from && this.#at === other.#at && this.#crc === other.#crc && this.#entries === other.#entries && this.#boundaries === other.#boundaries;
  }
}

/** The sums stored at append over a range that is hot. Values that the range cuts are summed anew after their own check. */
export async function hotSum(store: HotReads, range: HotRange): Promise<RangeSum> {
  const sum = new RangeSum(range.from);
  for await (const value of storedValues(store, range)) {
    let head = decodeBlockHead(value);
    if (head.start < range.from || head.end > range.to) head = decodeBlockHead(cutBlock(value, range.from, range.to));
    if (!sum.add(head)) throw new HotGap(range.incarnation, sum.end);
  }
  return sum;
}
