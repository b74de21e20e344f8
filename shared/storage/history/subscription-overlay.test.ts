import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Incarnation, StreamKey } from '../../protocol/types.js';
import type { CheckpointItem } from '../checkpoint.js';
import { sampleSubscription } from '../records/arbitrary.contract.js';
import type { LinkCursor, LogDelta, NamedLink, SubscriptionConfig } from '../records/types.js';
import { LogOverlay } from './log-overlay.js';
import { mergeItems } from './merge-items.js';

const IDS = ['a', 'b', 'ü', 'z'];
const KEYS = ['ev/1', 'ev/2', 'ev/3'] as StreamKey[];

interface Held {
  readonly config: SubscriptionConfig;
  readonly links: Map<StreamKey, LinkCursor>;
  readonly cursors: Map<Incarnation, number>;
}

/** What a node has, and the changes that it logs of it. */
class Model {
  readonly held = new Map<string, Held>();
  readonly deltas: LogDelta[] = [];
  #made = 0;

  create(id: string): void {
    if (this.held.has(id)) return;
    this.held.set(id, { config: sampleSubscription({ createdAtMs: ++this.#made }), links: new Map(), cursors: new Map() });
    this.#log(id, true, [], [], []);
  }

  end(id: string): void {
    if (!this.held.delete(id)) return;
    this.deltas.push({ kind: 'unsubscribe', id });
  }

  move(id: string, place: number, acked: number): void {
    const incarnation = (2 ** 52 + place) as Incarnation;
    this.held.get(id)?.cursors.set(incarnation, acked);
    this.#log(id, false, [], [], [{ incarnation, acked }]);
  }

  link(id: string, key: StreamKey, acked: number): void {
    const link = { incarnation: (2 ** 52) as Incarnation, acked };
    this.held.get(id)?.links.set(key, link);
    this.#log(id, false, [{ key, ...link }], [], []);
  }

  unlink(id: string, key: StreamKey): void {
    this.held.get(id)?.links.delete(key);
    this.#log(id, false, [], [key], []);
  }

  /** As a restart does: everything, without cursors to streams that are gone. */
  whole(id: string, gone: number): void {
    const held = this.held.get(id);
    held?.cursors.delete((2 ** 52 + gone) as Incarnation);
    if (held !== undefined) this.#log(id, true, [...held.links].map(([key, link]) => ({ key, ...link })), [], [...held.cursors].map(([incarnation, acked]) => ({ incarnation, acked })));
  }

  #log(id: string, whole: boolean, links: NamedLink[], unlinked: StreamKey[], cursors: LinkCursor[]): void {
    const held = this.held.get(id);
    if (held !== undefined) this.deltas.push({ kind: 'subscription', id, config: held.config, whole, links, unlinked, cursors });
  }
}

async function* listed(items: readonly CheckpointItem[]): AsyncGenerator<CheckpointItem> {
  yield* items;
}

async function merged(base: readonly CheckpointItem[], deltas: readonly LogDelta[]): Promise<CheckpointItem[]> {
  const overlay = new LogOverlay();
  for (const [seq, delta] of deltas.entries()) overlay.add({ kind: 'record', partition: 0, session: 1, seq, plan: 1, writtenAtMs: 0, objects: [], deltas: [delta] });
  const items: CheckpointItem[] = [];
  for await (const item of mergeItems(listed(base), overlay)) items.push(item);
  return items;
}

function heldOf(items: readonly CheckpointItem[]): Map<string, Held> {
  const all = new Map<string, Held>();
  let open: Held | undefined;
  for (const item of items) {
    if (item.kind === 'subscription') all.set(item.id, (open = { config: item.config, links: new Map(), cursors: new Map() }));
    if (item.kind === 'links') for (const { key, ...link } of item.links) open!.links.set(key, link);
    if (item.kind === 'cursors') for (const { incarnation, acked } of item.cursors) open!.cursors.set(incarnation, acked);
  }
  return all;
}

const anyStep = fc.record({ what: fc.constantFrom('create', 'create', 'end', 'move', 'move', 'move', 'link', 'unlink', 'whole'), id: fc.constantFrom(...IDS), key: fc.constantFrom(...KEYS), place: fc.nat(6), acked: fc.integer({ min: -1, max: 50 }) });

it('a checkpoint and the log behind it are what the node had, wherever the checkpoint was made, in steps or at once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 40 }), fc.array(fc.nat(60), { maxLength: 3 }), async (steps, cuts) => {
      const model = new Model();
      for (const { what, id, key, place, acked } of steps) {
        if (what === 'create') model.create(id);
        else if (what === 'end') model.end(id);
        else if (what === 'move') model.move(id, place, acked);
        else if (what === 'link') model.link(id, key, acked);
        else if (what === 'unlink') model.unlink(id, key);
        else model.whole(id, place);
      }
      let items: CheckpointItem[] = [];
      let from = 0;
      for (const cut of [...cuts.toSorted((a, b) => a - b), model.deltas.length]) {
        items = await merged(items, model.deltas.slice(from, cut));
        from = Math.max(from, Math.min(cut, model.deltas.length));
      }
      expect(heldOf(items)).toEqual(model.held);
      expect(items.filter((item) => item.kind === 'subscription').map(({ id }) => id)).toEqual([...model.held.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    }),
  );
});

it('what comes of a subscription behind its end says nothing', async () => {
  const config = sampleSubscription();
  const move: LogDelta = { kind: 'subscription', id: 's', config, whole: false, links: [], unlinked: [], cursors: [{ incarnation: (2 ** 52) as Incarnation, acked: 3 }] };
  expect(await merged([{ kind: 'subscription', id: 's', config }], [{ kind: 'unsubscribe', id: 's' }, move])).toEqual([]);
});
