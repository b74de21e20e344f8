/**
 * What keeps subscriptions true besides requests and appends: the start, failed batches, slow looks for what was missed, old signing keys.
 *
 * Owns: one timer. Promises: it gives up nothing: what fails is tried again at the next tick.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { subscriptionLoggedRow, subscriptionRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { clearEnded } from './ended.js';
import { SCAN_MS, TICK_MS } from './limits.js';
import { readLinks, readSubscriptions } from './loading.js';
import type { Parts } from './parts.js';

export class Upkeep {
  readonly #parts: Parts;
  readonly #follow: () => void;
  /** Resolves when everything that the directory held is in memory. */
  #loaded: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #ticking: Promise<void> | null = null;
  readonly #abort = new AbortController();
  #isUnloaded = false;
  #stopped = false;
  /** Failed batches whose traces were looked for. */
  #heals = 0;
  #scannedAtMs = 0;
  /** Rows that a failed batch may not hold. */
  #repeated: HotOp[] = [];

  /** `follow`: lets changes of streams be told. */
  constructor(parts: Parts, follow: () => void) {
    this.#parts = parts;
    this.#follow = follow;
  }

  async start(): Promise<void> {
    const { byId, core, now, coldLog } = this.#parts;
    await readSubscriptions(this.#parts);
    await coldLog?.load(byId);
    this.#scannedAtMs = now();
    if (byId.size > 0) {
      this.#follow();
      this.#load();
    } else {
      coldLog?.loaded();
    }
    void this.#loaded.then(() => clearEnded(core, coldLog !== null, now())).catch((error: unknown) => this.#failed(error));
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#timer.unref();
  }

  #load(): void {
    this.#loaded = readLinks(this.#parts, this.#abort.signal).then(() => this.#parts.coldLog?.loaded());
    // Requests say why there is no answer; the next tick tries again.
    this.#loaded.catch((error: unknown) => {
      this.#failed(error);
      this.#isUnloaded = true;
    });
  }

  ready(): Promise<void> {
    return this.#loaded;
  }

  /** Rows to be written once the store takes them again. */
  repeat(ops: readonly HotOp[]): void {
    this.#repeated.push(...ops);
  }

  #tick(): void {
    if (this.#ticking !== null || this.#stopped) return;
    this.#ticking = this.#work()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#ticking = null;
      });
  }

  async #work(): Promise<void> {
    const { core, now, scan, byId } = this.#parts;
    if (core.healing) return;
    if (this.#isUnloaded) {
      this.#isUnloaded = false;
      this.#load();
    }
    await this.#loaded;
    await this.#rewrite();
    if (byId.size === 0) return;
    const { heals } = core;
    if (heals !== this.#heals || now() - this.#scannedAtMs >= SCAN_MS) {
      this.#scannedAtMs = now();
      await scan.all(this.#abort.signal);
      this.#heals = heals;
    }
    const keys = await this.#parts.keyring();
    if (keys.isOld) await keys.rotate();
  }

  /** Memory is right: a request whose batch failed was told that its outcome is unknown. */
  async #rewrite(): Promise<void> {
    const { byId, core, keyring, wakes } = this.#parts;
    if (this.#repeated.length > 0) {
      const ops = this.#repeated;
      this.#repeated = [];
      await core.stageOps(ops.filter((op) => op.type === 'put' || !isRecreated(op.key, byId))).catch((error: unknown) => {
        this.#repeated.unshift(...ops);
        throw error;
      });
    }
    for (const subscription of byId.values()) {
      if (!subscription.doubtful) continue;
      subscription.doubtful = false;
      await wakes.save(subscription, [(await keyring()).rowOp(), ...subscription.allOps()]);
      wakes.settle(subscription);
    }
  }

  #failed(error: unknown): void {
    if (this.#stopped || (error instanceof FirnError && error.status === 503)) return;
    this.#parts.logger.error({ err: error, event: 'subscriptions-failed' }, 'subscriptions could not be looked after');
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#abort.abort(new Error('the node stops'));
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#ticking;
    await this.#loaded.catch(() => undefined);
  }
}

/** Whether the id of a row that is to go was taken again meanwhile. */
function isRecreated(row: Buffer, byId: Parts['byId']): boolean {
  return byId.has((row[0] === subscriptionLoggedRow.kind ? subscriptionLoggedRow : subscriptionRow).decodeKey(row).id);
}
