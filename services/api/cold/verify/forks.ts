/**
 * Checks of what forks and their sources say of each other (`firn verify`; I1, I9, requirements section 28).
 *
 * Owns: the comparison of what forks name with what is there. On a running node forks come and go while they are looked at: only what two looks in a row say of a source that stayed as it was
 * is a finding. Holds the streams that have forks in memory, nothing of others.
 */
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import type { ForkOrigin, StreamRecord } from '../../../../shared/storage/records/types.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import { streamRow, unpinRow } from '../../hot/keys/index.js';
import type { HotReads } from '../../hot/store.js';
import type { Findings } from './findings.js';

interface Suspicion {
  readonly where: StreamKey;
  readonly what: string;
  /** `change` of the stream that it is about. */
  readonly change: number;
}

/** A stream that has forks, or of which some stream says that it is one. */
interface Source {
  record: StreamRecord | null;
  readonly key: StreamKey;
  /** Forks that are there, and ended ones that it was not told of yet. */
  counted: number;
}

export async function checkForks(store: HotReads, findings: Findings, signal: AbortSignal): Promise<void> {
  const first = await look(store, signal);
  if (first.length === 0) return;
  const same = (a: Suspicion, b: Suspicion): boolean => a.where === b.where && a.what === b.what && a.change === b.change;
  for (const one of await look(store, signal)) if (first.some((before) => same(before, one))) findings.add(one.where, one.what);
}

async function look(store: HotReads, signal: AbortSignal): Promise<Suspicion[]> {
  const suspicions: Suspicion[] = [];
  const sources = new Map<Incarnation, Source>();
  const sourceOf = (key: StreamKey, incarnation: Incarnation): Source => {
    let source = sources.get(incarnation);
    if (source === undefined) sources.set(incarnation, (source = { record: null, key, counted: 0 }));
    return source;
  };
  for await (const page of store.scan(streamRow.range())) {
    signal.throwIfAborted();
    for (const row of page) {
      const record = decoded(row.value);
      if (record === null) continue;
      const { key } = streamRow.decodeKey(row.key);
      if (record.forks > 0) sourceOf(key, record.incarnation).record = record;
      const { origin } = record;
      if (origin === null) continue;
      sourceOf(origin.key, origin.incarnation).counted++;
      const what = await faultOf(store, origin);
      if (what !== null) suspicions.push({ where: key, what, change: record.change });
    }
  }
  for await (const page of store.scan(unpinRow.range())) {
    for (const row of page) {
      const source = sources.get(unpinRow.decodeKey(row.key).source);
      if (source !== undefined) source.counted++;
    }
  }
  for (const { record, key, counted } of sources.values()) {
    if (record !== null && record.forks !== counted) suspicions.push({ where: key, what: `counts ${record.forks} forks, there are ${counted}`, change: record.change });
  }
  return suspicions;
}

/** What is wrong about the source that a fork names, null when nothing is. */
async function faultOf(store: HotReads, { key, incarnation, at }: ForkOrigin): Promise<string | null> {
  const value = await store.get(streamRow.key(slotOf(key), key));
  const source = value === undefined ? null : decoded(value);
  if (source === null || source.incarnation !== incarnation) return `is a fork of ${key} ${incarnation}, which is not there`;
  if (source.forks === 0) return `is a fork of ${key}, which knows of none`;
  return source.tail < at ? `inherits [0, ${at}) of ${key}, which ends at ${source.tail}` : null;
}

/** A state that does not decode is a finding of the check of streams. */
function decoded(value: Buffer): StreamRecord | null {
  try {
    return streamRow.decode(value);
  } catch {
    return null;
  }
}
