/**
 * What a stretch of log does to the streams of a partition, kept by key, and to its subscriptions.
 *
 * Owns: the meaning of log deltas for whoever rebuilds state from objects alone (checkpoint, restore). Promises: order of records is all that counts; a delta
 * of another life of a stream never touches the one that is there (I7); a snapshot never gives way to an older one.
 */
import type { Incarnation, StreamKey } from '../../protocol/types.js';
import { SubscriptionOverlay } from './subscription-overlay.js';
import { objectKey } from '../records/object-id.js';
import { sameBlock } from '../records/cold-ref.js';
import type { CompactedSnapshot, LogDelta, LogRecord, NamedProducer, ObjectInfo, SnapshotRecord, StreamRecord } from '../records/types.js';
import { RefPatches } from './ref-patches.js';

/** One life of a stream as the stretch of log left it. */
export interface Life {
  readonly incarnation: Incarnation;
  /** null: no seal in this stretch; the state comes from what was there before. */
  state: StreamRecord | null;
  /** By id. `NO_PRODUCERS`: none. */
  producers: Map<string, NamedProducer>;
  readonly refs: RefPatches;
  /** Offloaded in this stretch. */
  snapshot: SnapshotRecord | null;
  /** Small snapshots that compaction moved. */
  moved: readonly CompactedSnapshot[];
}

export interface KeyChange {
  /** null: the key has no stream any more, as far as this stretch knows. */
  life: Life | null;
  /** Lives that ended in this stretch. `NO_LIVES`: none. */
  ended: Set<Incarnation>;
  /** The newest life that a seal of this stretch spoke of, ended since or not: any other one from before is over, with or without a delete (a restore renews). */
  begun: Incarnation | null;
  /** Earlier tokens of the life that is there, which restores have renewed since: forks that a broken-off restore did not reach name it by them. */
  renewed: readonly Incarnation[];
  /** That life came before this stretch, so the checkpoint has an earlier token of it too. */
  renewsBase: boolean;
}

/** Shared by all the streams that have none, which are most: each is one of very many. */
const NO_LIVES: Set<Incarnation> = new Set();
const NO_PRODUCERS: Map<string, NamedProducer> = new Map();
const NO_TOKENS: readonly Incarnation[] = [];
const NO_MOVES: readonly CompactedSnapshot[] = [];

export class LogOverlay {
  readonly keys = new Map<StreamKey, KeyChange>();
  readonly objects = new Map<string, ObjectInfo>();
  readonly collected = new Set<string>();
  /** Bucket -> when. */
  readonly purges = new Map<string, number>();
  readonly subscriptions = new SubscriptionOverlay();
  records = 0;

  add(record: LogRecord): void {
    this.records++;
    for (const object of record.objects) this.objects.set(objectKey(object.id), object);
    for (const delta of record.deltas) this.#delta(record, delta);
  }

  #delta(record: LogRecord, delta: LogDelta): void {
    switch (delta.kind) {
      case 'seal':
        // Only a restore writes the state of streams without a plan: the same lives under new tokens.
        return this.#seal(delta, record.plan === null);
      case 'offload':
        return this.#offload(delta.key, delta.incarnation, delta.snapshot);
      case 'delete':
        return this.#end(delta.key, delta.incarnation);
      case 'purge':
        if (!this.purges.has(delta.bucket)) this.purges.set(delta.bucket, record.writtenAtMs);
        return;
      case 'collect':
        for (const id of delta.objects) {
          this.collected.add(objectKey(id));
          this.objects.delete(objectKey(id));
        }
        return;
      case 'compact':
        return this.#compact(delta);
      case 'subscription':
        return this.subscriptions.put(delta);
      case 'unsubscribe':
        return this.subscriptions.end(delta.id);
      default:
        throw new Error(`unknown change ${(delta satisfies never as LogDelta).kind}`);
    }
  }

  #seal({ key, state, producers, refs }: Extract<LogDelta, { kind: 'seal' }>, renews: boolean): void {
    const change = this.#changeOf(key);
    const before = change.life;
    const life = this.#lifeOf(key, state.incarnation, true);
    if (life === null) return;
    if (life !== before) {
      change.renewed = !renews || before === null ? NO_TOKENS : [...change.renewed, before.incarnation];
      change.renewsBase = renews && (before === null || change.renewsBase);
    }
    change.begun = state.incarnation;
    life.state = { ...state, snapshot: newerSnapshot(life.state?.snapshot ?? life.snapshot, state.snapshot) };
    if (producers.length > 0 && life.producers === NO_PRODUCERS) life.producers = new Map();
    for (const producer of producers) life.producers.set(producer.id, producer);
    life.refs.append(refs);
  }

  #compact({ key, incarnation, ranges, snapshot }: Extract<LogDelta, { kind: 'compact' }>): void {
    const life = this.#lifeOf(key, incarnation, false);
    if (life === null) return;
    for (const range of ranges) life.refs.replace(range);
    if (snapshot !== null) life.moved = [...life.moved, snapshot];
  }

  #offload(key: StreamKey, incarnation: Incarnation, snapshot: SnapshotRecord): void {
    const life = this.#lifeOf(key, incarnation, false);
    if (life === null) return;
    life.snapshot = newerSnapshot(life.snapshot, snapshot);
    if (life.state !== null) life.state = { ...life.state, snapshot: newerSnapshot(life.state.snapshot, snapshot) };
  }

  #end(key: StreamKey, incarnation: Incarnation): void {
    const change = this.#changeOf(key);
    noteEnd(change, incarnation);
    if (change.life?.incarnation === incarnation) change.life = null;
  }

  /** The life that a delta speaks of. A seal begins a new one; anything else about a life that is not there has no effect. */
  #lifeOf(key: StreamKey, incarnation: Incarnation, begins: boolean): Life | null {
    const change = this.#changeOf(key);
    if (change.ended.has(incarnation)) return null;
    if (change.life?.incarnation === incarnation) return change.life;
    if (change.life !== null) {
      if (!begins) return null;
      noteEnd(change, change.life.incarnation);
    }
    change.life = { incarnation, state: null, producers: NO_PRODUCERS, refs: new RefPatches(), snapshot: null, moved: NO_MOVES };
    return change.life;
  }

  #changeOf(key: StreamKey): KeyChange {
    let change = this.keys.get(key);
    if (change === undefined) {
      change = { life: null, ended: NO_LIVES, begun: null, renewed: NO_TOKENS, renewsBase: false };
      this.keys.set(key, change);
    }
    return change;
  }
}

function noteEnd(change: KeyChange, incarnation: Incarnation): void {
  if (change.ended === NO_LIVES) change.ended = new Set();
  change.ended.add(incarnation);
}

/** Of two snapshots of one life the later one; of the same one the copy that is cold. */
export function newerSnapshot(a: SnapshotRecord | null, b: SnapshotRecord | null): SnapshotRecord | null {
  if (a === null) return b;
  if (b === null || a.offset > b.offset) return a;
  if (a.offset === b.offset) return b.cold === null ? a : b;
  return b;
}

/** A snapshot with the cold copy that compactions left it with. */
export function movedSnapshot(snapshot: SnapshotRecord | null, moves: readonly CompactedSnapshot[]): SnapshotRecord | null {
  let at = snapshot;
  for (const { offset, was, ref } of moves) {
    if (at?.offset === offset && at.cold?.at === 'block' && sameBlock(at.cold.ref, was)) at = { ...at, cold: { at: 'block', ref } };
  }
  return at;
}
