/**
 * Checks of the log and the newest two checkpoints of every partition: what a restore would read (`firn verify`; I8, I9, I10).
 */
import type { ObjectStore } from '../../../../shared/storage/object-store.js';
import { heldFrom } from '../../../../shared/storage/records/stream-record.js';
import { entriesOfItems, type CheckpointItem } from '../../../../shared/storage/checkpoint.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { ObjectId, ObjectInfo } from '../../../../shared/storage/records/types.js';
import { checkpointItems, newestCheckpoints, readManifest } from '../../../../shared/storage/history/checkpoints.js';
import { LOG_START, readLog, type LogPosition } from '../../../../shared/storage/history/log-reader.js';
import { LogOverlay } from '../../../../shared/storage/history/log-overlay.js';
import { mergeItems } from '../../../../shared/storage/history/merge-items.js';
import { newestSession } from '../sessions.js';
import { Findings } from './findings.js';
import type { LoggedSubscriptions } from './subscriptions.js';

/** Looks at a history whose checkpoints a running node replaces meanwhile. */
const LOOKS_MAX = 5;

export interface HistoryReport {
  readonly partition: number;
  readonly sessions: number;
  readonly records: number;
  readonly streams: number;
}

export interface HistoryCheckOptions {
  readonly objects: ObjectStore;
  readonly partition: number;
  /** Told what the newest history holds. */
  readonly subscriptions: LoggedSubscriptions;
  readonly findings: Findings;
  readonly signal: AbortSignal;
  /** The hot store knows the object, so it is looked at there. */
  readonly isKnown: (id: ObjectId) => Promise<boolean>;
}

/** Reads what a restore of the partition would read, all of it: from the newest checkpoint, and from the one before, which is kept as long for that. */
export async function checkHistory(options: HistoryCheckOptions): Promise<HistoryReport> {
  const { objects, partition, subscriptions, findings } = options;
  const where = `the log of partition ${partition}`;
  for (let look = 1; ; look++) {
    const faults = new Findings();
    let report: HistoryReport = { partition, sessions: 0, records: 0, streams: 0 };
    let at = '';
    await faults.attempt(where, async () => {
      const found = await newestCheckpoints(objects, partition);
      at = JSON.stringify(found);
      if (found.older !== null) await checkFrom(options, faults, found.older, `${where} behind the checkpoint before the newest`, (items) => items);
      report = await checkFrom(options, faults, found.newest, where, (items) => subscriptions.noting(items));
    });
    // What a collection took away meanwhile is no fault.
    const moved = faults.count > 0 && look < LOOKS_MAX && JSON.stringify(await newestCheckpoints(objects, partition).catch(() => null)) !== at;
    if (moved) continue;
    for (const fault of faults.listed) findings.add(fault.where, fault.what);
    return report;
  }
}

type Noting = (items: AsyncIterable<CheckpointItem>) => AsyncIterable<CheckpointItem>;

async function checkFrom({ objects, partition, signal, isKnown }: HistoryCheckOptions, findings: Findings, at: LogPosition | null, where: string, noting: Noting): Promise<HistoryReport> {
  const sessions = await newestSession(objects, partition);
  const manifest = at === null ? null : await readManifest(objects, partition, at);
  const overlay = new LogOverlay();
  let records = 0;
  let streams = 0;
  for await (const { record } of readLog({ store: objects, partition, after: manifest ?? LOG_START, until: sessions, live: true, signal })) {
    overlay.add(record);
    records++;
  }
  const known = new Map<string, ObjectInfo>();
  for (const object of manifest?.objects ?? []) if (!overlay.collected.has(objectKey(object.id))) known.set(objectKey(object.id), object);
  for (const [key, object] of overlay.objects) known.set(key, object);
  const named = new Set<string>();
  for await (const { key, state, refs } of entriesOfItems(noting(mergeItems(checkpointItems(objects, manifest), overlay)))) {
    streams++;
    const end = refs.at(-1)?.end ?? heldFrom(state);
    if (end !== state.tail && heldFrom(state) !== state.tail) findings.add(where, `says that ${key} ends at ${state.tail}, its references end at ${end}`);
    const cold = state.snapshot?.cold ?? null;
    for (const { object } of [...refs, ...(cold === null ? [] : [cold.ref])]) {
      const name = objectKey(object);
      if (!named.has(name) && !known.has(name)) findings.add(where, `names ${name} for ${key}, which no record brought in, or which was collected`);
      named.add(name);
    }
  }
  for (const key of named) {
    const object = known.get(key);
    if (object === undefined || (await isKnown(object.id))) continue;
    signal.throwIfAborted();
    const bytes = await objects.size(key);
    if (bytes !== object.bytes) findings.add(key, bytes === null ? `is missing; ${where} names it` : `has ${bytes} bytes instead of ${object.bytes}`);
  }
  return { partition, sessions, records, streams };
}
