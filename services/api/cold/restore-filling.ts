/**
 * Turns what checkpoint and log hold of a partition into rows of the hot store, one stream at a time.
 *
 * Owns: what a stream is after a restore, and what is said to be lost of it. Promises: a stream is written whole or not at all; one whose references do not cover what the log says of it is an error. Holds one
 * stream at a time.
 */
import { ttlMs } from '../../../shared/protocol/ttl.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { CheckpointItem } from '../../../shared/storage/checkpoint.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { ColdRef, LogDelta, NamedProducer, ObjectInfo, SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { expiryRow, nameRow, producerRow, refRow, streamRow } from '../hot/keys/index.js';
import { bytesOfCopy } from './object-counts.js';
import type { RestoredForks } from './restore-forks.js';
import type { RestoredObjects } from './restore-objects.js';
import type { RowWriter } from './row-writer.js';

/** Raw size of a log record of renewed streams, about, bytes; a stream goes into one record whole. */
const RENEWAL_BYTES = 4_194_304;
const REF_BYTES = 64;
const PRODUCER_BYTES = 128;

export interface Renewal {
  issue(): Promise<Incarnation>;
  log(objects: readonly ObjectInfo[], deltas: readonly LogDelta[]): Promise<void>;
}

export interface FillingOptions {
  readonly partition: number;
  readonly writer: RowWriter;
  readonly objects: RestoredObjects;
  readonly forks: RestoredForks;
  readonly nowMs: number;
  readonly renewal: Renewal | null;
  readonly lost: (key: StreamKey, what: string) => void;
}

/** Turns merged items into rows, one stream at a time. */
export class Filling {
  streams = 0;
  bytes = 0;
  readonly #options: FillingOptions;
  /** null: none, or one that is not of this round. */
  #open: { readonly key: StreamKey; readonly state: StreamRecord; readonly producers: NamedProducer[]; readonly refs: ColdRef[] } | null = null;
  #deltas: LogDelta[] = [];
  #deltaBytes = 0;

  constructor(options: FillingOptions) {
    this.#options = options;
  }

  async take(item: CheckpointItem): Promise<void> {
    if (item.kind === 'stream') {
      await this.#close();
      const state = await this.#options.forks.accept(item.key, item.state);
      this.#open = state === null ? null : { key: item.key, state, producers: [], refs: [] };
    } else if (this.#open === null) {
      return;
    } else if (item.kind === 'producers') {
      this.#open.producers.push(...item.producers);
    } else if (item.kind === 'refs') {
      this.#open.refs.push(...item.refs);
    }
  }

  async #close(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    const { writer, renewal, objects, lost } = this.#options;
    const { key, producers, refs } = open;
    const before = this.#restoredState(key, open.state, producers, refs);
    const state = renewal === null ? before : { ...before, incarnation: await renewal.issue() };
    if (renewal !== null) await this.#renewed(key, state, producers, refs);
    const slot = slotOf(key);
    await writer.put(streamRow.key(slot, key), streamRow.encode(state));
    await writer.put(nameRow.key(key), nameRow.encode());
    for (const producer of producers) await writer.put(producerRow.key(slot, state.incarnation, producer.id), producerRow.encode({ ...producer, change: 0 }));
    const gaps = new Gaps();
    for (const ref of refs) {
      await writer.put(refRow.key(slot, state.incarnation, ref.end), refRow.encode(ref));
      if (!objects.use(ref.object, ref.blockBytes)) gaps.add(ref);
    }
    for (const { start, end, object } of gaps.found) lost(key, `bytes [${start}, ${end}): ${object} is not there as it was written`);
    const cold = state.snapshot?.cold ?? null;
    if (cold !== null && !objects.use(cold.ref.object, bytesOfCopy(cold))) lost(key, `the body of the snapshot at ${state.snapshot?.offset}: ${objectKey(cold.ref.object)} is not there as it was written`);
    const endsAtMs = state.expiresAtMs ?? (state.ttl === null ? Infinity : state.touchedAtMs + ttlMs(state.ttl));
    if (Number.isSafeInteger(Math.ceil(endsAtMs))) await writer.put(expiryRow.key(this.#options.partition, Math.max(0, Math.ceil(endsAtMs)), slot, key), expiryRow.encode());
    this.streams++;
    this.bytes += state.tail - heldFrom(state);
  }

  /** The state at the sealed end as a store without hot copies has it; a sliding TTL begins anew. */
  #restoredState(key: StreamKey, logged: StreamRecord, producers: readonly NamedProducer[], refs: readonly ColdRef[]): StreamRecord {
    const from = heldFrom(logged);
    const tail = refs.at(-1)?.end ?? from;
    const covered = tail === logged.tail || (refs.length === 0 && logged.tail === from);
    const first = refs[0];
    if (!covered || (first !== undefined && first.start > from)) {
      throw new Error(`the log says that ${key} holds [${from}, ${logged.tail}), its references cover [${first?.start ?? tail}, ${tail})`);
    }
    return {
      ...logged,
      sealed: logged.tail,
      hotStart: logged.tail,
      touchedAtMs: logged.ttl === null ? logged.touchedAtMs : this.#options.nowMs,
      producers: producers.length,
      snapshot: this.#restoredSnapshot(key, logged),
      change: 0,
      loggedChange: 0,
    };
  }

  #restoredSnapshot(key: StreamKey, logged: StreamRecord): SnapshotRecord | null {
    const { snapshot } = logged;
    if (snapshot === null) return null;
    if (snapshot.cold === null) {
      this.#options.lost(key, `the snapshot at ${snapshot.offset}: its body never reached the object store`);
      return null;
    }
    // Offloaded ahead of the bytes that it stands on.
    if (snapshot.offset > logged.tail) {
      this.#options.lost(key, `the snapshot at ${snapshot.offset}: the restored tail is ${logged.tail}`);
      return null;
    }
    return { ...snapshot, hot: null };
  }

  async #renewed(key: StreamKey, state: StreamRecord, producers: readonly NamedProducer[], refs: readonly ColdRef[]): Promise<void> {
    this.#deltas.push({ kind: 'seal', key, state, producers, refs });
    this.#deltaBytes += 512 + refs.length * REF_BYTES + producers.length * PRODUCER_BYTES;
    if (this.#deltaBytes >= RENEWAL_BYTES) await this.#logRenewed();
  }

  async #logRenewed(): Promise<void> {
    const deltas = this.#deltas;
    this.#deltas = [];
    this.#deltaBytes = 0;
    if (deltas.length > 0) await this.#options.renewal?.log([], deltas);
  }

  /** Every item was given once more. */
  async endRound(): Promise<void> {
    await this.#close();
    await this.#logRenewed();
  }
}

/** Ranges of one stream whose objects are missing, neighbours of one object joined. */
class Gaps {
  readonly found: { readonly start: number; end: number; readonly object: string }[] = [];

  add(ref: ColdRef): void {
    const object = objectKey(ref.object);
    const last = this.found.at(-1);
    if (last?.object === object && last.end === ref.start) last.end = ref.end;
    else this.found.push({ start: ref.start, end: ref.end, object });
  }
}
