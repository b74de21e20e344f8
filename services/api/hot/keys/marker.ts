/**
 * Commit markers: `kind | n mod ring (4)` -> number of a batch and sums. One is written in every batch and replaces that of `ring` batches before.
 * The sum runs over the keys and values of the batch, starting from the sum of the batch before (`before`): a chain.
 */
import { BadBytes } from '../../../../shared/storage/codec.js';
import { crc32cRange } from '../../../../shared/storage/crc.js';
import { KIND, KeyReader, newKey, putU32, within, type KeyRange } from './layout.js';

/**
 * Markers kept. Must exceed the number of batches that can lie in the write-ahead log and nowhere else: at a memtable of 64 MiB these were up to
 * 330,000 small ones (architecture section 5).
 */
export const MARKER_RING = 1_048_576;
const VERSION = 1;
/** version (1) | n (8) | crc (4) | before (4) | CRC32C of all that (4), little-endian. Fixed, since a start reads up to a million of them. */
const VALUE_BYTES = 21;
const SUM_AT = 17;

export interface Marker {
  readonly n: number;
  readonly crc: number;
  readonly before: number;
}

export const markerRow = {
  kind: KIND.marker,
  key(n: number, ring = MARKER_RING): Buffer {
    const key = newKey(KIND.marker, 4);
    putU32(key, n % ring, 1);
    return key;
  },
  range(): KeyRange {
    return within(newKey(KIND.marker, 0));
  },
  decodeKey(key: Buffer): { readonly position: number } {
    const reader = new KeyReader(key, 'marker', KIND.marker, 4);
    const position = reader.u32();
    reader.end();
    return { position };
  },
  encode(marker: Marker): Buffer {
    const value = Buffer.allocUnsafe(VALUE_BYTES);
    value[0] = VERSION;
    value.writeUInt32LE(marker.n >>> 0, 1);
    value.writeUInt32LE(Math.floor(marker.n / 0x1_0000_0000), 5);
    value.writeUInt32LE(marker.crc, 9);
    value.writeUInt32LE(marker.before, 13);
    value.writeUInt32LE(crc32cRange(value, 0, SUM_AT), SUM_AT);
    return value;
  },
  decode(value: Buffer): Marker {
    if (value.length !== VALUE_BYTES) throw new BadBytes('marker', `${value.length} bytes`);
    if (crc32cRange(value, 0, SUM_AT) !== value.readUInt32LE(SUM_AT)) throw new BadBytes('marker', 'checksum does not match');
    if (value[0] !== VERSION) throw new BadBytes('marker', `format version ${value[0]} is not known`);
    const n = value.readUInt32LE(5) * 0x1_0000_0000 + value.readUInt32LE(1);
    if (!Number.isSafeInteger(n)) throw new BadBytes('marker', 'a number beyond 2^53-1');
    return { n, crc: value.readUInt32LE(9), before: value.readUInt32LE(13) };
  },
};
