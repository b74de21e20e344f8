/**
 * The newest checkpoint of a partition and the log behind it as one sorted row of subscriptions and streams.
 *
 * Owns: the merge. Promises: as much memory as the changes behind the checkpoint take, packed, and those and the producers of one stream (I11); streams that the log did not touch pass
 * through unchanged; references below a boundary that the log holds are gone, compacted ones are those that the compaction left, the others stay without a gap.
 */
import { heldFrom } from '../records/stream-record.js';
import type { StreamKey } from '../../protocol/types.js';
import { compareCheckpointKeys, GROUP_MAX, type CheckpointItem } from '../checkpoint.js';
import type { ColdRef, NamedProducer, StreamRecord } from '../records/types.js';
import { BaseItems } from './base-items.js';
import { movedSnapshot, newerSnapshot, type KeyChange, type Life } from './key-change.js';
import type { LogOverlay } from './log-overlay.js';
import { mergeSubscriptions } from './subscription-overlay.js';

type StreamItem = Extract<CheckpointItem, { kind: 'stream' }>;

/** Merged items, in the order of a checkpoint. */
export async function* mergeItems(base: AsyncIterable<CheckpointItem>, overlay: LogOverlay): AsyncGenerator<CheckpointItem> {
  const changed = overlay.keys();
  const items = new BaseItems(base);
  try {
    yield* mergeSubscriptions(items, overlay.subscriptions);
    let at = 0;
    for (let item = await items.take(); item !== null; item = await items.take()) {
      if (item.kind !== 'stream') throw new Error('checkpoint items begin without a stream');
      while (at < changed.length && compareCheckpointKeys(changed[at] as StreamKey, item.key) < 0) yield* freshOf(overlay, changed[at++] as StreamKey);
      if (changed[at] === item.key) {
        at++;
        yield* together(item, items, overlay.change(item.key) as KeyChange);
      } else {
        yield item;
        yield* items.rest();
      }
    }
    while (at < changed.length) yield* freshOf(overlay, changed[at++] as StreamKey);
  } finally {
    await items.close();
  }
}

function freshOf(overlay: LogOverlay, key: StreamKey): Generator<CheckpointItem> {
  return fresh(key, overlay.change(key)?.life ?? null);
}

/** A life that the checkpoint does not hold. */
function* fresh(key: StreamKey, life: Life | null): Generator<CheckpointItem> {
  // Without a seal the log says nothing that a stream could be made of: its beginning came with a life that ended.
  if (life === null || life.state === null) return;
  const state = { ...life.state, snapshot: movedSnapshot(life.state.snapshot, life.moved) };
  yield { kind: 'stream', key, state };
  yield* producersOf([...life.producers.values()], state);
  yield* refGroups(life.refs.all(), state);
}

/** A stream of the checkpoint that the log touched. */
async function* together(item: StreamItem, items: BaseItems, change: KeyChange): AsyncGenerator<CheckpointItem> {
  const { life } = change;
  const sameLife = life !== null && life.incarnation === item.state.incarnation;
  const baseStays = !change.ended.has(item.state.incarnation) && (change.begun === null || change.begun === item.state.incarnation);
  if (!baseStays) {
    for await (const _ of items.rest()) continue;
    yield* fresh(item.key, life);
    return;
  }
  const state = sameLife ? mergedState(item.state, life) : item.state;
  yield { kind: 'stream', key: item.key, state };
  const producers = new Map<string, NamedProducer>();
  let written = false;
  const patched = sameLife ? life.refs.over() : null;
  for await (const more of items.rest()) {
    if (more.kind === 'producers') {
      for (const producer of more.producers) producers.set(producer.id, producer);
      continue;
    }
    if (more.kind !== 'refs') throw new Error(`${more.kind} of a stream`);
    if (!written) yield* producersOf(withNewer(producers, life, sameLife), state);
    written = true;
    yield* refGroups(patched === null ? more.refs : patched.take(more.refs), state);
  }
  if (!written) yield* producersOf(withNewer(producers, life, sameLife), state);
  if (patched !== null) yield* refGroups(patched.end(), state);
}

function mergedState(before: StreamRecord, life: Life): StreamRecord {
  const state = life.state ?? before;
  return { ...state, snapshot: movedSnapshot(newerSnapshot(before.snapshot, life.state === null ? life.snapshot : life.state.snapshot), life.moved) };
}

function withNewer(producers: Map<string, NamedProducer>, life: Life | null, sameLife: boolean): NamedProducer[] {
  if (sameLife && life !== null) for (const [id, producer] of life.producers) producers.set(id, producer);
  return [...producers.values()];
}

/** The log does not tell which producers were forgotten, but only those that were idle longest are: as many as the state counts stay. */
function* producersOf(all: NamedProducer[], state: StreamRecord): Generator<CheckpointItem> {
  const kept = all.length > state.producers ? all.sort((a, b) => b.lastAtMs - a.lastAtMs).slice(0, state.producers) : all;
  for (let at = 0; at < kept.length; at += GROUP_MAX) yield { kind: 'producers', producers: kept.slice(at, at + GROUP_MAX) };
}

function* refGroups(refs: readonly ColdRef[], state: StreamRecord): Generator<CheckpointItem> {
  const kept = refs.filter((ref) => ref.end > heldFrom(state));
  for (let at = 0; at < kept.length; at += GROUP_MAX) yield { kind: 'refs', refs: kept.slice(at, at + GROUP_MAX) };
}
