/**
 * Whether a data directory and an object store belong together (architecture section 7, "Start").
 *
 * Owns: creation of `store.json`, and every refusal of a start. Promises: nothing is written into a store that is not this directory's; a start killed
 * anywhere in here is taken up by the next one.
 */
import { randomBytes } from 'node:crypto';
import type { ColdKind } from '../../../shared/config/index.js';
import { TOKEN_KEY_BYTES } from '../../../shared/protocol/incarnation.js';
import { STORE_KEY } from '../../../shared/storage/keys.js';
import { ObjectMissing, type ObjectStore } from '../../../shared/storage/object-store.js';
import { encodeStoreDocument, parseStoreDocument, SLOT_HASH, STORE_FORMAT, type StoreDocument } from '../../../shared/storage/store-json.js';
import { identityRow, type Identity, type MetaRows } from './directory.js';
import { StartRefused } from './start-refused.js';

/** `store.json`, null when there is none. Throws `StoreUnavailable`, `BadBytes`. */
export async function readStoreDocument(store: ObjectStore): Promise<StoreDocument | null> {
  try {
    return parseStoreDocument(await store.get(STORE_KEY));
  } catch (error) {
    if (error instanceof ObjectMissing) return null;
    throw error;
  }
}

/** What the directory alone can tell. Throws `StartRefused`. */
export function checkDirectory(identity: Identity | null, cold: ColdKind, dir: string): void {
  if (identity === null) return;
  if (identity.state === 'restoring') {
    throw new StartRefused(`a restore into ${dir} was interrupted: remove its hot/ and run "firn restore" again`);
  }
  if (identity.cold !== cold) {
    throw new StartRefused(`${dir} was created with FIRN_COLD=${identity.cold}, now it is ${cold}: a store keeps the cold tier that it was created with (another FIRN_DATA_DIR begins a new one)`);
  }
}

/**
 * Makes sure that directory and store belong together, and creates the store for a new directory. `hotIsEmpty`: the directory holds no rows of its
 * own. Throws `StartRefused`, `StoreUnavailable`.
 */
export async function agree(rows: MetaRows, identity: Identity | null, store: ObjectStore, fresh: { readonly cold: 'fs' | 's3'; readonly partitions: number; readonly dir: string }): Promise<Identity> {
  const document = await readStoreDocument(store);
  if (identity === null) {
    if (document !== null) {
      throw new StartRefused(`${store.describe} holds store ${document.storeId}, and ${fresh.dir} is empty: run "firn restore" to fill it from there, or name an empty place for a new store`);
    }
    return create(rows, store, fresh);
  }
  if (document === null) {
    if (identity.state === 'creating') return finish(rows, store, identity);
    throw new StartRefused(`${fresh.dir} belongs to store ${identity.storeId}, but ${store.describe} holds none`);
  }
  if (document.storeId !== identity.storeId) {
    throw new StartRefused(`${fresh.dir} belongs to store ${identity.storeId}, but ${store.describe} holds store ${document.storeId}`);
  }
  if (document.cold !== identity.cold || document.partitions !== identity.partitions || !document.tokenKey.equals(identity.tokenKey)) {
    throw new StartRefused(`store ${identity.storeId} in ${store.describe} was created with FIRN_COLD=${document.cold} and ${document.partitions} partitions, ${fresh.dir} says ${identity.cold} and ${identity.partitions}`);
  }
  return identity.state === 'creating' ? finish(rows, store, identity) : identity;
}

/** The identity is durable here before the store exists there: a start killed in between finds its own store. */
async function create(rows: MetaRows, store: ObjectStore, fresh: { readonly cold: 'fs' | 's3'; readonly partitions: number }): Promise<Identity> {
  const identity: Identity = {
    cold: fresh.cold,
    storeId: randomBytes(12).toString('hex'),
    partitions: fresh.partitions,
    tokenKey: randomBytes(TOKEN_KEY_BYTES),
    state: 'creating',
  };
  await rows.write([identityRow(identity)]);
  return finish(rows, store, identity);
}

async function finish(rows: MetaRows, store: ObjectStore, identity: Identity): Promise<Identity> {
  if (identity.storeId === null || identity.cold === 'none') throw new Error('a store without a cold tier has no document');
  const { storeId, partitions, tokenKey, cold } = identity;
  const outcome = await store.putOnce(STORE_KEY, encodeStoreDocument({ format: STORE_FORMAT, storeId, slotHash: SLOT_HASH, partitions, cold, tokenKey }));
  if (outcome === 'exists-theirs') throw new StartRefused(`another node created a store in ${store.describe} just now: name an empty place, or run "firn restore"`);
  const ready: Identity = { ...identity, state: 'ready' };
  await rows.write([identityRow(ready)]);
  return ready;
}
