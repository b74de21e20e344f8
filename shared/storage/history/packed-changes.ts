/**
 * Changes of very many streams, kept as the bytes that the log has for them.
 *
 * Owns: where they lie. A stream has a chain of changes, of which the newest is known by its key and each one names the one before. As objects they took ten times the memory.
 */
import type { StreamKey } from '../../protocol/types.js';
import { ByteReader, ByteWriter } from '../codec.js';
import { readDelta, writeDelta } from '../records/log-entry.js';
import type { StreamDelta } from './key-change.js';

/** Changes lie in pieces of so many bytes, a longer one in a piece of its own. */
const PIECE_BYTES = 1_048_576;
/** No change came before. */
const NONE = -1;

export interface PackedChange {
  readonly delta: StreamDelta;
  /** The record has no plan. */
  readonly renews: boolean;
}

export class PackedChanges {
  /** Place of the newest change of each stream: number of the piece times `PIECE_BYTES`, and the position in it. */
  readonly #newest = new Map<StreamKey, number>();
  readonly #pieces: Buffer[] = [];
  readonly #writer = new ByteWriter(4_096);
  #at = PIECE_BYTES;

  get size(): number {
    return this.#newest.size;
  }

  keys(): Iterable<StreamKey> {
    return this.#newest.keys();
  }

  add(delta: StreamDelta, renews: boolean): void {
    const writer = this.#writer.reset();
    writer.zigzag(this.#newest.get(delta.key) ?? NONE);
    writer.bool(renews);
    writeDelta(writer, delta);
    const bytes = writer.length;
    if (this.#at + bytes > PIECE_BYTES) {
      this.#pieces.push(Buffer.allocUnsafeSlow(Math.max(PIECE_BYTES, bytes)));
      this.#at = 0;
    }
    const piece = this.#pieces.length - 1;
    this.#newest.set(delta.key, piece * PIECE_BYTES + this.#at);
    this.#at = writer.takeInto(this.#pieces[piece] as Buffer, this.#at);
  }

  /** In the order in which they came; null: none. */
  of(key: StreamKey): PackedChange[] | null {
    let at = this.#newest.get(key);
    if (at === undefined) return null;
    const changes: PackedChange[] = [];
    while (at !== NONE) {
      const reader = new ByteReader(this.#pieces[Math.floor(at / PIECE_BYTES)] as Buffer, 'a packed change', at % PIECE_BYTES);
      at = reader.zigzag();
      changes.push({ renews: reader.bool(), delta: readDelta(reader) as StreamDelta });
    }
    return changes.reverse();
  }
}
