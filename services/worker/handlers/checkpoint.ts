/**
 * Job `checkpoint`: the checkpoint before merged with the log behind it, from objects alone (architecture section 6).
 *
 * Owns: nothing that lasts. Promises: what it covers is the log up to a record that the node has applied; the manifest comes last, so a run that was killed
 * leaves parts that nothing names; two runs for one place write the same state, and the first manifest counts.
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { CheckpointWriter, encodeCheckpointManifest, type BucketFence, type CheckpointManifest, type CheckpointObject, type CheckpointPart, type CheckpointPartInfo } from '../../../shared/storage/checkpoint.js';
import { checkpointKey, checkpointPartKey } from '../../../shared/storage/keys.js';
import { ATTEMPT_MAX, objectKey, partitionDigits, sessionDigits } from '../../../shared/storage/records/object-id.js';
import type { ObjectId, ObjectInfo } from '../../../shared/storage/records/types.js';
import type { CheckpointItem } from '../../../shared/storage/checkpoint.js';
import { checkpointItems, newestSound, type DamagedCheckpoint } from '../../../shared/storage/history/checkpoints.js';
import { comparePositions, LOG_START, readLog, type LogPosition } from '../../../shared/storage/history/log-reader.js';
import { LogOverlay } from '../../../shared/storage/history/log-overlay.js';
import { mergeItems } from '../../../shared/storage/history/merge-items.js';
import { Pace } from '../../../shared/time/pace.js';
import type { CheckpointReport, NodePort } from '../node-port.js';

/** Items merged before others get their turn: two milliseconds. */
const ITEMS_A_TURN = 256;

const JOB = /^(\d{4})-\d{6}-(\d+)$/;

/** `{partition}-{session}-{run}`: `run` counts within a session. */
export function checkpointJobId(partition: number, session: number, run: number): string {
  return `${partitionDigits(partition)}-${sessionDigits(session)}-${run}`;
}

export interface CheckpointOptions {
  readonly now: () => number;
  /** Smaller parts for tests. */
  readonly partBytesMax?: number;
}

export function checkpointHandler(port: NodePort, options: CheckpointOptions): JobHandler {
  return async (jobId, signal) => {
    const match = JOB.exec(jobId);
    if (match === null) throw new Error(`"${jobId}" is no checkpoint job`);
    try {
      const done = await writeCheckpoint(port, Number(match[1]), Number(match[2]) % (ATTEMPT_MAX + 1), options, signal);
      await port.checkpointed(jobId, done);
    } catch (error) {
      await port.failed(jobId, error instanceof Error ? error.message : String(error)).catch(() => undefined);
      throw error;
    }
  };
}

async function writeCheckpoint(port: NodePort, partition: number, attempt: number, options: CheckpointOptions, signal: AbortSignal): Promise<CheckpointReport> {
  const store = port.objects;
  const target = await port.logPosition(partition);
  if (target.session === 0) return { partition, ...target, streams: 0, bytes: 0, damaged: 0 };
  const passedOver: DamagedCheckpoint[] = [];
  const before = await newestSound({ store, partition, look: 'sums', signal, damaged: (one) => passedOver.push(one) });
  const damaged = passedOver.length;
  // One that is damaged keeps its place in the log: the next record makes room for another.
  const isTaken = passedOver.some(({ at }) => comparePositions(at, target) >= 0);
  if (isTaken || (before !== null && comparePositions(before, target) >= 0)) return { partition, session: before?.session ?? 0, seq: before?.seq ?? 0, streams: before?.streams ?? 0, bytes: 0, damaged };
  const overlay = new LogOverlay();
  for await (const { record } of readLog({ store, partition, after: before ?? LOG_START, until: target.session, live: true, signal })) {
    if (comparePositions(record, target) > 0) break;
    overlay.add(record);
  }
  const parts: CheckpointPartInfo[] = [];
  const uses = new ObjectUses();
  const writer = new CheckpointWriter({ partBytesMax: options.partBytesMax });
  const put = async (part: CheckpointPart): Promise<void> => {
    const key = checkpointPartKey({ partition, session: target.session, seq: target.seq, attempt, part: part.part });
    if ((await store.putOnce(key, part.body, signal)) === 'exists-theirs') throw new Error(`another run wrote other bytes to ${key}`);
    parts.push({ part: part.part, bytes: part.bytes, crc: part.crc, streams: part.streams });
  };
  const pace = new Pace();
  let untilRest = ITEMS_A_TURN;
  for await (const item of mergeItems(checkpointItems(store, before), overlay)) {
    // Nothing here waits for anything as long as a part is read or filled: others would not get their turn.
    if (--untilRest === 0) {
      untilRest = ITEMS_A_TURN;
      await pace.rest(signal);
    }
    uses.note(item);
    const part = await writer.add(item);
    if (part !== null) await put(part);
  }
  const last = await writer.finish();
  if (last !== null) await put(last);
  const manifest: CheckpointManifest = {
    partition,
    session: target.session,
    seq: target.seq,
    attempt,
    writtenAtMs: options.now(),
    streams: parts.reduce((sum, part) => sum + part.streams, 0),
    parts,
    objects: uses.table(before, overlay, target),
    fences: fencesOf(before, overlay),
  };
  const body = encodeCheckpointManifest(manifest);
  // Another run for this very place was first: its checkpoint holds the same, and these parts are orphans.
  await store.putOnce(checkpointKey(partition, target.session, target.seq), body, signal);
  const bytes = parts.reduce((sum, part) => sum + part.bytes, body.length);
  return { partition, ...target, streams: manifest.streams, bytes, damaged };
}

/** Counts what names each object, anew from the merged state: nothing that went wrong earlier is carried along (I8). */
class ObjectUses {
  readonly #refs = new Map<string, number>();

  note(item: CheckpointItem): void {
    if (item.kind === 'refs') for (const ref of item.refs) this.#count(ref.object);
    else if (item.kind === 'stream' && item.state.snapshot !== null && item.state.snapshot.cold !== null) this.#count(item.state.snapshot.cold.ref.object);
  }

  #count(id: ObjectId): void {
    const key = objectKey(id);
    this.#refs.set(key, (this.#refs.get(key) ?? 0) + 1);
  }

  /** Every object that the log named and that was not collected. One that lost its last reference in this stretch counts as dropped at its end, never too early. */
  table(before: CheckpointManifest | null, overlay: LogOverlay, end: LogPosition): CheckpointObject[] {
    const table = new Map<string, CheckpointObject>();
    const add = (info: ObjectInfo, droppedBefore: LogPosition | null): void => {
      const key = objectKey(info.id);
      if (overlay.collected.has(key) && !overlay.objects.has(key)) return;
      const refs = this.#refs.get(key) ?? 0;
      table.set(key, { id: info.id, bytes: info.bytes, crc: info.crc, refs, droppedAt: refs > 0 ? null : (droppedBefore ?? { session: end.session, seq: end.seq }) });
    };
    for (const object of before?.objects ?? []) add(object, object.droppedAt);
    for (const [key, object] of overlay.objects) add(object, table.get(key)?.droppedAt ?? null);
    for (const [key, refs] of this.#refs) {
      if (!table.has(key)) throw new Error(`${refs} references name ${key}, which no log record brought in`);
    }
    return [...table.values()];
  }
}

function fencesOf(before: CheckpointManifest | null, overlay: LogOverlay): BucketFence[] {
  const fences = new Map((before?.fences ?? []).map((fence) => [fence.bucket, fence.atMs]));
  for (const [bucket, atMs] of overlay.purges) if (!fences.has(bucket)) fences.set(bucket, atMs);
  return [...fences].map(([bucket, atMs]) => ({ bucket, atMs }));
}
