/**
 * What a stretch of log does to the references of one life of a stream, over references that are not at hand yet.
 *
 * Owns: ranges whose references are known, sealed or compacted in this stretch, sorted and apart from each other. Promises: what is known of a range replaces whatever lies beneath it, and
 * nothing else; a compaction of other references than the ones that are there is an error and never a guess (I1, I6); memory is that of the stretch of log (I11).
 */
import type { Offset } from '../../protocol/types.js';
import { refsSum } from '../records/cold-ref.js';
import type { ColdRef, CompactedRange } from '../records/types.js';

interface Patch {
  from: Offset;
  to: Offset;
  refs: ColdRef[];
  /** Compactions that replaced nothing but what lies beneath: looked at once that is at hand. */
  checks: CompactedRange[];
}

export class RefPatches {
  readonly #patches: Patch[] = [];

  /** References that a seal brings: they follow everything that was there. */
  append(refs: readonly ColdRef[]): void {
    const first = refs[0];
    const end = refs.at(-1)?.end;
    if (first === undefined || end === undefined) return;
    let last = this.#patches.at(-1);
    if (last === undefined || last.to !== first.start) {
      last = { from: first.start, to: first.start, refs: [], checks: [] };
      this.#patches.push(last);
    }
    // One by one: a long stream has more of them than a call takes arguments.
    for (const ref of refs) last.refs.push(ref);
    last.to = end;
  }

  /** A compaction, of references from before this stretch, of known ones, or of both. */
  replace(range: CompactedRange): void {
    const { from, to } = range;
    const first = this.#patches.findIndex((patch) => patch.to > from);
    const at = first < 0 ? this.#patches.length : first;
    let end = at;
    while (end < this.#patches.length && (this.#patches[end] as Patch).from < to) end++;
    const over = this.#patches.slice(at, end);
    const merged: Patch = { from, to, refs: [...range.refs], checks: over.length === 0 ? [range] : [] };
    for (const patch of over) {
      const before = patch.refs.filter((ref) => ref.end <= from);
      const behind = patch.refs.filter((ref) => ref.start >= to);
      if (before.length + behind.length + patch.refs.filter((ref) => ref.start >= from && ref.end <= to).length !== patch.refs.length) throw notThere(range);
      if (patch.from <= from && patch.to >= to) checkSum(range, patch.refs);
      merged.from = Math.min(merged.from, patch.from) as Offset;
      merged.to = Math.max(merged.to, patch.to) as Offset;
      merged.refs = [...before, ...merged.refs, ...behind];
      merged.checks.push(...patch.checks);
    }
    this.#patches.splice(at, over.length, merged);
  }

  /** All that is known, in order: the references of a life of which nothing lies beneath. */
  all(): ColdRef[] {
    return this.#patches.flatMap(({ refs }) => refs);
  }

  /** For one walk over what lies beneath. */
  over(): PatchedRefs {
    return new PatchedRefs(this.#patches);
  }
}

/** References from before, given in order and in pieces, with the patches put in their places. */
class PatchedRefs {
  readonly #patches: readonly Patch[];
  #at = 0;
  /** Given up for the patch at hand. */
  #replaced: ColdRef[] = [];

  constructor(patches: readonly Patch[]) {
    this.#patches = patches;
  }

  take(refs: readonly ColdRef[]): ColdRef[] {
    const out: ColdRef[] = [];
    for (const ref of refs) {
      for (let patch = this.#patches[this.#at]; patch !== undefined && patch.to <= ref.start; patch = this.#patches[this.#at]) this.#put(patch, out);
      const patch = this.#patches[this.#at];
      if (patch === undefined || ref.end <= patch.from) {
        out.push(ref);
        continue;
      }
      if (ref.start < patch.from || ref.end > patch.to) throw new Error(`a reference to [${ref.start}, ${ref.end}) lies across what replaces [${patch.from}, ${patch.to})`);
      this.#replaced.push(ref);
    }
    return out;
  }

  /** What follows everything from before. */
  end(): ColdRef[] {
    const out: ColdRef[] = [];
    for (let patch = this.#patches[this.#at]; patch !== undefined; patch = this.#patches[this.#at]) this.#put(patch, out);
    return out;
  }

  #put(patch: Patch, out: ColdRef[]): void {
    for (const check of patch.checks) {
      // A boundary that the log holds may have taken the first of them from here, and not from the node, which had a fork by then.
      if (this.#replaced.some(({ start }) => start === check.from)) checkSum(check, this.#replaced);
    }
    this.#replaced = [];
    for (const ref of patch.refs) out.push(ref);
    this.#at++;
  }
}

function checkSum(range: CompactedRange, refs: readonly ColdRef[]): void {
  const inside = refs.filter((ref) => ref.start >= range.from && ref.end <= range.to);
  if (inside.length !== range.was.refs || refsSum(inside) !== range.was.sum) throw notThere(range);
}

function notThere({ from, to, was }: CompactedRange): Error {
  return new Error(`a compaction of ${was.refs} references to [${from}, ${to}) that are not there`);
}
