/** What the subscriptions of the directory share: `kind | name` -> counter, secret of the tokens, signing keys. One row. */
import { sealed, unsealed } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;
const KEY_BYTES_MAX = 1_024;

export interface StoredSigningKey {
  /** PKCS #8 in DER; empty: retired, only its public part is still shown. */
  readonly privateKey: Buffer;
  /** The 32 bytes of an Ed25519 public key. */
  readonly publicKey: Buffer;
  readonly createdAtMs: number;
  /** 0: in use. */
  readonly retiredAtMs: number;
}

export interface SubscriptionKeys {
  /** Number of the next subscription. */
  readonly nextNumber: number;
  readonly tokenSecret: Buffer;
  /** Newest first. */
  readonly signing: readonly StoredSigningKey[];
}

export const subscriptionKeysRow = {
  kind: KIND.subscriptionKeys,
  key(name = 'node'): Buffer {
    return putText(newKey(KIND.subscriptionKeys, textBytes(name)), name, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.subscriptionKeys, 0));
  },
  decodeKey(key: Buffer): { readonly name: string } {
    return { name: new KeyReader(key, 'subscription keys', KIND.subscriptionKeys, 1).text() };
  },
  encode(keys: SubscriptionKeys): Buffer {
    return sealed(VERSION, keys, (writer, { nextNumber, tokenSecret, signing }) => {
      writer.varint(nextNumber);
      writer.bytes(tokenSecret);
      writer.varint(signing.length);
      for (const { privateKey, publicKey, createdAtMs, retiredAtMs } of signing) {
        writer.bytes(privateKey);
        writer.bytes(publicKey);
        writer.varint(createdAtMs);
        writer.varint(retiredAtMs);
      }
    });
  },
  decode(value: Buffer): SubscriptionKeys {
    return unsealed(value, 'subscription keys row', VERSION, (reader) => ({
      nextNumber: reader.varint(),
      tokenSecret: reader.bytes(KEY_BYTES_MAX),
      signing: reader.many(4, (each) => ({ privateKey: each.bytes(KEY_BYTES_MAX), publicKey: each.bytes(KEY_BYTES_MAX), createdAtMs: each.varint(), retiredAtMs: each.varint() })),
    }));
  },
};
