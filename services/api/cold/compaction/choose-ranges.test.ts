import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../../../shared/protocol/types.js';
import { BLOCK_PAYLOAD_MAX } from '../../../../shared/storage/block.js';
import type { ColdRef, ObjectId } from '../../../../shared/storage/records/types.js';
import { RUN_BYTES_MIN } from '../../../worker/handlers/compact.js';
import { COMPACT_FAN_IN, COMPACT_TIERS } from '../limits.js';
import { RangeChooser, type ChooseOptions } from './choose-ranges.js';

/** A stream's references as seals and compactions would lay them, one object each time. */
class Laid {
  refs: ColdRef[] = [];
  sealed = 0;
  written = 0;
  #objects = 0;

  seal(bytes: number): void {
    this.refs.push(...this.#lay(this.refs.at(-1)?.end ?? 0, bytes));
    this.sealed += bytes;
  }

  /** Carries out what is chosen; false: nothing was. */
  compact(options: Partial<ChooseOptions> = {}): boolean {
    const chooser = new RangeChooser({ full: false, rewrites: () => false, ...options });
    for (const ref of this.refs) chooser.add(ref);
    chooser.end();
    for (const range of chooser.chosen) {
      const [from, to] = [(range[0] as ColdRef).start, (range.at(-1) as ColdRef).end];
      const at = this.refs.findIndex((ref) => ref.start === from);
      expect(this.refs.slice(at, at + range.length)).toEqual(range);
      this.refs.splice(at, range.length, ...this.#lay(from, to - from));
      this.written += to - from;
    }
    return chooser.chosen.length > 0;
  }

  #lay(from: number, bytes: number): ColdRef[] {
    const object: ObjectId = { kind: 'segment', partition: 0, session: 1, plan: ++this.#objects, attempt: 1, part: 0 };
    const refs: ColdRef[] = [];
    for (let done = 0; done < bytes; done += BLOCK_PAYLOAD_MAX) {
      const more = Math.min(BLOCK_PAYLOAD_MAX, bytes - done);
      refs.push({ object, frameAt: 8 + refs.length * 100, frameBytes: 100, frameCrc: 0, blockAt: 10, blockBytes: more, start: (from + done) as Offset, end: (from + done + more) as Offset });
    }
    return refs;
  }

  /** Lengths of the places that one GET fetches. */
  get runs(): number[] {
    const runs: number[] = [];
    for (const [index, ref] of this.refs.entries()) {
      if (index > 0 && this.refs[index - 1]?.object === ref.object) runs[runs.length - 1] = (runs.at(-1) as number) + ref.end - ref.start;
      else runs.push(ref.end - ref.start);
    }
    return runs;
  }
}

const anySizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.integer({ min: 1, max: 300_000 }), fc.integer({ min: 900_000, max: 5_000_000 })), { minLength: 1, maxLength: 120 });

describe('the choice of ranges', () => {
  it('leaves after a full run no short piece between the first and the last, and nothing more to do: a read of 1 MiB meets two at most', () => {
    fc.assert(fc.property(anySizes, fc.boolean(), (sizes, meanwhile) => {
      const stream = new Laid();
      for (const bytes of sizes) {
        stream.seal(bytes);
        if (meanwhile) stream.compact();
      }
      for (let pass = 0; stream.compact({ full: true }); pass++) expect(pass).toBeLessThan(4);
      for (const run of stream.runs.slice(1, -1)) expect(run).toBeGreaterThanOrEqual(RUN_BYTES_MIN);
      expect(stream.refs.at(-1)?.end).toBe(stream.sealed);
      expect(stream.refs.length).toBeLessThanOrEqual((2 * stream.sealed) / BLOCK_PAYLOAD_MAX + stream.runs.length);
    }), { numRuns: 60 });
  });

  it.each([1_024, 3_000, 20_000, 100_000, 400_000, 3_000_000])('I11 cost: a byte of a stream that brings %i bytes a seal is written three times at most, its seal included, and few references are left', (bytes) => {
    const stream = new Laid();
    const seals = Math.ceil(Math.max(40 * RUN_BYTES_MIN, 40 * bytes) / bytes);
    let most = 0;
    for (let n = 0; n < seals; n++) {
      stream.seal(bytes);
      stream.compact();
      most = Math.max(most, stream.refs.length - Math.ceil((2 * stream.sealed) / BLOCK_PAYLOAD_MAX));
    }
    expect((stream.sealed + stream.written) / stream.sealed).toBeLessThanOrEqual(3);
    expect(most).toBeLessThanOrEqual(COMPACT_FAN_IN * (COMPACT_TIERS + 1));
  });

  it('I11 seals of changing sizes stay within the same bounds', () => {
    fc.assert(fc.property(fc.array(fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1_024, max: 20_000 }) }, fc.integer({ min: 20_000, max: 2_000_000 })), { minLength: 300, maxLength: 600 }), (sizes) => {
      const stream = new Laid();
      for (const bytes of sizes) {
        stream.seal(bytes);
        stream.compact();
        expect(stream.refs.length).toBeLessThanOrEqual((2 * stream.sealed) / BLOCK_PAYLOAD_MAX + stream.sealed / RUN_BYTES_MIN + COMPACT_FAN_IN * (COMPACT_TIERS + 1));
      }
      expect((stream.sealed + stream.written) / stream.sealed).toBeLessThanOrEqual(3);
    }), { numRuns: 20 });
  });

  it('rewrites what lies in a marked object, with the short pieces beside it, and nothing else', () => {
    const stream = new Laid();
    for (const bytes of [3_000_000, 2_000, 4_000_000, 1_000, 5_000]) stream.seal(bytes);
    const marked = (stream.refs[0] as ColdRef).object;
    expect(stream.compact({ rewrites: (object) => object === marked })).toBe(true);
    expect(stream.runs.slice(1)).toEqual([4_000_000, 1_000, 5_000]);
    const last = (stream.refs.at(-1) as ColdRef).object;
    stream.compact({ rewrites: (object) => object === last });
    expect(stream.runs.at(-1)).toBe(6_000);
  });

  it('puts nothing together across a gap', () => {
    const chooser = new RangeChooser({ full: true, rewrites: () => false });
    const stream = new Laid();
    for (const bytes of [10, 10, 10, 10, 10]) stream.seal(bytes);
    for (const [index, ref] of stream.refs.entries()) if (index !== 2) chooser.add(ref);
    chooser.end();
    expect(chooser.chosen.map((range) => range.map(({ start }) => start))).toEqual([[0, 10], [30, 40]]);
  });

  it('leaves a single short piece at the beginning or the end alone', () => {
    for (const sizes of [[10], [10, 3_000_000], [3_000_000, 10], [2_000_000, 2_000_000]]) {
      const stream = new Laid();
      for (const bytes of sizes) stream.seal(bytes);
      expect(stream.compact({ full: true }), sizes.join()).toBe(false);
    }
  });
});
