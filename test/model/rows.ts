/**
 * The rows of a directory that no node holds, walked without the code of `firn verify` and held against the model and the log: I1 contiguity, I2 what was acknowledged is there, I3 the log names
 * what references name, I7 every row is of a life that is there or on its way out.
 *
 * Looks at a copy: opening a directory repairs what a crash left, and that is the node's to do.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { createLogger } from '../../shared/observability/logger.js';
import type { StreamKey } from '../../shared/protocol/types.js';
import { decodeBlock } from '../../shared/storage/block.js';
import { newestCheckpoint, readManifest } from '../../shared/storage/history/checkpoints.js';
import { LOG_START, readLog } from '../../shared/storage/history/log-reader.js';
import { objectKey } from '../../shared/storage/records/object-id.js';
import { heldFrom } from '../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../shared/storage/records/types.js';
import { newestSession } from '../../services/api/cold/sessions.js';
import { openDurableStore } from '../../services/api/hot/durable-store.js';
import type { DurableStore } from '../../services/api/hot/durable.js';
import { bodyRow, dataRow, doomedRow, objectRow, producerRow, refRow, snapshotRow, streamRow } from '../../services/api/hot/keys/index.js';
import type { KeyRange } from '../../services/api/hot/keys/layout.js';
import type { ObjectsView } from './objects-view.js';
import type { World } from './world.js';

/** Opens a copy of a directory's hot store. */
export async function withRows(dataDir: string, look: (store: DurableStore) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'firn-rows-'));
  try {
    cpSync(join(dataDir, 'hot'), join(dir, 'hot'), { recursive: true });
    cpSync(join(dataDir, 'acked'), join(dir, 'acked'));
    const store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger: createLogger('silent') });
    try {
      await look(store);
    } finally {
      await store.close();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function* rows(store: DurableStore, range: KeyRange): AsyncGenerator<{ readonly key: Buffer; readonly value: Buffer }> {
  for await (const page of store.scan(range)) yield* page;
}

/** All rows of a kind. */
function allOf({ kind }: { readonly kind: number }): KeyRange {
  return { from: Buffer.from([kind]), to: Buffer.from([kind + 1]) };
}

export function checkRows({ rig, spec }: World): Promise<void> {
  return withRows(rig.node.dataDir, async (store) => {
    const records = new Map<StreamKey, { readonly slot: number; readonly record: StreamRecord }>();
    for await (const { key, value } of rows(store, allOf(streamRow))) {
      const at = streamRow.decodeKey(key);
      records.set(at.key, { slot: at.slot, record: streamRow.decode(value) });
    }
    for (const life of spec.lives.values()) {
      const record = records.get(life.path.slice(1) as StreamKey)?.record;
      expect([life.path, life.token === '' ? '' : String(record?.incarnation), record?.tail, record?.retained, record?.closed, record?.forks, record?.softDeleted, record?.producers, record?.snapshot?.offset], 'what was acknowledged')
        .toEqual([life.path, life.token, life.tail, life.retained, life.closed, life.forks, life.deleted, life.producers.size, life.snapshot?.offset]);
    }
    const logged = await loggedObjects(rig.view, Number(rig.settings['FIRN_PARTITIONS'] ?? 1));
    for (const [key, { slot, record }] of records) {
      await checkHot(store, key, slot, record);
      await checkCold(store, key, slot, record, rig.view, logged);
    }
    await checkOwners(store, new Set([...records.values()].map(({ record }) => record.incarnation)));
    await checkCounts(store, [...records.values()].map(({ record }) => record), Number(rig.settings['FIRN_PARTITIONS'] ?? 1));
  });
}

/** [hot start, tail) has hot copies without a gap, each whole. */
async function checkHot(store: DurableStore, key: StreamKey, slot: number, record: StreamRecord): Promise<void> {
  let at: number = Math.max(record.hotStart, heldFrom(record));
  for await (const { key: row, value } of rows(store, dataRow.range(slot, record.incarnation, at + 1))) {
    const block = decodeBlock(value);
    expect([key, block.start <= at, block.end > at, dataRow.decodeKey(row).end], `hot copy behind ${at}`).toEqual([key, true, true, block.end]);
    at = block.end;
  }
  expect([key, at], 'end of the hot copies').toEqual([key, record.tail]);
}

/** [held from, frontier) has references without a gap; each leads into an object that is there, that the log knows, and that counts it. */
async function checkCold(store: DurableStore, key: StreamKey, slot: number, record: StreamRecord, view: ObjectsView, logged: ReadonlySet<string>): Promise<void> {
  const from = heldFrom(record);
  let at: number = from;
  for await (const { value } of rows(store, refRow.range(slot, record.incarnation))) {
    const ref = refRow.decode(value);
    const object = objectKey(ref.object);
    expect([key, object, logged.has(object), ((await view.size(object)) ?? 0) >= ref.frameAt + ref.frameBytes], 'a reference').toEqual([key, object, true, true]);
    if (ref.end <= from) continue;
    expect([key, ref.start <= at], `a gap before ${ref.start}`).toEqual([key, true]);
    at = ref.end;
  }
  expect([key, at], 'end of the references').toEqual([key, Math.max(record.sealed, from)]);
  expect([key, record.hotStart <= Math.max(record.sealed, from)], 'a byte without a source').toEqual([key, true]);
}

/** Rows of a life are those of a stream that is there, or of one that is being removed. */
async function checkOwners(store: DurableStore, living: ReadonlySet<number>): Promise<void> {
  const leaving = new Set<number>();
  for await (const { key } of rows(store, allOf(doomedRow))) leaving.add(doomedRow.decodeKey(key).incarnation);
  for (const kind of [dataRow, refRow, producerRow, snapshotRow, bodyRow]) {
    for await (const { key } of rows(store, allOf(kind))) {
      const { incarnation } = kind.decodeKey(key);
      expect(living.has(incarnation) || leaving.has(incarnation), `a row of kind ${kind.kind} of incarnation ${incarnation}, which nobody has`).toBe(true);
    }
  }
}

/** Each object's row counts the references that there are, and no reference names an object without a row. */
async function checkCounts(store: DurableStore, records: readonly StreamRecord[], partitions: number): Promise<void> {
  const counts = new Map<string, number>();
  const add = (key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
  for await (const { value } of rows(store, allOf(refRow))) add(objectKey(refRow.decode(value).object));
  for await (const { value } of rows(store, allOf(snapshotRow))) {
    const { cold } = snapshotRow.decode(value);
    if (cold !== null) add(objectKey(cold.ref.object));
  }
  for (const { snapshot } of records) if (snapshot !== null && snapshot.cold !== null) add(objectKey(snapshot.cold.ref.object));
  for (let partition = 0; partition < partitions; partition += 1) {
    for await (const { key, value } of rows(store, objectRow.range(partition))) {
      const name = objectKey(objectRow.decodeKey(key));
      expect([name, objectRow.decode(value).refs], 'references that an object counts').toEqual([name, counts.get(name) ?? 0]);
      counts.delete(name);
    }
  }
  expect([...counts.keys()], 'objects that references name and no row knows').toEqual([]);
}

/** Objects that the log brought in, as its newest checkpoint and what follows say. */
function loggedObjects(view: ObjectsView, partitions: number): Promise<ReadonlySet<string>> {
  return view.inside(async (store) => {
    const found = new Set<string>();
    for (let partition = 0; partition < partitions; partition += 1) {
      const at = await newestCheckpoint(store, partition);
      const manifest = at === null ? null : await readManifest(store, partition, at);
      for (const { id } of manifest?.objects ?? []) found.add(objectKey(id));
      for await (const { record } of readLog({ store, partition, after: manifest ?? LOG_START, until: await newestSession(store, partition), live: true })) for (const { id } of record.objects) found.add(objectKey(id));
    }
    return found;
  });
}
