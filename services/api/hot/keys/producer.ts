/** State of a producer of a stream: `kind | slot (2) | incarnation (8) | producer id` -> `ProducerRecord`. Replaced by each of its writes. */
import type { Incarnation } from '../../../../shared/protocol/types.js';
import { decodeProducerRecord, encodeProducerRecord } from '../../../../shared/storage/records/producer-record.js';
import type { ProducerRecord } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newIncarnationKey, putText, textBytes, within, type KeyRange } from './layout.js';

export const producerRow = {
  kind: KIND.producer,
  key(slot: number, incarnation: Incarnation, id: string): Buffer {
    return putText(newIncarnationKey(KIND.producer, slot, incarnation, textBytes(id)), id, 11);
  },
  range(slot: number, incarnation: Incarnation): KeyRange {
    return within(newIncarnationKey(KIND.producer, slot, incarnation, 0));
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly id: string } {
    const reader = new KeyReader(key, 'producer', KIND.producer, 10);
    return { slot: reader.u16(), incarnation: reader.incarnation(), id: reader.text() };
  },
  encode(record: ProducerRecord): Buffer {
    return encodeProducerRecord(record);
  },
  decode(value: Buffer): ProducerRecord {
    return decodeProducerRecord(value);
  },
};
