/**
 * Puts log records into the hot store (architecture section 6, step 5).
 *
 * Owns: references, frontiers, logged changes, cold copies of snapshots and the row `applied`. Promises: idempotent, slice by slice; nothing but those is
 * changed; a stream's part of a record is one atomic change together with the counts of the objects that it names; a change for another incarnation
 * is dropped (I6, I7); `applied` is never ahead of what it says. A stream that cannot be read is passed over alone, marked and told (I9).
 */
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { sameObject } from '../../../shared/storage/records/object-id.js';
import type { ColdRef, LogDelta, LogRecord, ObjectId, SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { appliedRow, dataRow, dirtyRow, evictRow, objectRow, refRow, snapshotRow, type Applied } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogCore, StreamSlot } from '../log/core.js';
import { applyCompaction, compactedInto, replacedObjects } from './compaction/apply-compaction.js';
import { BehindStreams } from './behind.js';
import { decodedOr, isHotDamage, isPassing, readOr } from './damage.js';
import type { DamageTold } from './damage-told.js';
import { purgeUnmark } from './directory.js';
import { SLICE_ROWS_MAX, STORE_RETRY_MS } from './limits.js';
import type { LogPosition } from '../../../shared/storage/history/log-reader.js';
import { idlePause } from '../../../shared/time/pause.js';
import { bytesOfCopy, ObjectCounts } from './object-counts.js';
import { slicesOf } from './slices.js';
import type { Steps } from './steps.js';

type SealDelta = Extract<LogDelta, { kind: 'seal' }>;
type OffloadDelta = Extract<LogDelta, { kind: 'offload' }>;

/** Changes worked on together within a slice: each may wait for a read of its stream. */
const TOGETHER = 32;

export interface ApplierOptions {
  readonly core: LogCore;
  readonly partition: number;
  readonly now: () => number;
  readonly hotKeepMs: number;
  readonly steps: Steps;
  readonly told: Pick<DamageTold, 'unneeded' | 'behind'>;
  readonly stop: AbortSignal;
}

export class Applier {
  readonly #options: ApplierOptions;
  readonly #counts: ObjectCounts;
  readonly behind: BehindStreams;
  #applied: Applied = { session: 0, seq: 0, slice: 0 };

  constructor(options: ApplierOptions) {
    this.#options = options;
    this.#counts = new ObjectCounts(options.core.store);
    this.behind = new BehindStreams(options.core.store, options.partition);
  }

  async load(): Promise<void> {
    const value = await this.#options.core.store.get(appliedRow.key(this.#options.partition));
    if (value !== undefined) this.#applied = appliedRow.decode(value);
    await this.behind.load();
  }

  /** Records after this position are still to be applied; one that was begun counts as not applied. */
  get position(): LogPosition {
    const { session, seq, slice } = this.#applied;
    return slice === 0 ? { session, seq } : { session, seq: seq - 1 };
  }

  get counts(): ObjectCounts {
    return this.#counts;
  }

  /** Applies one record, durable when it resolves; one that was applied changes nothing. Repeats after a failed batch until it is done or the node stops. */
  async apply(record: LogRecord): Promise<void> {
    const { session, seq, slice } = this.#applied;
    if (record.session < session || (record.session === session && (record.seq < seq || (record.seq === seq && slice === 0)))) return;
    const begun = record.session === session && record.seq === seq ? slice : 0;
    const slices = slicesOf(record.deltas);
    for (let n = begun; n < Math.max(1, slices.length); n++) {
      const done: Applied = { session: record.session, seq: record.seq, slice: n + 1 >= slices.length ? 0 : n + 1 };
      await this.#untilDone(() => this.#slice(record, slices[n] ?? [], done));
      this.#applied = done;
      await this.#options.steps('apply:slice');
    }
    await this.#options.steps('apply:done');
  }

  /** A poisoned store comes back with every state read anew; the slice is then built again from what is there. */
  async #untilDone(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isPassing(error)) throw error;
        await idlePause(STORE_RETRY_MS, this.#options.stop);
      }
    }
  }

  async #slice(record: LogRecord, deltas: readonly LogDelta[], done: Applied): Promise<void> {
    const { core, partition } = this.#options;
    this.#counts.begin();
    await this.#counts.prepare(objectsOf(deltas), record.objects);
    await this.#counts.prepare(await replacedObjects(core.store, deltas));
    const staged: Promise<void>[] = record.objects.map((object) => core.stageOps(this.#counts.move(object.id, 0, 0)));
    try {
      for (let at = 0; at < deltas.length; at += TOGETHER) {
        await Promise.all(deltas.slice(at, at + TOGETHER).map((delta) => this.#delta(delta, staged)));
      }
      await Promise.all(staged);
      for (const delta of deltas) if (delta.kind === 'seal' && delta.state.retained > 0) await this.#trim(delta);
      await core.stageOps([{ type: 'put', key: appliedRow.key(partition), value: appliedRow.encode(done) }]);
    } finally {
      await Promise.allSettled(staged);
    }
  }

  async #delta(delta: LogDelta, staged: Promise<void>[]): Promise<void> {
    const { core, partition } = this.#options;
    switch (delta.kind) {
      case 'seal':
        return this.#ofStream(delta.key, delta.state.incarnation, staged, (slot) => this.#seal(slot, delta, staged));
      case 'offload':
        return this.#ofStream(delta.key, delta.incarnation, staged, (slot) => this.#offload(slot, delta, staged));
      case 'delete':
        staged.push(core.stageOps([{ type: 'del', key: dirtyRow.key(partition, slotOf(delta.key), delta.incarnation) }]));
        if (this.behind.has(delta.incarnation)) staged.push(core.stageOps([this.behind.unmark(delta.incarnation)]));
        return;
      case 'purge':
        staged.push(core.stageOps([purgeUnmark(partition, delta.bucket)]));
        return;
      case 'compact':
        return this.#ofStream(delta.key, delta.incarnation, staged, (slot) => applyCompaction(core, slot, this.#counts, delta, staged));
      case 'collect':
        staged.push(core.stageOps(delta.objects.map((id): HotOp => ({ type: 'del', key: objectRow.key(id) }))));
        return;
      // The hot store knows more of subscriptions than any record: that their changes are logged, whoever took them along is told.
      case 'subscription':
      case 'unsubscribe':
        return;
      default:
        throw new Error(`unknown change ${(delta satisfies never as LogDelta).kind}`);
    }
  }

  /** One stream's part. `work` reads first and stages in one turn behind that, so damage that it throws has left nothing of it staged. */
  async #ofStream(key: StreamKey, incarnation: Incarnation, staged: Promise<void>[], work: (slot: StreamSlot) => Promise<void>): Promise<void> {
    const { core, told } = this.#options;
    const { behind } = this;
    try {
      if (!behind.has(incarnation)) return await core.using(key, work);
    } catch (error) {
      if (!isHotDamage(error) || behind.full) throw error;
      told.behind(key, error);
    }
    staged.push(core.stageOps([behind.mark(incarnation)]));
  }

  async #seal(slot: StreamSlot, delta: SealDelta, staged: Promise<void>[]): Promise<void> {
    const { core, partition, now, hotKeepMs } = this.#options;
    const { state } = delta;
    const superseded = await this.#superseded(slot, state.snapshot);
    const pending = slot.pending;
    if (pending === null || pending.incarnation !== state.incarnation) return;
    const refs = delta.refs.filter((ref) => ref.end > pending.sealed);
    const first = refs[0];
    if (first !== undefined && first.start > Math.max(pending.sealed, state.retained)) {
      throw new Error(`a record seals ${slot.key} from ${first.start}, the frontier is ${pending.sealed}`);
    }
    const ops: HotOp[] = this.#refOps(slot, pending, refs);
    const snapshot = this.#snapshotOps(slot, pending, state.snapshot, superseded, ops);
    const sealed = refs.at(-1)?.end ?? pending.sealed;
    const loggedChange = Math.max(pending.loggedChange, state.loggedChange);
    if (sealed === pending.sealed && snapshot === pending.snapshot && loggedChange === pending.loggedChange && ops.length === 0) return;
    if (sealed > pending.sealed || snapshot !== pending.snapshot) {
      ops.push({ type: 'put', key: evictRow.key(partition, now() + hotKeepMs, slot.slot, pending.incarnation), value: evictRow.encode({ key: slot.key, upTo: sealed }) });
    }
    staged.push(core.stage({ slot, next: { ...pending, sealed, loggedChange, snapshot }, ops, quiet: true }));
  }

  #refOps(slot: StreamSlot, pending: StreamRecord, refs: readonly ColdRef[]): HotOp[] {
    const ops: HotOp[] = [];
    const perObject = new Map<ObjectId, { refs: number; bytes: number }>();
    let last: ObjectId | null = null;
    for (const ref of refs) {
      ops.push({ type: 'put', key: refRow.key(slot.slot, pending.incarnation, ref.end), value: refRow.encode(ref) });
      // References of one object follow each other; equal ids need not be the same value.
      if (last === null || !sameObject(last, ref.object)) last = ref.object;
      const use = perObject.get(last) ?? { refs: 0, bytes: 0 };
      perObject.set(last, { refs: use.refs + 1, bytes: use.bytes + ref.blockBytes });
    }
    for (const [object, { refs: by, bytes }] of perObject) ops.push(...this.#counts.move(object, by, bytes));
    return ops;
  }

  async #offload(slot: StreamSlot, delta: OffloadDelta, staged: Promise<void>[]): Promise<void> {
    const { core, partition, now, hotKeepMs } = this.#options;
    const superseded = await this.#superseded(slot, delta.snapshot);
    const pending = slot.pending;
    if (pending === null || pending.incarnation !== delta.incarnation) return;
    const ops: HotOp[] = [];
    const snapshot = this.#snapshotOps(slot, pending, delta.snapshot, superseded, ops);
    if (snapshot === pending.snapshot && ops.length === 0) return;
    ops.push({ type: 'put', key: evictRow.key(partition, now() + hotKeepMs, slot.slot, pending.incarnation), value: evictRow.encode({ key: slot.key, upTo: pending.sealed }) });
    staged.push(core.stage({ slot, next: { ...pending, snapshot }, ops, quiet: true }));
  }

  /** Superseded snapshots of the stream, read while the visible one stays the same: what is staged from them in the same turn is true. */
  async #superseded(slot: StreamSlot, logged: SnapshotRecord | null): Promise<SnapshotRecord[]> {
    if (logged === null) return [];
    for (;;) {
      await this.#options.core.settled(slot);
      const before = slot.pending;
      if (before === null) return [];
      const found: SnapshotRecord[] = [];
      const ids: ObjectId[] = [];
      for await (const page of this.#options.core.store.scan(snapshotRow.range(slot.slot, before.incarnation))) {
        for (const { value } of page) {
          const record = decodedOr(() => snapshotRow.decode(value), (error) => this.#options.told.unneeded(slot.key, error));
          if (record === null) continue;
          found.push(record);
          if (record.cold !== null) ids.push(record.cold.ref.object);
        }
      }
      await this.#counts.prepare(ids);
      if (slot.pending?.incarnation === before.incarnation && slot.pending.snapshot === before.snapshot) return found;
    }
  }

  /** The cold copy that the log now holds goes to the snapshot that it is of; cold copies of the ones before it are named by nothing any more. */
  #snapshotOps(slot: StreamSlot, pending: StreamRecord, logged: SnapshotRecord | null, superseded: readonly SnapshotRecord[], ops: HotOp[]): SnapshotRecord | null {
    let visible = pending.snapshot;
    if (logged === null || logged.cold === null) return visible;
    const put = (record: SnapshotRecord): void => {
      ops.push({ type: 'put', key: snapshotRow.key(slot.slot, pending.incarnation, record.offset), value: snapshotRow.encode(record) });
    };
    if (visible !== null && visible.offset === logged.offset) {
      if (visible.digest !== logged.digest) throw new Error(`the log holds another snapshot of ${slot.key} at ${logged.offset}`);
      if (visible.cold === null) {
        visible = { ...visible, cold: logged.cold };
        ops.push(...this.#counts.move(logged.cold.ref.object, 1, bytesOfCopy(logged.cold)));
      }
    }
    for (const record of superseded) {
      if (record.offset === logged.offset && record.cold === null) {
        put({ ...record, cold: logged.cold });
        ops.push(...this.#counts.move(logged.cold.ref.object, 1, bytesOfCopy(logged.cold)));
      } else if (record.offset < logged.offset && record.cold !== null) {
        put({ ...record, cold: null });
        ops.push(...this.#counts.move(record.cold.ref.object, -1, -bytesOfCopy(record.cold)));
      }
    }
    return visible;
  }

  /** What lies below a boundary that the log holds now: references, and hot copies that were never sealed (architecture section 6). */
  async #trim(delta: SealDelta): Promise<void> {
    const { core } = this.#options;
    const { incarnation, retained } = delta.state;
    if (this.behind.has(incarnation)) return;
    const trim = (): Promise<void> => core.using(delta.key, async (slot) => {
      // What lies below the boundary is read by forks; once the last is gone the stream is logged again.
      if ((slot.pending?.incarnation === incarnation && slot.pending.forks > 0) || delta.state.forks > 0) return;
      for (;;) {
        const refs: ColdRef[] = [];
        let rows = 0;
        // A damaged one stays, and with it the object that it may name: nothing needs it any more, and the log of all others goes on.
        for await (const page of core.store.scan({ ...refRow.range(slot.slot, incarnation, 0, retained + 1), limit: SLICE_ROWS_MAX })) {
          rows += page.length;
          for (const { value } of page) {
            const ref = decodedOr(() => refRow.decode(value), (error) => this.#options.told.unneeded(delta.key, error));
            if (ref !== null) refs.push(ref);
          }
        }
        if (refs.length === 0) break;
        await this.#counts.prepare(refs.map((ref) => ref.object));
        const ops: HotOp[] = [];
        for (const ref of refs) ops.push({ type: 'del', key: refRow.key(slot.slot, incarnation, ref.end) }, ...this.#counts.move(ref.object, -1, -ref.blockBytes));
        await core.stageOps(ops);
        if (rows < SLICE_ROWS_MAX) break;
      }
      await trimHot(core, slot, delta.state, retained);
    });
    // What cannot be read stays, and is trimmed by the next record of the stream.
    await readOr(trim, (error) => this.#options.told.unneeded(delta.key, error));
  }
}

/** Removes hot values that end at or below `upTo`, a retention boundary that nothing can take back. Also what `FIRN_COLD=none` does. */
export async function trimHot(core: LogCore, slot: StreamSlot, of: Pick<StreamRecord, 'incarnation'>, upTo: Offset): Promise<number> {
  let bytes = 0;
  for (;;) {
    const keys: Buffer[] = [];
    for await (const page of core.store.scan({ ...dataRow.range(slot.slot, of.incarnation, 0, upTo + 1), limit: SLICE_ROWS_MAX, values: false })) {
      for (const { key } of page) keys.push(key);
    }
    const last = keys.at(-1);
    const pending = slot.pending;
    if (last === undefined || pending === null || pending.incarnation !== of.incarnation) return bytes;
    const hotStart = Math.max(pending.hotStart, dataRow.decodeKey(last).end) as Offset;
    bytes += hotStart - pending.hotStart;
    await core.stage({ slot, next: { ...pending, hotStart }, ops: keys.map((key) => ({ type: 'del', key })), quiet: true });
    if (keys.length < SLICE_ROWS_MAX) return bytes;
  }
}

function objectsOf(deltas: readonly LogDelta[]): ObjectId[] {
  const ids: ObjectId[] = [];
  for (const delta of deltas) {
    if (delta.kind === 'seal') {
      let last: ObjectId | null = null;
      for (const ref of delta.refs) {
        if (last === null || !sameObject(last, ref.object)) ids.push(ref.object);
        last = ref.object;
      }
      if (delta.state.snapshot !== null && delta.state.snapshot.cold !== null) ids.push(delta.state.snapshot.cold.ref.object);
    } else if (delta.kind === 'compact') {
      ids.push(...compactedInto(delta));
    } else if (delta.kind === 'offload' && delta.snapshot.cold !== null) {
      ids.push(delta.snapshot.cold.ref.object);
    }
  }
  return ids;
}

