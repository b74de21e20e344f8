/**
 * What the cold tier counts.
 *
 * Owns: the narrow face of the node's metrics that these modules use. Promises: counting never throws.
 */
import type { CollectReport } from '../../worker/node-port.js';
import type { ColdUse, Metrics } from '../../../shared/observability/metrics.js';

type ObjectKindLabel = keyof Metrics['objectsWritten'];
type DamageLabel = keyof Metrics['damage'];

export interface ColdMetrics {
  objectWritten(kind: ObjectKindLabel, bytes: number): void;
  storeError(): void;
  damage(where: DamageLabel): void;
  sealed(seconds: number): void;
  evicted(bytes: number): void;
  frame(result: 'hit' | 'miss'): void;
  /** A frame that memory did not hold was looked for on disk; `damaged`: it was there and failed its sum. */
  diskFrame(result: keyof Metrics['diskCache']): void;
  frameEvicted(from: keyof Metrics['frameEvictions']): void;
  diskWriteFailed(): void;
  jobFailed(): void;
  /** A compaction was carried out; stored bytes, and references before and after. */
  compacted(done: { readonly read: number; readonly refsBefore: number; readonly refsAfter: number }): void;
  /** What a partition's objects are, as a look at all of them found. */
  coldUse(partition: number, use: ColdUse): void;
  collected(report: CollectReport): void;
  readerCut(): void;
}

export function coldMetrics(metrics: Metrics): ColdMetrics {
  return {
    objectWritten: (kind, bytes) => {
      metrics.objectsWritten[kind].add();
      metrics.objectBytesWritten[kind].add(bytes);
    },
    storeError: () => metrics.storeErrors.add(),
    damage: (where) => metrics.damage[where].add(),
    sealed: (seconds) => {
      metrics.seals.add();
      metrics.sealSeconds.observe(seconds);
    },
    evicted: (bytes) => metrics.evictedBytes.add(bytes),
    frame: (result) => metrics.frameCache[result].add(),
    diskFrame: (result) => metrics.diskCache[result].add(),
    frameEvicted: (from) => metrics.frameEvictions[from].add(),
    diskWriteFailed: () => metrics.diskCacheWriteFailures.add(),
    jobFailed: () => metrics.jobFailures.add(),
    compacted: ({ read, refsBefore, refsAfter }) => {
      metrics.compactions.add();
      metrics.compactedBytesRead.add(read);
      metrics.compactedRefs.replaced.add(refsBefore);
      metrics.compactedRefs.written.add(refsAfter);
    },
    coldUse: (partition, use) => void metrics.coldUse.set(partition, use),
    collected: ({ objects, orphans, checkpoints, logs, bytes }) => {
      metrics.objectsDeleted.object.add(objects);
      metrics.objectsDeleted.orphan.add(orphans);
      metrics.objectsDeleted.checkpoint.add(checkpoints);
      metrics.objectsDeleted.log.add(logs);
      metrics.objectBytesDeleted.add(bytes);
    },
    readerCut: () => metrics.coldReadersCut.add(),
  };
}
