/**
 * What a stretch of log does to one stream.
 *
 * Owns: the meaning of the changes of streams for whoever rebuilds state from objects alone (checkpoint, restore). Promises: order is all that counts; a change of another life of a stream never touches the one that is
 * there (I7); a snapshot never gives way to an older one.
 */
import type { Incarnation } from '../../protocol/types.js';
import { sameBlock } from '../records/cold-ref.js';
import type { CompactedSnapshot, LogDelta, NamedProducer, SnapshotRecord, StreamRecord } from '../records/types.js';
import { RefPatches } from './ref-patches.js';

/** A change of one stream. */
export type StreamDelta = Extract<LogDelta, { readonly kind: 'seal' | 'offload' | 'delete' | 'compact' }>;

/** One life of a stream as the stretch of log left it. */
export interface Life {
  readonly incarnation: Incarnation;
  /** null: no seal in this stretch; the state comes from what was there before. */
  state: StreamRecord | null;
  /** By id. */
  readonly producers: Map<string, NamedProducer>;
  readonly refs: RefPatches;
  /** Offloaded in this stretch. */
  snapshot: SnapshotRecord | null;
  /** Small snapshots that compaction moved. */
  readonly moved: CompactedSnapshot[];
}

export class KeyChange {
  /** null: the key has no stream any more, as far as this stretch knows. */
  life: Life | null = null;
  /** Lives that ended in this stretch. */
  readonly ended = new Set<Incarnation>();
  /** The newest life that a seal of this stretch spoke of, ended since or not: any other one from before is over, with or without a delete (a restore renews). */
  begun: Incarnation | null = null;
  /** Earlier tokens of the life that is there, which restores have renewed since: forks that a broken-off restore did not reach name it by them. */
  renewed: readonly Incarnation[] = [];
  /** That life came before this stretch, so the checkpoint has an earlier token of it too. */
  renewsBase = false;

  /** `renews`: the record has no plan. Only a restore writes the state of streams without one: the same lives under new tokens. */
  add(delta: StreamDelta, renews: boolean): void {
    switch (delta.kind) {
      case 'seal':
        return this.#seal(delta, renews);
      case 'offload':
        return this.#offload(delta.incarnation, delta.snapshot);
      case 'delete':
        return this.#end(delta.incarnation);
      case 'compact':
        return this.#compact(delta);
      default:
        throw new Error(`unknown change ${(delta satisfies never as StreamDelta).kind}`);
    }
  }

  #seal({ state, producers, refs }: Extract<LogDelta, { kind: 'seal' }>, renews: boolean): void {
    const before = this.life;
    const life = this.#lifeOf(state.incarnation, true);
    if (life === null) return;
    if (life !== before) {
      this.renewed = !renews || before === null ? [] : [...this.renewed, before.incarnation];
      this.renewsBase = renews && (before === null || this.renewsBase);
    }
    this.begun = state.incarnation;
    life.state = { ...state, snapshot: newerSnapshot(life.state?.snapshot ?? life.snapshot, state.snapshot) };
    for (const producer of producers) life.producers.set(producer.id, producer);
    life.refs.append(refs);
  }

  #compact({ incarnation, ranges, snapshot }: Extract<LogDelta, { kind: 'compact' }>): void {
    const life = this.#lifeOf(incarnation, false);
    if (life === null) return;
    for (const range of ranges) life.refs.replace(range);
    if (snapshot !== null) life.moved.push(snapshot);
  }

  #offload(incarnation: Incarnation, snapshot: SnapshotRecord): void {
    const life = this.#lifeOf(incarnation, false);
    if (life === null) return;
    life.snapshot = newerSnapshot(life.snapshot, snapshot);
    if (life.state !== null) life.state = { ...life.state, snapshot: newerSnapshot(life.state.snapshot, snapshot) };
  }

  #end(incarnation: Incarnation): void {
    this.ended.add(incarnation);
    if (this.life?.incarnation === incarnation) this.life = null;
  }

  /** The life that a change speaks of. A seal begins a new one; anything else about a life that is not there has no effect. */
  #lifeOf(incarnation: Incarnation, begins: boolean): Life | null {
    if (this.ended.has(incarnation)) return null;
    if (this.life?.incarnation === incarnation) return this.life;
    if (this.life !== null) {
      if (!begins) return null;
      this.ended.add(this.life.incarnation);
    }
    this.life = { incarnation, state: null, producers: new Map(), refs: new RefPatches(), snapshot: null, moved: [] };
    return this.life;
  }
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
