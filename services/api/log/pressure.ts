/**
 * Why writes are refused for lack of room: the disk, or a cold tier that is behind (architecture sections 3 and 6, R008, R018).
 *
 * Owns: the two thresholds and their hysteresis. Promises: it lifts by itself; reads are never refused.
 */
import { statfs } from 'node:fs/promises';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Logger } from '../../../shared/observability/logger.js';

/** How often free space is looked at. */
const DISK_CHECK_MS = 1_000;

export interface PressureOptions {
  readonly dir: string;
  readonly diskFreeMin: number;
  /** Infinity without a cold tier. */
  readonly unsealedBytesMax: number;
  readonly unsealedBytes: () => number;
  readonly logger: Logger;
}

export class Pressure {
  readonly #options: PressureOptions;
  #timer: NodeJS.Timeout | null = null;
  #diskLow = false;
  #freeBytes = Infinity;

  constructor(options: PressureOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#look();
    this.#timer = setInterval(() => void this.#look(), DISK_CHECK_MS);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  get freeBytes(): number {
    return this.#freeBytes;
  }

  get refusal(): FirnError | null {
    if (this.#diskLow) return new FirnError('WAL_DISK_PRESSURE');
    if (this.#options.unsealedBytes() >= this.#options.unsealedBytesMax) return new FirnError('COLD_BACKPRESSURE');
    return null;
  }

  /** Refused below the minimum, until twice as much is free. */
  async #look(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(this.#options.dir);
      this.#freeBytes = bavail * bsize;
    } catch (error) {
      this.#options.logger.error({ err: error, event: 'statfs-failed' }, 'free disk space could not be read');
      return;
    }
    const low = this.#freeBytes < this.#options.diskFreeMin * (this.#diskLow ? 2 : 1);
    if (low !== this.#diskLow) this.#options.logger.warn({ event: low ? 'disk-pressure' : 'disk-pressure-over', freeBytes: this.#freeBytes }, low ? 'the disk is nearly full: writes are refused' : 'there is room on the disk again');
    this.#diskLow = low;
  }
}
