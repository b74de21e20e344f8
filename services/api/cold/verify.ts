/**
 * Verification of a directory and its object store (`firn verify`, `POST /__firn/verify`).
 *
 * Owns: what is checked, and the report. Promises: reads only; every stream, reference, object, log record and checkpoint that counts is looked at; with `deep` every stored
 * byte; objects that nothing names are reported, never removed (I8). May run beside a running node.
 */
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import type { ObjectId } from '../../../shared/storage/records/types.js';
import { objectRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import { readIdentity } from './directory.js';
import { readStoreDocument } from './store-identity.js';
import { Findings, type Finding } from './verify/findings.js';
import { checkForks } from './verify/forks.js';
import { checkHistory, type HistoryReport } from './verify/history.js';
import { ObjectCheck } from './verify/objects.js';
import { StreamCheck } from './verify/streams.js';
import { checkSubscriptions, LoggedSubscriptions } from './verify/subscriptions.js';

export interface VerifyOptions {
  readonly store: HotReads;
  /** null: the directory has no cold tier. */
  readonly objects: ObjectStore | null;
  readonly deep: boolean;
  /** Length of a file in `staging/`, null when it is missing. */
  readonly stagedBytes: (file: string) => Promise<number | null>;
  readonly progress?: (done: { readonly streams: number; readonly objects: number }) => void;
  readonly signal: AbortSignal;
}

export interface VerifyReport {
  /** Nothing is wrong. Objects that nothing names are no fault. */
  readonly ok: boolean;
  readonly deep: boolean;
  readonly streams: number;
  /** Readable stream bytes. */
  readonly bytes: number;
  readonly subscriptions: number;
  readonly objects: number;
  readonly objectBytes: number;
  readonly history: readonly HistoryReport[];
  readonly findings: readonly Finding[];
  /** All findings, listed or not. */
  readonly findingCount: number;
  /** Objects that nothing names any more and that wait to be collected. */
  readonly garbageObjects: number;
  readonly garbageBytes: number;
  /** Objects that only a try whose session has ended can have left, or that a collection was about to delete: the next one does. */
  readonly leftOvers: number;
  /** Everything else in the object store that nothing here knows: objects being made, or somebody else's. */
  readonly unknownObjects: readonly string[];
  readonly unknownObjectCount: number;
}

export async function verifyStore(options: VerifyOptions): Promise<VerifyReport> {
  const { store, objects, deep, signal } = options;
  const findings = new Findings();
  const done = { streams: 0, objects: 0 };
  const moved = (): void => options.progress?.({ ...done });
  const identity = await readIdentity(store);
  const partitions = identity?.partitions ?? 1;
  const walk = { store, signal, cold: objects !== null, stagedBytes: options.stagedBytes };
  const streams = new StreamCheck({
    ...walk,
    deep,
    findings,
    progress: (count) => {
      done.streams = count;
      moved();
    },
  });
  await streams.run();
  await checkForks(store, findings, signal);
  const subscriptions = await checkSubscriptions(store, findings, signal);
  const history: HistoryReport[] = [];
  let check: ObjectCheck | null = null;
  if (objects !== null) {
    await findings.attempt('store.json', async () => {
      const document = await readStoreDocument(objects);
      if (document === null) findings.add('store.json', 'is missing');
      else if (document.storeId !== identity?.storeId) findings.add('store.json', `names store ${document.storeId}, the directory belongs to ${identity?.storeId}`);
    });
    check = new ObjectCheck({
      store, objects, partitions, deep, findings, signal,
      progress: (count) => {
        done.objects = count;
        moved();
      },
    });
    await check.run(streams.refs, async () => {
      const again = new StreamCheck({ ...walk, deep: false, findings: new Findings(), progress: () => undefined });
      await again.run();
      return again.refs;
    });
    const isKnown = async (id: ObjectId): Promise<boolean> => (await store.get(objectRow.key(id))) !== undefined;
    const logged = new LoggedSubscriptions(store);
    await logged.begin(signal);
    for (let partition = 0; partition < partitions; partition++) history.push(await checkHistory({ objects, partition, subscriptions: logged, findings, signal, isKnown }));
    await logged.check(findings);
  }
  return {
    ok: findings.count === 0,
    deep,
    streams: streams.streams,
    bytes: streams.bytes,
    subscriptions,
    objects: check?.objects ?? 0,
    objectBytes: check?.bytes ?? 0,
    history,
    findings: findings.listed,
    findingCount: findings.count,
    garbageObjects: check?.garbage ?? 0,
    garbageBytes: check?.garbageBytes ?? 0,
    leftOvers: check?.leftOvers ?? 0,
    unknownObjects: check?.unknown ?? [],
    unknownObjectCount: check?.unknownCount ?? 0,
  };
}
