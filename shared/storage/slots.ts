/**
 * From stream key to slot to partition (architecture section 7).
 *
 * Owns: the slot hash (`crc32c-16` in `store.json`) and the cut of the 65,536 slots into contiguous, near-equal partitions.
 * Both are part of the stored format: a change needs a new name of the hash.
 */
import type { StreamKey } from '../protocol/types.js';
import { crc32cRange } from './crc.js';

export const SLOTS = 65_536;
/** Incarnation tokens hold 10 bits of partition. */
export const PARTITIONS_MAX = 1_024;

/** A key has at most 122 bytes of UTF-8; a scratch of 4 KiB also holds what a test may feed. */
const scratch = Buffer.allocUnsafeSlow(4_096);

/** Low 16 bits of CRC32C over the key's UTF-8: 0 .. 65535. */
export function slotOf(key: StreamKey): number {
  if (key.length * 3 > scratch.length) {
    const bytes = Buffer.from(key, 'utf8');
    return crc32cRange(bytes, 0, bytes.length) & 0xffff;
  }
  const bytes = scratch.write(key, 0, 'utf8');
  return crc32cRange(scratch, 0, bytes) & 0xffff;
}

/** Partition that owns a slot: 0 .. partitions-1. */
export function partitionOf(slot: number, partitions: number): number {
  checkPartitions(partitions);
  if (!Number.isInteger(slot) || slot < 0 || slot >= SLOTS) throw new RangeError(`not a slot: ${slot}`);
  return Math.floor((slot * partitions) / SLOTS);
}

/** Slots [from, to) of a partition; `to` goes up to 65536. */
export function slotRangeOf(partition: number, partitions: number): { readonly from: number; readonly to: number } {
  checkPartitions(partitions);
  if (!Number.isInteger(partition) || partition < 0 || partition >= partitions) throw new RangeError(`not a partition: ${partition} of ${partitions}`);
  return { from: Math.ceil((partition * SLOTS) / partitions), to: Math.ceil(((partition + 1) * SLOTS) / partitions) };
}

function checkPartitions(partitions: number): void {
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > PARTITIONS_MAX) throw new RangeError(`not a count of partitions: ${partitions}`);
}
