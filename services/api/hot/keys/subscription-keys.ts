/** What the subscriptions of the directory share: `kind | name` -> counter, secret of the tokens, signing keys. One row. */
import { decodeStored, encodeStored, type ByteReader } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 2;
/** Without a floor. */
const VERSION_BEFORE = 1;
const WHAT = 'subscription keys row';
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
  /** Empty, as are the signing keys: a restore left it to the node to make new ones. */
  readonly tokenSecret: Buffer;
  /** Newest first. */
  readonly signing: readonly StoredSigningKey[];
  /** Generations of new subscriptions lie above it: those at or below it may have been told before a restore. */
  readonly generationFloor: number;
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
    return encodeStored(VERSION, keys, (writer, { nextNumber, tokenSecret, signing, generationFloor }) => {
      writer.varint(nextNumber);
      writer.bytes(tokenSecret);
      writer.varint(signing.length);
      for (const { privateKey, publicKey, createdAtMs, retiredAtMs } of signing) {
        writer.bytes(privateKey);
        writer.bytes(publicKey);
        writer.varint(createdAtMs);
        writer.varint(retiredAtMs);
      }
      writer.varint(generationFloor);
    });
  },
  decode(value: Buffer): SubscriptionKeys {
    if (value[0] === VERSION_BEFORE) return decodeStored(value, WHAT, VERSION_BEFORE, (reader) => ({ ...read(reader), generationFloor: 0 }));
    return decodeStored(value, WHAT, VERSION, (reader) => ({ ...read(reader), generationFloor: reader.varint() }));
  },
};

function read(reader: ByteReader): Omit<SubscriptionKeys, 'generationFloor'> {
  return {
    nextNumber: reader.varint(),
    tokenSecret: reader.bytes(KEY_BYTES_MAX),
    signing: reader.many(4, (each) => ({ privateKey: each.bytes(KEY_BYTES_MAX), publicKey: each.bytes(KEY_BYTES_MAX), createdAtMs: each.varint(), retiredAtMs: each.varint() })),
  };
}
