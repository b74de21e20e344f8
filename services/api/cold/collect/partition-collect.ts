/**
 * The node's side of the collections of one partition: what of a choice may be deleted (architecture section 6, I8).
 *
 * Owns: the grace of every object, and the last look before one goes. Promises: a `collect` record is in the log, and applied, before an object that the log named is given free;
 * one that the hot store counts a reference to, that a reader holds or whose grace runs is never given free, whatever a handler says; a node whose session is over gives nothing free.
 */
import { objectKey, parseObjectKey } from '../../../../shared/storage/records/object-id.js';
import type { ObjectId } from '../../../../shared/storage/records/types.js';
import { PlanGone, type CollectChoice, type CollectPlans, type CollectVerdict } from '../../../worker/node-port.js';
import { objectRow, type ObjectUse } from '../../hot/keys/index.js';
import type { HotReads } from '../../hot/store.js';
import { decodedOr } from '../damage.js';
import type { PartitionCold } from '../partition-cold.js';
import type { Steps } from '../steps.js';
import { Marks } from './marks.js';
import type { ReaderPins } from './reader-pins.js';

const SESSION_OF = /^\d{4}-(\d{6})-c/;

export interface PartitionCollectOptions {
  readonly partition: PartitionCold;
  readonly hot: HotReads;
  readonly pins: ReaderPins;
  readonly now: () => number;
  readonly graceMs: number;
  readonly steps: Steps;
}

export class PartitionCollect {
  readonly #options: PartitionCollectOptions;
  readonly #marks: Marks;

  constructor(options: PartitionCollectOptions) {
    this.#options = options;
    this.#marks = new Marks(options.now, options.graceMs);
  }

  /** No record is half-way while this answers: what names an object of a plan that is over is in the log by then. */
  plans(jobId: string): Promise<CollectPlans> {
    const { partition } = this.#options;
    return partition.onLane(async () => {
      await this.#assertOwn(jobId);
      this.#marks.begin();
      return this.#plansNow();
    });
  }

  #plansNow(): CollectPlans {
    const { board, session } = this.#options.partition;
    return { session: session.session, last: board.last, open: board.list().map(({ plan }) => plan) };
  }

  collect(jobId: string, { dropped, strays }: CollectChoice): Promise<CollectVerdict> {
    const { partition, steps } = this.#options;
    return partition.onLane(async () => {
      await this.#assertOwn(jobId);
      const garbage = await this.#those(dropped, (_, use) => use !== undefined && use.refs === 0);
      const plans = this.#plansNow();
      const orphans = await this.#those(strays, (id, use) => use === undefined && isOver(id, plans));
      let retryMs: number | null = null;
      const may = new Map<string, ObjectId>();
      for (const [key, id] of [...garbage, ...orphans]) {
        const leftMs = this.#marks.leftMs(key);
        if (leftMs === 0) may.set(key, id);
        else retryMs = Math.min(leftMs, retryMs ?? Infinity);
      }
      const held = this.#options.pins.held(new Set(may.keys()));
      for (const key of held) may.delete(key);
      const named = [...garbage.values()].filter((id) => may.has(objectKey(id)));
      if (named.length > 0) {
        await steps('collect:chosen');
        await partition.write({ plan: null, objects: [], deltas: [{ kind: 'collect', objects: named }] });
        await steps('collect:logged');
      }
      for (const key of may.keys()) this.#marks.forget(key);
      return { free: [...may.keys()], pinned: held.size, retryMs };
    });
  }

  async done(): Promise<void> {
    this.#marks.end();
    await this.#options.steps('collect:done');
  }

  /** The objects of this partition among some keys for which `holds` is true of what the hot store counts. */
  async #those(keys: readonly string[], holds: (id: ObjectId, use: ObjectUse | undefined) => boolean): Promise<Map<string, ObjectId>> {
    const { hot, partition } = this.#options;
    const ids = keys.map(parseObjectKey).filter((id) => id !== null).filter((id) => id.partition === partition.partition);
    const rows = await hot.getMany(ids.map((id) => objectRow.key(id)));
    const found = new Map<string, ObjectId>();
    for (const [n, id] of ids.entries()) {
      const row = rows[n];
      const use = row === undefined ? undefined : decodedOr(() => objectRow.decode(row), () => undefined);
      // A damaged row does not tell that nothing names its object.
      if (use !== null && holds(id, use)) found.set(objectKey(id), id);
    }
    return found;
  }

  /** A run of an earlier session, or of a node that another one has taken over from, decides nothing. */
  async #assertOwn(jobId: string): Promise<void> {
    const { session } = this.#options.partition;
    await session.check();
    if (session.state !== 'active') throw new Error(session.reason ?? `partition ${session.partition} has no claimed session`);
    if (Number(SESSION_OF.exec(jobId)?.[1]) !== session.session) throw new PlanGone(jobId);
  }
}

/** Whether no log record will ever name an object: its session is fenced, or its plan is finished. */
function isOver({ session, plan }: ObjectId, plans: CollectPlans): boolean {
  return session < plans.session || (session === plans.session && plan <= plans.last && !plans.open.includes(plan));
}
