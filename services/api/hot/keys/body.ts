/**
 * Body of an inline snapshot in pieces: `kind | slot (2) | incarnation (8) | snapshot offset (8) | n (4)` -> at most 256 KiB of raw bytes, n from 0. Their sum stands
 * in the `SnapshotRecord`.
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { BLOCK_PAYLOAD_MAX } from '../../../../shared/storage/block.js';
import { BadBytes } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newIncarnationKey, newOffsetKey, putU32, putU64, within, type KeyRange } from './layout.js';

/** Most bytes of one piece. */
export const BODY_CHUNK_MAX = BLOCK_PAYLOAD_MAX;

export const bodyRow = {
  kind: KIND.body,
  key(slot: number, incarnation: Incarnation, offset: Offset, n: number): Buffer {
    const key = newIncarnationKey(KIND.body, slot, incarnation, 12);
    putU64(key, offset, 11);
    putU32(key, n, 19);
    return key;
  },
  /** Pieces of one snapshot, or of all snapshots of the incarnation. */
  range(slot: number, incarnation: Incarnation, offset?: Offset): KeyRange {
    return within(offset === undefined ? newIncarnationKey(KIND.body, slot, incarnation, 0) : newOffsetKey(KIND.body, slot, incarnation, offset));
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly offset: Offset; readonly n: number } {
    const reader = new KeyReader(key, 'body', KIND.body, 22);
    const decoded = { slot: reader.u16(), incarnation: reader.incarnation(), offset: reader.offset(), n: reader.u32() };
    reader.end();
    return decoded;
  },
  encode(chunk: Buffer): Buffer {
    if (chunk.length > BODY_CHUNK_MAX) throw new RangeError(`a piece of ${chunk.length} bytes`);
    return chunk;
  },
  decode(value: Buffer): Buffer {
    if (value.length > BODY_CHUNK_MAX) throw new BadBytes('body', `a piece of ${value.length} bytes`);
    return value;
  },
};
