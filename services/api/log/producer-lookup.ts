/**
 * Producers of a stream: from memory, where it is ahead of the disk, else from their rows.
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import type { NamedProducer, ProducerRecord } from '../../../shared/storage/records/types.js';
import { producerRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import { PRODUCERS_CACHED_MAX } from './limits.js';
import type { Slot } from './slot.js';

/** A producer as the next request must see it, null: not known. `rows` may be behind the journal. */
export async function lookUpProducer(rows: Pick<HotReads, 'get'>, slot: Slot, incarnation: Incarnation, id: string): Promise<ProducerRecord | null> {
  for (;;) {
    const cache = slot.pending?.incarnation === incarnation ? (slot.producers ??= new Map()) : null;
    const cached = cache?.get(id);
    if (cached !== undefined) return cached;
    const journaled = slot.tail?.incarnation === incarnation ? slot.tail.producers?.get(id) : undefined;
    let record: ProducerRecord | null;
    if (journaled === undefined) {
      const value = await rows.get(producerRow.key(slot.slot, incarnation, id));
      record = value === undefined ? null : producerRow.decode(value);
    } else {
      record = journaled;
    }
    if (cache === null) return record;
    // Thrown away meanwhile: a write of this producer may have come and gone since the disk was read.
    if (slot.producers !== cache) continue;
    // Staged meanwhile: memory is ahead of the disk.
    const newer = cache.get(id);
    if (newer !== undefined) return newer;
    if (cache.size >= PRODUCERS_CACHED_MAX && slot.staged === 0) slot.producers = new Map();
    slot.producers.set(id, record);
    return record;
  }
}

/** Producers whose `change` lies above `after`. `rows` holds all that is durable. */
export async function producersSince(rows: Pick<HotReads, 'scan'>, slot: Slot, incarnation: Incarnation, after: number): Promise<NamedProducer[]> {
  const found: NamedProducer[] = [];
  for await (const page of rows.scan(producerRow.range(slot.slot, incarnation))) {
    for (const entry of page) {
      const record = producerRow.decode(entry.value);
      if (record.change > after) found.push({ ...record, id: producerRow.decodeKey(entry.key).id });
    }
  }
  return found;
}
