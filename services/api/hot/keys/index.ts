/**
 * The catalogue of everything in the hot store.
 *
 * | row            | byte | scope                  | layout of the key after the kind byte                      | value                     | changes            |
 * | -------------- | ---- | ---------------------- | ---------------------------------------------------------- | ------------------------- | ------------------ |
 * | metaRow        | 0x01 | directory              | name                                                       | raw                       | replaced           |
 * | markerRow      | 0x02 | directory              | n mod ring (4)                                             | number and sums of a batch | replaced (ring)   |
 * | journalRow     | 0x03 | directory              | number of a batch (8)                                      | small appends of a batch  | put, deleted       |
 * | streamRow      | 0x10 | slot                   | slot (2), stream key                                       | StreamRecord              | replaced           |
 * | nameRow        | 0x11 | directory              | stream key                                                 | none                      | put, deleted       |
 * | dataRow        | 0x12 | incarnation            | slot (2), incarnation (8), end (8)                         | encoded block             | folded, deleted    |
 * | producerRow    | 0x13 | incarnation            | slot (2), incarnation (8), producer id                     | ProducerRecord            | replaced           |
 * | refRow         | 0x14 | incarnation            | slot (2), incarnation (8), end (8)                         | ColdRef                   | replaced, deleted  |
 * | snapshotRow    | 0x15 | incarnation            | slot (2), incarnation (8), offset (8)                      | SnapshotRecord            | replaced, deleted  |
 * | bodyRow        | 0x16 | incarnation            | slot (2), incarnation (8), offset (8), n (4)               | raw, at most 256 KiB      | put, deleted       |
 * | doomedRow      | 0x17 | incarnation            | slot (2), incarnation (8)                                  | stream key                | put, deleted       |
 * | unpinRow       | 0x18 | incarnation            | slot (2), incarnation (8), incarnation of a fork (8)       | stream key                | put, deleted       |
 * | partRow        | 0x19 | incarnation            | slot (2), incarnation (8), part id                         | stream key, size, sum, when | put, deleted     |
 * | expiryRow      | 0x20 | partition, by time     | partition (2), ms (8), slot (2), stream key                | none                      | put, deleted       |
 * | dirtyRow       | 0x21 | partition              | partition (2), slot (2), incarnation (8)                   | stream key, since, deleted | replaced, deleted |
 * | evictRow       | 0x22 | partition, by time     | partition (2), ms (8), slot (2), incarnation (8)           | stream key, upper offset  | put, deleted       |
 * | objectRow      | 0x24 | partition              | partition (2), session (4), plan (8), attempt (4), part (4), kind of object (1) | size, sum, references | replaced, deleted |
 * | appliedRow     | 0x25 | partition              | partition (2)                                              | session, seq, slice       | replaced           |
 * | bucketFenceRow | 0x26 | directory              | bucket id                                                  | when                      | put                |
 * | subscriptionRow       | 0x30 | directory       | id                                                         | SubscriptionRecord        | replaced, deleted  |
 * | subscriptionEndRow    | 0x31 | directory       | id                                                         | last generation, number, when | replaced, deleted |
 * | subscriptionBaseRow   | 0x32 | subscription    | number (4), page (4)                                       | incarnations with cursors | replaced, deleted  |
 * | subscriptionCursorRow | 0x33 | subscription    | number (4), incarnation (8)                                | cursor                    | replaced, deleted  |
 * | subscriptionLinkRow   | 0x34 | subscription    | number (4), stream key                                     | incarnation, cursor       | replaced, deleted  |
 * | subscriptionKeysRow   | 0x35 | directory       | name                                                       | counter, secret, signing keys | replaced       |
 * | subscriptionLoggedRow | 0x36 | directory       | id                                                         | none                      | put, deleted       |
 *
 * Numbers in keys are big-endian. The durable store adds a sum over key and value behind every value but those of data and marker rows, which carry their own.
 */
import type { KIND } from './layout.js';
import { appliedRow } from './applied.js';
import { bodyRow } from './body.js';
import { bucketFenceRow } from './bucket-fence.js';
import { dataRow } from './data.js';
import { dirtyRow } from './dirty.js';
import { doomedRow } from './doomed.js';
import { evictRow } from './evict.js';
import { expiryRow } from './expiry.js';
import { journalRow } from './journal.js';
import { markerRow } from './marker.js';
import { metaRow } from './meta.js';
import { nameRow } from './name.js';
import { objectRow } from './object.js';
import { partRow } from './part.js';
import { producerRow } from './producer.js';
import { refRow } from './ref.js';
import { snapshotRow } from './snapshot.js';
import { streamRow } from './stream.js';
import { subscriptionBaseRow } from './subscription-base.js';
import { subscriptionCursorRow } from './subscription-cursor.js';
import { subscriptionEndRow } from './subscription-end.js';
import { subscriptionKeysRow } from './subscription-keys.js';
import { subscriptionLinkRow } from './subscription-link.js';
import { subscriptionLoggedRow } from './subscription-logged.js';
import { subscriptionRow } from './subscription.js';
import { unpinRow } from './unpin.js';

/** Every kind of row there is. */
export const ROWS = {
  meta: metaRow,
  marker: markerRow,
  journal: journalRow,
  stream: streamRow,
  name: nameRow,
  data: dataRow,
  producer: producerRow,
  ref: refRow,
  snapshot: snapshotRow,
  body: bodyRow,
  doomed: doomedRow,
  unpin: unpinRow,
  part: partRow,
  expiry: expiryRow,
  dirty: dirtyRow,
  evict: evictRow,
  object: objectRow,
  applied: appliedRow,
  bucketFence: bucketFenceRow,
  subscription: subscriptionRow,
  subscriptionEnd: subscriptionEndRow,
  subscriptionBase: subscriptionBaseRow,
  subscriptionCursor: subscriptionCursorRow,
  subscriptionLink: subscriptionLinkRow,
  subscriptionKeys: subscriptionKeysRow,
  subscriptionLogged: subscriptionLoggedRow,
} as const satisfies { readonly [K in keyof typeof KIND]: { readonly kind: (typeof KIND)[K] } };

export { appliedRow, bodyRow, bucketFenceRow, dataRow, dirtyRow, doomedRow, evictRow, expiryRow, journalRow, markerRow, metaRow, nameRow, objectRow, partRow, producerRow, refRow, snapshotRow, streamRow, unpinRow,
  subscriptionBaseRow, subscriptionCursorRow, subscriptionEndRow, subscriptionKeysRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow };
export type { Applied } from './applied.js';
export { BODY_CHUNK_MAX } from './body.js';
export type { BucketFence } from './bucket-fence.js';
export type { Dirty } from './dirty.js';
export type { Doomed } from './doomed.js';
export type { Eviction } from './evict.js';
export { EMPTY, KIND, U64_END, type KeyRange } from './layout.js';
export type { JournalEntry } from './journal.js';
export { MARKER_RING, type Marker } from './marker.js';
export { META } from './meta.js';
export type { ObjectUse } from './object.js';
export type { Part } from './part.js';
export type { StoredSigningKey, SubscriptionKeys } from './subscription-keys.js';
export type { SubscriptionRecord, SubscriptionType, WakePhase } from './subscription.js';
export type { Unpin } from './unpin.js';
