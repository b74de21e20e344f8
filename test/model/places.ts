/**
 * Where bytes lie, as the admin listener and the folder of objects show it, checked after each step: I1 (one source for each byte), I3 (a published range is in an object that is there),
 * I4 and I8 (by `objects.ts`), I7 (an incarnation is one life's).
 *
 * `firn verify` looks at the same from within; here only what a node says about itself is believed, and held against the files.
 */
import { expect } from 'vitest';
import { Objects } from './objects.js';
import type { Rig } from './rig.js';
import type { Spec } from './spec.js';

export interface Page {
  readonly incarnation: string;
  readonly tail: string;
  readonly retained: string;
  readonly hot: { readonly start: string; readonly end: string };
  readonly cold: { readonly start: string; readonly end: string; readonly segments: readonly { readonly object: string; readonly start: string; readonly end: string }[] };
  readonly fork: { readonly source: string; readonly end: string } | null;
  readonly forks: number;
  readonly snapshot: { readonly offset: string; readonly bytes: number; readonly hot: string | null; readonly cold: string | null } | null;
}

interface Report {
  readonly findings: readonly { readonly where: string; readonly what: string }[];
}

export class Places {
  /** Tokens that were ever given out in this world (I7). */
  readonly #tokens = new Set<string>();
  readonly objects: Objects;

  constructor(private readonly rig: Rig, private readonly spec: Spec) {
    this.objects = new Objects(rig.view);
  }

  isNew(token: string): void {
    expect(this.#tokens.has(token), `incarnation ${token} was given out before`).toBe(false);
    this.#tokens.add(token);
  }

  async pageOf(path: string): Promise<Page> {
    return (await this.rig.node.ask('GET', `/__firn/streams${path}`)) as Page;
  }

  /** `deep`: every stored byte. */
  async check(deep: boolean): Promise<void> {
    const report = (await this.rig.node.ask('POST', `/__firn/verify?deep=${deep ? 1 : 0}`)) as Report;
    expect(report.findings).toEqual([]);
    await this.objects.check();
    for (const life of this.spec.readable) {
      const page = await this.pageOf(life.path);
      const at = Number;
      expect([page.incarnation, at(page.tail), at(page.retained), page.forks], life.path).toEqual([life.token, life.tail, life.retained, life.forks]);
      // A fork's own bytes begin where its source's end, or at its boundary.
      const own = Math.max(life.retained, page.fork === null ? 0 : at(page.fork.end));
      const coldEnd = at(page.cold.end);
      expect([life.path, at(page.cold.start), own <= coldEnd || own > life.tail, at(page.hot.start) <= Math.max(coldEnd, own), at(page.hot.end)], 'ranges of the tiers').toEqual([life.path, own, true, true, life.tail]);
      await this.#covered(life.path, page, own, coldEnd);
    }
  }

  /** References lead from `from` to `to` without a gap, to objects that are there. */
  async #covered(path: string, { cold, snapshot }: Page, from: number, to: number): Promise<void> {
    let reached = from;
    for (const { object, start, end } of cold.segments) {
      if (Number(end) <= from) continue;
      expect(Number(start), `${path}: no reference behind ${reached}`).toBeLessThanOrEqual(reached);
      reached = Number(end);
      expect(await this.rig.view.size(object), object).toBeGreaterThan(0);
    }
    expect(reached, `${path}: end of the references`).toBeGreaterThanOrEqual(to);
    if (snapshot === null) return;
    expect([path, snapshot.hot ?? snapshot.cold]).not.toEqual([path, null]);
    if (snapshot.cold?.includes('/snapshots/') === true) expect(await this.rig.view.size(snapshot.cold)).toBe(snapshot.bytes);
  }
}
