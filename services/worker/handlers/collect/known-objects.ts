/**
 * What checkpoint and log say of the data objects of a partition (I8).
 *
 * Owns: the table of objects that the history knows, from the newest checkpoint and every log record behind it. Promises: read from objects alone; what is garbage
 * was so at or before the older of the newest two checkpoints; an object that is missing here is named by no record that was written before the last call of `read`.
 */
import { comparePositions, LOG_START, readLog, type LogPosition } from '../../../../shared/storage/history/log-reader.js';
import type { CheckpointManifest } from '../../../../shared/storage/checkpoint.js';
import type { ObjectStore } from '../../../../shared/storage/object-store.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { LogRecord } from '../../../../shared/storage/records/types.js';

/** `alive`: named, or brought in since. `garbage`: may go. `uncovered`: dropped, but the older checkpoint does not hold that yet. */
type Standing = 'alive' | 'garbage' | 'uncovered';

export interface KnownObject {
  readonly bytes: number;
  readonly standing: Standing;
}

export interface KnownObjectsOptions {
  readonly store: ObjectStore;
  readonly partition: number;
  /** The session that runs. */
  readonly session: number;
  readonly signal: AbortSignal;
}

export class KnownObjects {
  readonly objects = new Map<string, KnownObject>();
  readonly #options: KnownObjectsOptions;
  #end: LogPosition;

  private constructor(options: KnownObjectsOptions, start: LogPosition) {
    this.#options = options;
    this.#end = start;
  }

  static async load(options: KnownObjectsOptions, newest: CheckpointManifest | null, older: LogPosition | null): Promise<KnownObjects> {
    const known = new KnownObjects(options, newest ?? LOG_START);
    for (const { id, bytes, droppedAt } of newest?.objects ?? []) {
      const covered = droppedAt !== null && older !== null && comparePositions(droppedAt, older) <= 0;
      known.objects.set(objectKey(id), { bytes, standing: droppedAt === null ? 'alive' : covered ? 'garbage' : 'uncovered' });
    }
    await known.read();
    return known;
  }

  /** Takes the records in that were written since. Throws when the log has a hole, or an earlier session no fence. */
  async read(): Promise<void> {
    const { store, partition, session, signal } = this.#options;
    for await (const { record } of readLog({ store, partition, after: this.#end, until: session, live: true, signal })) {
      this.#note(record);
      this.#end = { session: record.session, seq: record.seq };
    }
  }

  /** An object that was dropped never is named again: references are only ever taken over from streams that have them. So only what comes in and what goes counts. */
  #note(record: LogRecord): void {
    for (const { id, bytes } of record.objects) this.objects.set(objectKey(id), { bytes, standing: 'alive' });
    for (const delta of record.deltas) if (delta.kind === 'collect') for (const id of delta.objects) this.objects.delete(objectKey(id));
  }
}
