/**
 * BLAKE3-256 digests of writes and snapshots (PROD-22, SNAP-35).
 *
 * Promises: 64 lower-case hex digits; the digest of a snapshot does not depend on how its body is cut into pieces or where it is kept
 * (SNAP-14). Importing this module loads the hash; afterwards nothing is asynchronous.
 */
import { createBLAKE3 } from 'hash-wasm';

const whole = await createBLAKE3();
/** Works for one snapshot at a time; the states of the others are saved. */
const shared = await createBLAKE3();
let current: State | null = null;

interface State {
  /** null: new, or in the hasher now. */
  saved: Uint8Array | null;
}

/** Digest of a request body as received: the value that `Producer-Digest` must have. */
export function contentDigest(body: Uint8Array): string {
  return whole.init().update(body).digest('hex');
}

/**
 * Digest over the content type's byte length (64-bit little-endian), the content type, and the body given piece by piece. Any number
 * may be under way at once.
 */
export class SnapshotDigest {
  private readonly state: State = { saved: null };
  private result: string | null = null;

  private constructor() {}

  /** Begins with the type; it counts as its UTF-8 bytes. */
  static start(contentType: string): SnapshotDigest {
    const type = Buffer.from(contentType, 'utf8');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(type.length));
    return new SnapshotDigest().update(length).update(type);
  }

  update(piece: Uint8Array): this {
    if (this.result !== null) throw new Error('the digest was taken already');
    enter(this.state);
    shared.update(piece);
    return this;
  }

  /** Ends the body. The same value when called again. */
  finish(): string {
    if (this.result !== null) return this.result;
    enter(this.state);
    this.result = shared.digest('hex');
    current = null;
    return this.result;
  }
}

/** Puts one digest's state into the shared hasher. */
function enter(state: State): void {
  if (current === state) return;
  if (current !== null) current.saved = shared.save();
  if (state.saved === null) shared.init();
  else shared.load(state.saved);
  state.saved = null;
  current = state;
}
