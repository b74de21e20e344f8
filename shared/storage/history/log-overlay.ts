/**
 * What a stretch of log does to a partition: to its streams, kept by key, to its subscriptions, and to what both lie in.
 *
 * Owns: the changes of the stretch, for whoever rebuilds state from objects alone (checkpoint, restore). Promises: streams take as much memory as their changes do in the log, unpacked, and some 100 bytes each.
 */
import type { StreamKey } from '../../protocol/types.js';
import { sortedCheckpointKeys } from '../checkpoint-item.js';
import { objectKey } from '../records/object-id.js';
import type { LogDelta, LogRecord, ObjectInfo } from '../records/types.js';
import { KeyChange } from './key-change.js';
import { PackedChanges } from './packed-changes.js';
import { SubscriptionOverlay } from './subscription-overlay.js';

export class LogOverlay {
  readonly objects = new Map<string, ObjectInfo>();
  readonly collected = new Set<string>();
  /** Bucket -> when. */
  readonly purges = new Map<string, number>();
  readonly subscriptions = new SubscriptionOverlay();
  readonly #streams = new PackedChanges();
  records = 0;

  /** Streams that the stretch speaks of. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Their keys, in the order of a checkpoint. */
  keys(): StreamKey[] {
    return sortedCheckpointKeys(this.#streams.keys());
  }

  /** What became of one of them, null for any other. Made anew at each call: of all streams together it would not fit. Throws for a compaction of references that were not there. */
  change(key: StreamKey): KeyChange | null {
    const packed = this.#streams.of(key);
    if (packed === null) return null;
    const change = new KeyChange();
    for (const { delta, renews } of packed) change.add(delta, renews);
    return change;
  }

  add(record: LogRecord): void {
    this.records++;
    for (const object of record.objects) this.objects.set(objectKey(object.id), object);
    for (const delta of record.deltas) this.#delta(record, delta);
  }

  #delta(record: LogRecord, delta: LogDelta): void {
    switch (delta.kind) {
      case 'seal':
      case 'offload':
      case 'delete':
      case 'compact':
        return this.#streams.add(delta, record.plan === null);
      case 'purge':
        if (!this.purges.has(delta.bucket)) this.purges.set(delta.bucket, record.writtenAtMs);
        return;
      case 'collect':
        for (const id of delta.objects) {
          this.collected.add(objectKey(id));
          this.objects.delete(objectKey(id));
        }
        return;
      case 'subscription':
        return this.subscriptions.put(delta);
      case 'unsubscribe':
        return this.subscriptions.end(delta.id);
      default:
        throw new Error(`unknown change ${(delta satisfies never as LogDelta).kind}`);
    }
  }
}
