/**
 * Checks of every stream of the hot store (`firn verify`; I1, I3, I9).
 *
 * Owns: the walk over stream records, their hot values, references, producers and snapshots. On a running node a stream that moves while it is looked at is
 * looked at again; only what is wrong about a state that stayed is a finding.
 */
import type { Incarnation, Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { heldFrom } from '../../../../shared/storage/records/stream-record.js';
import { decodeBlock, decodeBlockHead } from '../../../../shared/storage/block.js';
import { crc32c } from '../../../../shared/storage/crc.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import type { SnapshotRecord, StreamRecord } from '../../../../shared/storage/records/types.js';
import { bodyRow, dataRow, nameRow, producerRow, refRow, snapshotRow, streamRow } from '../../hot/keys/index.js';
import type { HotReads } from '../../hot/store.js';
import { Findings } from './findings.js';

/** Looks at a stream that keeps moving. */
const LOOKS_MAX = 5;

export interface StreamCheckOptions {
  readonly store: HotReads;
  /** Read every stored byte, not only heads. */
  readonly deep: boolean;
  readonly findings: Findings;
  /** Length of a staged snapshot body, null when the file is missing. */
  readonly stagedBytes: (file: string) => Promise<number | null>;
  /** A cold tier exists: bytes may be cold. */
  readonly cold: boolean;
  readonly signal: AbortSignal;
  readonly progress: (streams: number) => void;
}

/** References per object, as the streams name them. */
export type RefCounts = Map<string, number>;

export class StreamCheck {
  streams = 0;
  bytes = 0;
  readonly refs: RefCounts = new Map();
  readonly #options: StreamCheckOptions;

  constructor(options: StreamCheckOptions) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { store, findings, signal, progress } = this.#options;
    for await (const page of store.scan(streamRow.range())) {
      for (const row of page) {
        signal.throwIfAborted();
        await findings.attempt(row.key.toString('hex'), () => this.#stream(row.key, row.value));
        progress(++this.streams);
      }
    }
    for await (const page of store.scan({ ...nameRow.range(), values: false })) {
      for (const row of page) {
        const { key } = nameRow.decodeKey(row.key);
        if ((await store.get(streamRow.key(slotOf(key), key))) === undefined && (await store.get(row.key)) !== undefined) findings.add(key, 'is in the index of names, but there is no such stream');
      }
    }
  }

  async #stream(rowKey: Buffer, first: Buffer): Promise<void> {
    const { store, findings } = this.#options;
    const { slot, key } = streamRow.decodeKey(rowKey);
    if (slot !== slotOf(key)) findings.add(key, `lies in slot ${slot}, its own is ${slotOf(key)}`);
    let value = first;
    for (let look = 1; ; look++) {
      const faults = new Findings();
      const one = new OneStream(this.#options, faults, key, slot);
      await faults.attempt(key, () => one.check(streamRow.decode(value)));
      const now = await store.get(rowKey);
      // Gone meanwhile: nothing to say about it.
      if (now === undefined) return;
      if (!now.equals(value) && look < LOOKS_MAX && faults.count > 0) {
        value = now;
        continue;
      }
      if (now.equals(value)) for (const fault of faults.listed) findings.add(fault.where, fault.what);
      this.bytes += one.bytes;
      for (const [object, count] of one.refs) this.refs.set(object, (this.refs.get(object) ?? 0) + count);
      return;
    }
  }
}

class OneStream {
  bytes = 0;
  readonly refs: RefCounts = new Map();

  constructor(
    private readonly options: StreamCheckOptions,
    private readonly faults: Findings,
    private readonly key: StreamKey,
    private readonly slot: number,
  ) {}

  async check(record: StreamRecord): Promise<void> {
    const { store } = this.options;
    if ((await store.get(nameRow.key(this.key))) === undefined) this.faults.add(this.key, 'is missing from the index of names');
    if (!this.options.cold && (record.sealed > (record.origin?.at ?? 0) || record.hotStart > heldFrom(record))) this.faults.add(this.key, 'has bytes in a cold tier that is not there');
    this.bytes = record.tail - record.retained;
    await this.#hot(record);
    await this.#refs(record);
    await this.#producers(record);
    await this.#snapshots(record);
  }

  /** [hotStart, tail) is hot, without a gap. */
  async #hot(record: StreamRecord): Promise<void> {
    const { store, deep } = this.options;
    let at = Math.max(record.hotStart, heldFrom(record)) as Offset;
    if (at < record.tail) {
      for await (const page of store.scan(dataRow.range(this.slot, record.incarnation, at + 1))) {
        for (const { value } of page) {
          const head = deep ? decodeBlock(value) : decodeBlockHead(value);
          if (head.start > at) return this.faults.add(this.key, `no hot copy of [${at}, ${head.start})`);
          at = head.end;
        }
      }
    }
    if (at !== record.tail) this.faults.add(this.key, `hot copies end at ${at}, the tail is ${record.tail}`);
  }

  /** [held from, sealed) has references, without a gap. */
  async #refs(record: StreamRecord): Promise<void> {
    const { store } = this.options;
    const from = heldFrom(record);
    let at = from;
    for await (const page of store.scan(refRow.range(this.slot, record.incarnation))) {
      for (const { key, value } of page) {
        const ref = refRow.decode(value);
        if (refRow.decodeKey(key).end !== ref.end) this.faults.add(this.key, `the reference to [${ref.start}, ${ref.end}) lies under another key`);
        const name = objectKey(ref.object);
        this.refs.set(name, (this.refs.get(name) ?? 0) + 1);
        // Below the boundary the log may not hold it yet: references there are not needed, and may end in a gap.
        if (ref.end <= from) continue;
        if (ref.start > at) this.faults.add(this.key, `no reference to [${at}, ${ref.start})`);
        at = ref.end;
      }
    }
    if (at < record.sealed && record.sealed > from) this.faults.add(this.key, `references end at ${at}, the frontier is ${record.sealed}`);
    if (at > Math.max(record.sealed, from)) this.faults.add(this.key, `references reach ${at}, beyond the frontier ${record.sealed}`);
  }

  async #producers(record: StreamRecord): Promise<void> {
    let count = 0;
    for await (const page of this.options.store.scan(producerRow.range(this.slot, record.incarnation))) {
      for (const { key, value } of page) {
        const producer = producerRow.decode(value);
        if (producer.lastEnd > record.tail) this.faults.add(this.key, `producer ${producerRow.decodeKey(key).id} wrote up to ${producer.lastEnd}, the tail is ${record.tail}`);
        count++;
      }
    }
    if (count !== record.producers) this.faults.add(this.key, `${count} producers on record, its state says ${record.producers}`);
  }

  async #snapshots(record: StreamRecord): Promise<void> {
    const { store, stagedBytes } = this.options;
    for await (const page of store.scan(snapshotRow.range(this.slot, record.incarnation))) for (const { value } of page) this.#countSnapshot(snapshotRow.decode(value));
    const { snapshot } = record;
    if (snapshot === null) return;
    this.#countSnapshot(snapshot);
    const where = `the snapshot at ${snapshot.offset}`;
    if (snapshot.offset > record.tail || snapshot.offset < record.retained) this.faults.add(this.key, `${where} lies outside [${record.retained}, ${record.tail}]`);
    if (snapshot.hot === null && snapshot.cold === null) this.faults.add(this.key, `${where} has no body anywhere`);
    if (snapshot.hot?.at === 'inline') await this.#inline(record.incarnation, snapshot);
    if (snapshot.hot?.at === 'staging') {
      const bytes = await stagedBytes(snapshot.hot.file);
      if (bytes !== snapshot.bytes) this.faults.add(this.key, `${where} has ${bytes ?? 'no'} bytes in staging instead of ${snapshot.bytes}`);
    }
  }

  #countSnapshot(snapshot: SnapshotRecord): void {
    if (snapshot.cold === null) return;
    const name = objectKey(snapshot.cold.ref.object);
    this.refs.set(name, (this.refs.get(name) ?? 0) + 1);
  }

  async #inline(incarnation: Incarnation, snapshot: SnapshotRecord): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const page of this.options.store.scan(bodyRow.range(this.slot, incarnation, snapshot.offset))) for (const { value } of page) chunks.push(bodyRow.decode(value));
    const body = Buffer.concat(chunks);
    if (body.length !== snapshot.bytes || crc32c(body) !== snapshot.crc) this.faults.add(this.key, `the body of the snapshot at ${snapshot.offset} is not the one that was published`);
  }
}
