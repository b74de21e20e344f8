/**
 * Checks of the log and the newest checkpoint of every partition: what a restore would read (`firn verify`; I9, I10).
 */
import type { ObjectStore } from '../../../../shared/storage/object-store.js';
import { heldFrom } from '../../../../shared/storage/records/stream-record.js';
import { entriesOfItems } from '../../../../shared/storage/checkpoint.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import { checkpointItems, newestCheckpoint, readManifest } from '../../../../shared/storage/history/checkpoints.js';
import { LOG_START, readLog } from '../../../../shared/storage/history/log-reader.js';
import { LogOverlay } from '../../../../shared/storage/history/log-overlay.js';
import { mergeItems } from '../../../../shared/storage/history/merge-items.js';
import { newestSession } from '../sessions.js';
import type { Findings } from './findings.js';

export interface HistoryReport {
  readonly partition: number;
  readonly sessions: number;
  readonly records: number;
  readonly streams: number;
}

/** Reads what a restore of the partition would read, all of it. */
export async function checkHistory(objects: ObjectStore, partition: number, findings: Findings, signal: AbortSignal): Promise<HistoryReport> {
  const where = `the log of partition ${partition}`;
  let records = 0;
  let streams = 0;
  let sessions = 0;
  await findings.attempt(where, async () => {
    sessions = await newestSession(objects, partition);
    const at = await newestCheckpoint(objects, partition);
    const manifest = at === null ? null : await readManifest(objects, partition, at);
    const overlay = new LogOverlay();
    for await (const { record } of readLog({ store: objects, partition, after: manifest ?? LOG_START, until: sessions, live: true, signal })) {
      overlay.add(record);
      records++;
    }
    const known = new Set([...(manifest?.objects ?? []).map(({ id }) => objectKey(id)), ...overlay.objects.keys()]);
    for await (const { key, state, refs } of entriesOfItems(mergeItems(checkpointItems(objects, manifest), overlay))) {
      streams++;
      const end = refs.at(-1)?.end ?? heldFrom(state);
      if (end !== state.tail && heldFrom(state) !== state.tail) findings.add(where, `says that ${key} ends at ${state.tail}, its references end at ${end}`);
      for (const ref of refs) if (!known.has(objectKey(ref.object))) findings.add(where, `names ${objectKey(ref.object)} for ${key}, which no record brought in`);
    }
  });
  return { partition, sessions, records, streams };
}
