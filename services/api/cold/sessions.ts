/**
 * Sessions of a partition in the object store: claims and fences (architecture section 7, I10).
 *
 * Owns: the claim objects and the rule that ends an earlier session. Promises: a session number is claimed by one node run; after
 * `fenceEarlier` nobody can add to the log of an earlier session, and what was added before is part of the history.
 */
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { ObjectDamaged } from '../../../shared/storage/object-store.js';
import { readLogEntry } from '../../../shared/storage/history/log-entries.js';
import { SESSION_MAX } from '../../../shared/storage/records/object-id.js';
import { encodeLogEntry } from '../../../shared/storage/records/log-entry.js';
import { encodeSessionDocument, parseSessionDocument, STORE_FORMAT, type SessionDocument } from '../../../shared/storage/store-json.js';
import { logKey, logPrefix, parseLogKey, parseSessionKey, sessionKey, sessionPrefix } from '../../../shared/storage/keys.js';

/** Throws `BadBytes` or `ObjectDamaged` for anything but a claim of this session. */
export async function readClaim(store: ObjectStore, partition: number, session: number): Promise<SessionDocument> {
  const key = sessionKey(partition, session);
  const claim = parseSessionDocument(await store.get(key));
  if (claim.partition !== partition || claim.session !== session) throw new ObjectDamaged(key, `claims session ${claim.session} of partition ${claim.partition}`);
  return claim;
}

/** Highest claimed session above `after`, `after` itself when there is none (0: no session at all). */
export async function newestSession(store: ObjectStore, partition: number, after = 0): Promise<number> {
  let newest = after;
  for await (const { key } of store.list(sessionPrefix(partition), after === 0 ? undefined : sessionKey(partition, after))) {
    const session = parseSessionKey(key)?.session;
    if (session !== undefined && session > newest) newest = session;
  }
  return newest;
}

/** Whether somebody claimed a session after this one: numbers are claimed without gaps, so the next one tells. */
export async function isSuperseded(store: ObjectStore, partition: number, session: number): Promise<boolean> {
  return (await store.size(sessionKey(partition, session + 1))) !== null;
}

/** Claims exactly `session`; false when somebody else has it. */
export async function claimSession(store: ObjectStore, claim: Omit<SessionDocument, 'format'>): Promise<boolean> {
  if (claim.session > SESSION_MAX) throw new Error(`partition ${claim.partition} has used up its ${SESSION_MAX} sessions`);
  const outcome = await store.putOnce(sessionKey(claim.partition, claim.session), encodeSessionDocument({ format: STORE_FORMAT, ...claim }));
  return outcome !== 'exists-theirs';
}

/** Fences every session from `from` up to and without `by`, oldest first. `from` is known to have only fenced sessions below it. */
export async function fenceEarlier(store: ObjectStore, partition: number, from: number, by: number): Promise<void> {
  for (let session = Math.max(1, from); session < by; session++) await fence(store, partition, session, by);
}

/** Ends one session: a fence at its next log position. Whoever creates a key first decides, so a record that wins is counted and the fence goes behind it. */
async function fence(store: ObjectStore, partition: number, session: number, by: number): Promise<void> {
  let seq = 0;
  for await (const { key } of store.list(logPrefix(partition, session))) {
    const listed = parseLogKey(key);
    if (listed !== null && listed.seq > seq) seq = listed.seq;
  }
  if (seq > 0 && (await readLogEntry(store, partition, session, seq)).kind === 'fence') return;
  for (;;) {
    seq++;
    const body = encodeLogEntry({ kind: 'fence', partition, session, seq, fencedBy: by });
    const outcome = await store.putOnce(logKey(partition, session, seq), body);
    if (outcome !== 'exists-theirs') return;
    if ((await readLogEntry(store, partition, session, seq)).kind === 'fence') return;
  }
}
