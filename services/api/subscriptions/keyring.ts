/**
 * The secrets of a node's subscriptions: the signing keys of webhooks (P6.5, P7.1, SUB-23, SUB-24, SUB-29) and the secret of tokens.
 *
 * Owns: the row `subscriptionKeysRow`. Promises: nothing is signed with a key that is not durable; a key that was replaced stays in the set of public keys for RETIRED_KEY_MS, which is far longer than
 * a receiver accepts its signatures; private parts leave this module in no form but signatures.
 */
import { createHash, createPrivateKey, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import { FirnError } from '../../../shared/protocol/errors.js';
import { subscriptionKeysRow, type StoredSigningKey, type SubscriptionKeys } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import { RETIRED_KEY_MS, SIGNING_KEYS_MAX, SIGNING_KEY_MS } from './limits.js';

/** A public key as RFC 7517 and RFC 8037 write it. */
export interface PublicJwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly kid: string;
  readonly use: 'sig';
  readonly alg: 'EdDSA';
  readonly x: string;
}

const SECRET_BYTES = 32;
const PUBLIC_KEY_BYTES = 32;

interface SigningKey extends StoredSigningKey {
  readonly kid: string;
}

export class Keyring {
  readonly #core: LogCore;
  readonly #now: () => number;
  readonly #secret: Buffer;
  readonly #floor: number;
  #nextNumber: number;
  /** Newest first; the first one signs. */
  #signing: readonly SigningKey[];
  /** What the newest row in the queue says: ahead of `#signing` while a new key is on its way to the disk. */
  #stored: readonly SigningKey[];
  #signer: KeyObject;
  #rotating: Promise<void> | null = null;

  private constructor(core: LogCore, now: () => number, keys: SubscriptionKeys) {
    this.#core = core;
    this.#now = now;
    this.#secret = keys.tokenSecret;
    this.#floor = keys.generationFloor;
    this.#nextNumber = keys.nextNumber;
    this.#signing = keys.signing.map(withId);
    this.#stored = this.#signing;
    this.#signer = signerOf(this.#signing);
  }

  /** Reads the keys, or makes them when the directory has none yet: because it is new, or because it was restored, for secrets never lie in an object store. */
  static async open(core: LogCore, now: () => number): Promise<Keyring> {
    const value = await core.store.get(subscriptionKeysRow.key());
    const stored = value === undefined ? NO_KEYS : subscriptionKeysRow.decode(value);
    if (stored.signing.length > 0) return new Keyring(core, now, stored);
    const fresh = new Keyring(core, now, { ...stored, tokenSecret: randomBytes(SECRET_BYTES), signing: [newKey(now())] });
    await core.stageOps([fresh.rowOp()]);
    return fresh;
  }

  /** New subscriptions count their generations from here. */
  get generationFloor(): number {
    return this.#floor;
  }

  get tokenSecret(): Buffer {
    return this.#secret;
  }

  /** Id of the key that signs now. */
  get activeKid(): string {
    return this.#signing[0]!.kid;
  }

  /** A number that no subscription had, and the row that says so: it belongs into the batch that uses it. */
  takeNumber(): { readonly number: number; readonly op: HotOp } {
    const number = this.#nextNumber++;
    return { number, op: this.rowOp() };
  }

  /** The value of `Webhook-Signature` for a body sent now: Ed25519 over `<t>.<body>`. */
  signature(body: Buffer): string {
    const seconds = Math.floor(this.#now() / 1_000);
    const signature = sign(null, Buffer.concat([Buffer.from(`${seconds}.`), body]), this.#signer);
    return `t=${seconds},kid=${this.activeKid},ed25519=${signature.toString('base64url')}`;
  }

  /** Public keys that receivers may need, the active one first. */
  jwks(): PublicJwk[] {
    const now = this.#now();
    return this.#signing.filter((key) => isShown(key, now)).map(({ kid, publicKey }) => ({ kty: 'OKP', crv: 'Ed25519', kid, use: 'sig', alg: 'EdDSA', x: publicKey.toString('base64url') }));
  }

  /** Whether the active key has done its time. */
  get isOld(): boolean {
    return this.#now() - this.#signing[0]!.createdAtMs >= SIGNING_KEY_MS;
  }

  /** Replaces the active key; resolves when the new one is durable and signs. Throws RATE_LIMITED while too many old ones are within their time. */
  rotate(): Promise<void> {
    this.#rotating ??= this.#rotate().finally(() => {
      this.#rotating = null;
    });
    return this.#rotating;
  }

  async #rotate(): Promise<void> {
    const now = this.#now();
    const [active, ...older] = this.#signing;
    const kept = [{ ...active!, privateKey: NOTHING, retiredAtMs: now }, ...older].filter((key) => isShown(key, now));
    if (kept.length >= SIGNING_KEYS_MAX) throw new FirnError('RATE_LIMITED', { detail: 'too many signing keys were replaced within a day' });
    const next = [withId(newKey(now)), ...kept];
    this.#stored = next;
    try {
      await this.#core.stageOps([this.rowOp()]);
    } catch (error) {
      this.#stored = this.#signing;
      throw error;
    }
    this.#signing = next;
    this.#signer = signerOf(next);
  }

  /** The row as it should be. */
  rowOp(): HotOp {
    return { type: 'put', key: subscriptionKeysRow.key(), value: subscriptionKeysRow.encode({ nextNumber: this.#nextNumber, tokenSecret: this.#secret, signing: this.#stored, generationFloor: this.#floor }) };
  }
}

const NOTHING = Buffer.alloc(0);
const NO_KEYS: SubscriptionKeys = { nextNumber: 1, tokenSecret: NOTHING, signing: [], generationFloor: 0 };

function isShown(key: StoredSigningKey, nowMs: number): boolean {
  return key.retiredAtMs === 0 || nowMs - key.retiredAtMs < RETIRED_KEY_MS;
}

function newKey(nowMs: number): StoredSigningKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return {
    privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }),
    publicKey: Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'),
    createdAtMs: nowMs,
    retiredAtMs: 0,
  };
}

/** The id is the key's thumbprint (RFC 7638): stable, and the same for no two keys. */
function withId(key: StoredSigningKey): SigningKey {
  if (key.publicKey.length !== PUBLIC_KEY_BYTES) throw new Error('a public key of Ed25519 has 32 bytes');
  const thumbprint = createHash('sha256').update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x: key.publicKey.toString('base64url') })).digest('base64url');
  return { ...key, kid: `ds_${thumbprint}` };
}

function signerOf([active]: readonly SigningKey[]): KeyObject {
  if (active === undefined) throw new Error('there is no signing key');
  return createPrivateKey({ key: active.privateKey, format: 'der', type: 'pkcs8' });
}
