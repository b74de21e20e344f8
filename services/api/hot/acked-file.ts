/**
 * The side file `acked`: the highest batch that was acknowledged (architecture section 5).
 *
 * Owns: its 24 bytes: magic and version (8) | batch number (8) | the batch's chain sum (4) | CRC32C of all that (4), little-endian. They are overwritten in place, unsynced,
 * after each commit and before its answer: the file survives the death of the process, and may lag after a loss of power. It never runs ahead of the store.
 */
import { writeSync } from 'node:fs';
import { constants, open, type FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { crc32c } from '../../../shared/storage/crc.js';

const MAGIC = Buffer.from('FIRNACK\x01', 'latin1');
const FILE_BYTES = 24;
const SUM_AT = 20;

export interface Acked {
  readonly n: number;
  readonly crc: number;
}

export class AckedFile {
  private readonly bytes = Buffer.alloc(FILE_BYTES);
  private failing = false;

  private constructor(private readonly file: FileHandle, private readonly path: string, private readonly logger: Pick<Logger, 'warn'>, public last: Acked | null, readonly state: 'read' | 'missing' | 'torn') {
    MAGIC.copy(this.bytes);
  }

  /** Creates the file when it is missing. What was read stands in `last`, null: missing or torn. */
  static async open(path: string, logger: Pick<Logger, 'warn'>): Promise<AckedFile> {
    const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o644);
    try {
      const content = Buffer.alloc(FILE_BYTES);
      const { bytesRead } = await file.read(content, 0, FILE_BYTES, 0);
      const last = bytesRead === FILE_BYTES ? decodeAcked(content) : null;
      return new AckedFile(file, path, logger, last, last !== null ? 'read' : bytesRead === 0 ? 'missing' : 'torn');
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** A write into the page cache, measured at 2 to 4 microseconds. A failure weakens the check at the next start, no more: it is logged once. */
  write(n: number, crc: number): void {
    this.last = { n, crc };
    const { bytes } = this;
    bytes.writeUInt32LE(n >>> 0, 8);
    bytes.writeUInt32LE(Math.floor(n / 0x1_0000_0000), 12);
    bytes.writeUInt32LE(crc, 16);
    bytes.writeUInt32LE(crc32c(bytes.subarray(0, SUM_AT)), SUM_AT);
    try {
      writeSync(this.file.fd, bytes, 0, FILE_BYTES, 0);
      this.failing = false;
    } catch (error) {
      if (!this.failing) this.logger.warn({ event: 'acked-write-failed', path: this.path, err: error }, 'the highest acknowledged batch could not be noted');
      this.failing = true;
    }
  }

  close(): Promise<void> {
    return this.file.close();
  }
}

/** null: not what `write` wrote. */
function decodeAcked(bytes: Buffer): Acked | null {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) return null;
  if (crc32c(bytes.subarray(0, SUM_AT)) !== bytes.readUInt32LE(SUM_AT)) return null;
  const n = bytes.readUInt32LE(12) * 0x1_0000_0000 + bytes.readUInt32LE(8);
  return Number.isSafeInteger(n) ? { n, crc: bytes.readUInt32LE(16) } : null;
}
