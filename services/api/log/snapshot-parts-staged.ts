/**
 * The parts of snapshots that are staged on a node, in memory: a mirror of their rows.
 *
 * Owns: the names of parts, and the room that they and the ones being received take (I11). Promises: a part is found only under the incarnation that it was staged for (I7).
 */
import { randomBytes } from 'node:crypto';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { Part } from '../hot/keys/index.js';
import { STAGED_BYTES_MAX, STAGED_BYTES_NODE_MAX, STAGED_PARTS_MAX, STAGED_PARTS_NODE_MAX } from './limits.js';

const PART_ID = /^[0-9a-f]{32}-([0-9a-f]{16})\.part$/;

export interface StagedPart extends Part {
  readonly id: string;
  readonly incarnation: Incarnation;
}

/** An id that no other part has: chance, then the incarnation that the part belongs to. */
export function newPartId(incarnation: Incarnation): string {
  return `${randomBytes(16).toString('hex')}-${incarnation.toString(16).padStart(16, '0')}.part`;
}

/** The incarnation that a part belongs to, null for an id that was not made here. */
export function incarnationOfPart(id: string): Incarnation | null {
  const match = PART_ID.exec(id);
  return match === null ? null : (Number.parseInt(match[1]!, 16) as Incarnation);
}

/** Parts and bytes, staged or being received. */
interface Room {
  parts: number;
  bytes: number;
}

/** The parts of one life of a stream. */
export interface StagedStream {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  readonly parts: ReadonlyMap<string, StagedPart>;
}

interface Entry extends StagedStream {
  readonly parts: Map<string, StagedPart>;
  readonly held: Room;
}

export class StagedParts {
  readonly #streams = new Map<Incarnation, Entry>();
  readonly #node: Room = { parts: 0, bytes: 0 };
  /** Where the walk over all streams stands. */
  #walk: Iterator<Entry> | null = null;

  /** Takes room for `parts` and `bytes` more of a stream. Throws STAGED_PARTS_LIMIT and takes nothing. */
  take(key: StreamKey, incarnation: Incarnation, parts: number, bytes: number): void {
    const held = this.#streams.get(incarnation)?.held ?? { parts: 0, bytes: 0 };
    if (held.parts + parts > STAGED_PARTS_MAX) throw full('Ursula-Max-Staged-Parts', STAGED_PARTS_MAX, 'the stream');
    if (held.bytes + bytes > STAGED_BYTES_MAX) throw full('Ursula-Max-Staged-Bytes', STAGED_BYTES_MAX, 'the stream');
    if (this.#node.parts + parts > STAGED_PARTS_NODE_MAX) throw full('Ursula-Max-Staged-Parts', STAGED_PARTS_NODE_MAX, 'the server');
    if (this.#node.bytes + bytes > STAGED_BYTES_NODE_MAX) throw full('Ursula-Max-Staged-Bytes', STAGED_BYTES_NODE_MAX, 'the server');
    this.#count(this.#entry(key, incarnation), parts, bytes);
  }

  /** Gives back room of a part that was not staged. */
  give(incarnation: Incarnation, parts: number, bytes: number): void {
    const entry = this.#streams.get(incarnation);
    if (entry === undefined) throw new Error(`no room is held for ${incarnation}`);
    this.#count(entry, -parts, -bytes);
    this.#forget(entry);
  }

  /** Stages a part whose room was taken. */
  add(part: StagedPart): void {
    this.#entry(part.key, part.incarnation).parts.set(part.id, part);
  }

  /** A part that was staged before this process began: it counts, whatever the limits are now. */
  load(part: StagedPart): void {
    this.#count(this.#entry(part.key, part.incarnation), 1, part.bytes);
    this.add(part);
  }

  find(incarnation: Incarnation, id: string): StagedPart | undefined {
    return this.#streams.get(incarnation)?.parts.get(id);
  }

  of(incarnation: Incarnation): StagedPart[] {
    return [...(this.#streams.get(incarnation)?.parts.values() ?? [])];
  }

  /** Idempotent. */
  remove(part: StagedPart): void {
    const entry = this.#streams.get(part.incarnation);
    if (entry === undefined || !entry.parts.delete(part.id)) return;
    this.#count(entry, -1, -part.bytes);
    this.#forget(entry);
  }

  /** The next streams of a walk that goes round over all that have parts, at most `max`. */
  *next(max: number): Generator<StagedStream, void, void> {
    for (let n = 0; n < max; n++) {
      this.#walk ??= this.#streams.values();
      const step = this.#walk.next();
      if (step.done === true) {
        this.#walk = null;
        return;
      }
      yield step.value;
    }
  }

  #entry(key: StreamKey, incarnation: Incarnation): Entry {
    let entry = this.#streams.get(incarnation);
    if (entry === undefined) {
      entry = { key, incarnation, parts: new Map(), held: { parts: 0, bytes: 0 } };
      this.#streams.set(incarnation, entry);
    }
    return entry;
  }

  #count(entry: Entry, parts: number, bytes: number): void {
    for (const room of [entry.held, this.#node]) {
      room.parts += parts;
      room.bytes += bytes;
      if (room.parts < 0 || room.bytes < 0) throw new Error('more room for parts was given back than was taken');
    }
  }

  #forget(entry: Entry): void {
    if (entry.held.parts === 0) this.#streams.delete(entry.incarnation);
  }
}

function full(header: string, limit: number, who: string): FirnError {
  return new FirnError('STAGED_PARTS_LIMIT', { headers: { [header]: String(limit) }, detail: `${who} holds as many staged snapshot parts as it may: ${header} is ${limit}` });
}
