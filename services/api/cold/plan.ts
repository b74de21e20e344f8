/**
 * The contents of a seal plan: what changed, and its state at that very moment (architecture section 6, step 1).
 *
 * Owns: the choice of streams, and the reading of a stream's state and producers from one moment. Promises: what a plan says of a stream is its durable
 * state at one instant, so a log record made of it never holds a producer's write without its bytes or the other way round; a stream is in a plan
 * whole or not at all.
 */
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import { BLOCK_PAYLOAD_MAX } from '../../../shared/storage/block.js';
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { ForkOrigin, NamedProducer, SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { dirtyRow, refRow, snapshotRow } from '../hot/keys/index.js';
import type { HotEntry, HotReads } from '../hot/store.js';
import type { LogCore, StreamSlot } from '../log/core.js';
import { isHotDamage } from './damage.js';
import { PLAN_BYTES_MAX, PLAN_PRODUCERS_MAX, PLAN_RANGES_MAX, PLAN_STATE_TRIES, PLAN_STREAMS_MAX } from './limits.js';
import type { SubscriptionBatch } from './unlogged-subscriptions.js';

/** One stream of a plan. */
export interface PlannedStream {
  readonly key: StreamKey;
  readonly slot: number;
  readonly incarnation: Incarnation;
  /**
   * What the log will hold: the state at the sealed end, with a snapshot and a boundary that the log can stand for. `loggedChange` is what it will be after
   * this plan: below `change` when the snapshot has to be offloaded first, so that the stream stays dirty.
   */
  readonly state: StreamRecord;
  readonly producers: readonly NamedProducer[];
  /** Bytes to seal; empty when only state changed. `to` is the durable tail of that moment. */
  readonly from: Offset;
  readonly to: Offset;
  /** The visible snapshot is small, hot and without a cold copy: it goes into the plan's objects. */
  readonly packSnapshot: boolean;
}

/** A deleted life of a stream. */
export interface PlannedDelete {
  readonly key: StreamKey;
  readonly slot: number;
  readonly incarnation: Incarnation;
}

export interface PlanContents {
  readonly streams: readonly PlannedStream[];
  readonly deletes: readonly PlannedDelete[];
  readonly purges: readonly string[];
  /** null: none was asked for. */
  readonly subscriptions: SubscriptionBatch | null;
  readonly rawBytes: number;
  /** Where the next plan goes on in the dirty rows; null: everything was looked at. */
  readonly next: Buffer | null;
  /** Streams that are dirty and were left out, `restless` of them because they were never still enough; the others are parked. */
  readonly skipped: number;
  readonly restless: number;
  /** Sources that the log has to hold before it gets forks that were left out for that; at most AWAITED_MAX, any of them. */
  readonly awaited: ReadonlySet<StreamKey>;
}

export interface PlanRequest {
  readonly partition: number;
  /** Only streams whose key begins with it; '': all. */
  readonly prefix: string;
  /** These too. */
  readonly also: ReadonlySet<StreamKey>;
  /** Begin at this dirty row. */
  readonly from: Buffer | null;
  /** Only what is dirty since then or longer, ms; null: all. */
  readonly upToMs: number | null;
  /** Streams whose range could not be read lately. */
  isParked(incarnation: Incarnation): boolean;
  /** The state of a stream, or what marks it dirty (no key then), could not be read: it is left out. */
  onDamage(key: StreamKey | null, incarnation: Incarnation, error: Error): void;
}

/** Streams looked at together: each may wait for a read of its state. */
const LOOK_TOGETHER = 32;
/** Sources that a plan names as waited for. */
const AWAITED_MAX = 4_096;

/** Walks the dirty rows and collects the next plan of a partition. */
export async function collectPlan(core: LogCore, request: PlanRequest): Promise<PlanContents> {
  const streams: PlannedStream[] = [];
  const deletes: PlannedDelete[] = [];
  const room = new Room();
  const awaited = new Set<StreamKey>();
  let skipped = 0;
  let restless = 0;
  const range = dirtyRow.range(request.partition);
  for await (const page of core.store.scan({ ...range, from: request.from ?? range.from })) {
    for (let at = 0; at < page.length; at += LOOK_TOGETHER) {
      const rows = page.slice(at, at + LOOK_TOGETHER);
      const first = rows[0];
      if (room.full && first !== undefined) return { streams: inObjectOrder(streams), deletes, purges: [], subscriptions: null, rawBytes: room.bytes, next: first.key, skipped, restless, awaited };
      const found = await Promise.all(rows.map((row) => lookAt(core, request, row)));
      for (const one of found) {
        if (one === null) continue;
        if (one === 'parked') {
          skipped++;
        } else if (one === 'restless' || 'awaits' in one) {
          skipped++;
          restless++;
          if (one !== 'restless' && awaited.size < AWAITED_MAX) awaited.add(one.awaits);
        } else if ('state' in one) {
          streams.push(one);
          room.take(one);
        } else {
          deletes.push(one);
          room.takeDelete();
        }
      }
    }
  }
  return { streams: inObjectOrder(streams), deletes, purges: [], subscriptions: null, rawBytes: room.bytes, next: null, skipped, restless, awaited };
}

/** The same with what is no stream: changes of subscriptions that found no room count as left out, to be taken soon. */
export function withOthers(contents: PlanContents, purges: readonly string[], subscriptions: SubscriptionBatch | null): PlanContents {
  const left = subscriptions?.more === true ? 1 : 0;
  return { ...contents, purges, subscriptions, skipped: contents.skipped + left, restless: contents.restless + left };
}

/** Nothing that a log record could say. */
export function isEmptyPlan({ streams, deletes, purges, subscriptions }: PlanContents): boolean {
  return streams.length + deletes.length + purges.length + (subscriptions?.deltas.length ?? 0) === 0;
}

/** A fork that is left out until the log holds its source. */
interface Awaiting {
  readonly awaits: StreamKey;
}

/** Objects hold ranges ordered by incarnation and offset. */
function inObjectOrder(streams: PlannedStream[]): PlannedStream[] {
  return streams.sort((a, b) => a.incarnation - b.incarnation);
}

class Room {
  bytes = 0;
  #streams = 0;
  #ranges = 0;
  #producers = 0;

  get full(): boolean {
    return this.bytes >= PLAN_BYTES_MAX || this.#streams >= PLAN_STREAMS_MAX || this.#ranges >= PLAN_RANGES_MAX || this.#producers >= PLAN_PRODUCERS_MAX;
  }

  take(stream: PlannedStream): void {
    const bytes = stream.to - stream.from;
    this.bytes += bytes + (stream.packSnapshot ? (stream.state.snapshot?.bytes ?? 0) : 0);
    this.#streams++;
    // Neighbours are joined to blocks that are more than half full.
    this.#ranges += Math.ceil((bytes * 2) / BLOCK_PAYLOAD_MAX) + 1;
    this.#producers += stream.producers.length;
  }

  takeDelete(): void {
    this.#streams++;
  }
}

async function lookAt(core: LogCore, request: PlanRequest, row: HotEntry): Promise<PlannedStream | PlannedDelete | Awaiting | 'parked' | 'restless' | null> {
  const { slot, incarnation } = dirtyRow.decodeKey(row.key);
  let key: StreamKey | null = null;
  try {
    const dirty = dirtyRow.decode(row.value);
    key = dirty.key;
    if (request.prefix !== '' && !key.startsWith(request.prefix) && !request.also.has(key)) return null;
    if (request.upToMs !== null && dirty.sinceMs > request.upToMs) return null;
    if (dirty.deleted) return { key, slot, incarnation };
    if (request.isParked(incarnation)) return 'parked';
    return await core.using(key, (stream) => planStream(core, stream, incarnation));
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    if (!request.isParked(incarnation)) request.onDamage(key, incarnation, error);
    return 'parked';
  }
}

/** The stream at one instant; null when nothing of it has to reach the log any more. */
async function planStream(core: LogCore, stream: StreamSlot, incarnation: Incarnation): Promise<PlannedStream | Awaiting | 'restless' | null> {
  for (let attempt = 0; attempt < PLAN_STATE_TRIES; attempt++) {
    const record = stream.durable;
    // Deleted since, or logged since: another dirty row, or none, speaks for it.
    if (record === null || record.incarnation !== incarnation || record.change === record.loggedChange) return null;
    const { origin } = record;
    if (origin !== null && !(await isSourceLogged(core, origin))) return { awaits: origin.key };
    const producers = await core.producersSince(stream, incarnation, record.loggedChange);
    // Producers are read from a later view than the record: one written behind it belongs to a later state.
    const still = stream.durable === record || (sameProducers(stream.durable, record) && producers.every((producer) => producer.change <= record.change));
    if (!still) continue;
    const stand = await whatTheLogCanHold(core.store, stream.slot, record);
    return planned(stream, record, stand, producers);
  }
  return 'restless';
}

/** A restore must find all that a fork inherits: the log gets a fork once it holds the source up to where the fork begins (architecture section 7). */
async function isSourceLogged(core: LogCore, origin: ForkOrigin): Promise<boolean> {
  const source = await core.using(origin.key, (slot) => slot.durable);
  // Without the source nothing waits for the log: the fork is damaged, and a read says so.
  if (source === null || source.incarnation !== origin.incarnation) return true;
  return source.sealed >= origin.at && (source.loggedChange > 0 || source.change === source.loggedChange);
}

/** A forgotten producer would be missing from the view without a trace in `change`. */
function sameProducers(now: StreamRecord | null, then: StreamRecord): boolean {
  return now !== null && now.incarnation === then.incarnation && now.producers >= then.producers && now.producerFloor === then.producerFloor;
}

interface Stand {
  readonly snapshot: SnapshotRecord | null;
  readonly retained: Offset;
  readonly settles: boolean;
}

/**
 * A large snapshot waits for its offload, and with it the boundary that it allowed: the log must never hold a boundary without the snapshot that covers
 * it (architecture section 6). Until then the log keeps the newest snapshot with a cold copy and the boundary that the references still reach down to.
 */
async function whatTheLogCanHold(store: HotReads, slot: number, record: StreamRecord): Promise<Stand> {
  const { snapshot, retained } = record;
  if (snapshot === null || snapshot.cold !== null || snapshot.hot?.at !== 'staging') return { snapshot, retained, settles: true };
  let logged: SnapshotRecord | null = null;
  for await (const page of store.scan(snapshotRow.range(slot, record.incarnation))) {
    for (const { value } of page) {
      const superseded = snapshotRow.decode(value);
      if (superseded.cold !== null) logged = superseded;
    }
  }
  // Without references the bytes between the frontier and a boundary that passed it are nowhere any more.
  let lowest = Math.min(retained, Math.max(record.sealed, record.hotStart)) as Offset;
  for await (const page of store.scan({ ...refRow.range(slot, record.incarnation), limit: 1 })) {
    for (const { value } of page) lowest = Math.min(retained, refRow.decode(value).start) as Offset;
  }
  return { snapshot: logged, retained: lowest, settles: false };
}

function planned(stream: StreamSlot, record: StreamRecord, stand: Stand, producers: readonly NamedProducer[]): PlannedStream | null {
  const from = Math.max(record.sealed, heldFrom({ ...record, retained: stand.retained })) as Offset;
  const to = record.tail;
  // Nothing to seal before the offload is done: the plan after it brings the rest, instead of one record a tick that changes nothing.
  if (!stand.settles && from >= to) return null;
  const snapshot = stand.snapshot;
  return {
    key: stream.key,
    slot: stream.slot,
    incarnation: record.incarnation,
    state: { ...record, retained: stand.retained, snapshot: snapshot === null ? null : { ...snapshot, hot: null }, sealed: to, hotStart: to, loggedChange: stand.settles ? record.change : record.loggedChange },
    producers,
    from,
    to,
    packSnapshot: snapshot !== null && snapshot.cold === null,
  };
}
