/**
 * Which ranges of one stream are to be put together.
 *
 * Owns: the policy, a pure function of the references in their order. A *run* is what one GET fetches: references of one object whose frames lie one behind the other; one of `RUN_BYTES_MIN`
 * and more is long. Promises: memory is that of the short runs since the last long one (I11); when everything that is chosen for a full run was put together, every run between the first and the last is long,
 * so a read of `RUN_BYTES_MIN` meets two at most; what is chosen otherwise moves each byte up a tier, so that it is written a stated number of times (docs/architecture.md, "Compaction in tiers").
 */
import type { ColdRef, ObjectId } from '../../../../shared/storage/records/types.js';
import { sameObject } from '../../../../shared/storage/records/object-id.js';
import { RUN_BYTES_MIN } from '../../../worker/handlers/compact.js';
import { COMPACT_FAN_IN, COMPACT_RANGE_BYTES_MAX, COMPACT_RANGE_OBJECTS_MAX, COMPACT_RANGE_REFS_MAX, COMPACT_TIERS } from '../limits.js';

export interface ChooseOptions {
  /** Objects that are written anew whatever the runs in them are like. */
  readonly rewrites: (object: ObjectId) => boolean;
  /** Leave no short runs, whatever it costs. */
  readonly full: boolean;
}

interface Run {
  readonly refs: ColdRef[];
  bytes: number;
  readonly rewrite: boolean;
}

/** Takes the references of one stream one by one. */
export class RangeChooser {
  /** Ranges chosen so far, each without a gap. */
  readonly chosen: (readonly ColdRef[])[] = [];
  readonly #options: ChooseOptions;
  /** Runs since the last long one that stays. */
  #group: Run[] = [];
  #groupRefs = 0;
  #groupBytes = 0;
  #run: Run | null = null;
  /** Nothing comes before the group. */
  #first = true;

  constructor(options: ChooseOptions) {
    this.#options = options;
  }

  add(ref: ColdRef): void {
    const last = this.#run?.refs.at(-1);
    if (this.#run !== null && last !== undefined && followsIn(last, ref)) {
      this.#run.refs.push(ref);
      this.#run.bytes += ref.end - ref.start;
      return;
    }
    this.#closeRun();
    // A boundary that moved, or a restore, may leave a gap: nothing is put together across it.
    if (last !== undefined && last.end !== ref.start) this.#settle(null);
    this.#run = { refs: [ref], bytes: ref.end - ref.start, rewrite: this.#options.rewrites(ref.object) };
  }

  end(): void {
    this.#closeRun();
    this.#settle(null);
  }

  #closeRun(): void {
    const run = this.#run;
    this.#run = null;
    if (run === null) return;
    if (run.bytes >= RUN_BYTES_MIN && !run.rewrite) return this.#settle(run);
    this.#group.push(run);
    this.#groupRefs += run.refs.length;
    this.#groupBytes += run.bytes;
    const full = this.#groupRefs >= COMPACT_RANGE_REFS_MAX || this.#groupBytes >= COMPACT_RANGE_BYTES_MAX || this.#group.length >= COMPACT_RANGE_OBJECTS_MAX;
    if (!full) return;
    this.#choose(this.#group);
    this.#begin();
  }

  /** The group is whole: a long run follows, or the end. */
  #settle(follower: Run | null): void {
    const group = this.#group;
    const bytes = this.#groupBytes;
    const first = this.#first;
    this.#begin();
    if (group.length === 0) return;
    if (follower === null) return this.#settleLast(group, bytes);
    const alone = group.length === 1 && group[0]?.rewrite !== true;
    if (first && alone) return;
    this.#choose(group, first || bytes >= RUN_BYTES_MIN ? [] : leading(follower, RUN_BYTES_MIN - bytes));
  }

  #settleLast(group: readonly Run[], bytes: number): void {
    const rewrite = group.some((run) => run.rewrite);
    if (rewrite || (group.length > 1 && (this.#options.full || bytes >= RUN_BYTES_MIN))) return this.#choose(group);
    for (let tier = 1; tier <= COMPACT_TIERS; tier++) {
      const below = RUN_BYTES_MIN / COMPACT_FAN_IN ** tier;
      const lower = group.slice(group.findLastIndex((run) => run.bytes >= below) + 1);
      if (lower.length >= COMPACT_FAN_IN) return this.#choose(lower);
    }
  }

  #begin(): void {
    this.#group = [];
    this.#groupRefs = 0;
    this.#groupBytes = 0;
    this.#first = false;
  }

  #choose(group: readonly Run[], more: readonly ColdRef[] = []): void {
    this.chosen.push([...group.flatMap(({ refs }) => refs), ...more]);
  }
}

/** Whether a reference's block lies in the same frame as another one's, or in the next. */
function followsIn(last: ColdRef, ref: ColdRef): boolean {
  return last.end === ref.start && sameObject(last.object, ref.object) && (last.frameAt === ref.frameAt || last.frameAt + last.frameBytes === ref.frameAt);
}

/** So much of a long run, or all of it when what is left would be short. */
function leading({ refs, bytes }: Run, wanted: number): readonly ColdRef[] {
  let taken = 0;
  let count = 0;
  for (const ref of refs) {
    if (taken >= wanted) break;
    taken += ref.end - ref.start;
    count++;
  }
  return bytes - taken < RUN_BYTES_MIN ? refs : refs.slice(0, count);
}
