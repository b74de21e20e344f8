/**
 * The life of wakes (P7): when one is due, how it is told, what ends it, and what comes next.
 *
 * | a wake that is | waits for                                         | and then                                          |
 * | -------------- | ------------------------------------------------- | ------------------------------------------------- |
 * | none           | something pending, or the end of a back-off        | is issued with the next generation                |
 * | issued         | its delivery, or the back-off after a failed one   | is delivered; one whose lease ran out meanwhile is replaced |
 * | delivered      | webhook: the callback or the end of its lease; pull: a claim | done: none; lease over: none            |
 * | claimed        | the worker or the end of its lease                 | none                                              |
 *
 * Owns: these transitions, all of them in `settle` and the attempts. Promises: a generation is on disk before anybody is told of it, so none is ever used twice; a subscription has one wake and one attempt
 * that counts; a failure is tried again later and never in a loop; after a restart `settle` goes on from the record.
 */
import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { JSON_TYPE } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Logger, Metrics } from '../../../shared/observability/index.js';
import type { DeliveryOutcome } from '../../worker/node-port.js';
import { DELIVERY_MS_MAX } from '../../worker/webhooks/limits.js';
import type { HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import type { StreamLog } from '../log/types.js';
import type { ColdLog } from './cold-log.js';
import type { Deliveries } from './deliveries.js';
import type { Keyring } from './keyring.js';
import { Lanes } from './lanes.js';
import { DELIVERIES_MAX, RETRY_JITTER, RETRY_MS_MAX, RETRY_MS_MIN, STOP_MS } from './limits.js';
import type { Snapshot, Subscription, Wake } from './subscription.js';
import { makeToken } from './tokens.js';
import { wakeBody, wakeEvent } from './wake-text.js';

export interface WakesOptions {
  readonly core: LogCore;
  readonly log: Pick<StreamLog, 'append'>;
  readonly deliveries: Deliveries;
  /** Origin in `callback_url`; null: the subscription's own. */
  readonly publicUrl: string | null;
  readonly keyring: () => Promise<Keyring>;
  readonly coldLog: ColdLog | null;
  /** The node has lost the partition of a subscription to another one. */
  readonly isRefused: (id: string) => boolean;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'wakes' | 'webhookDeliveries'>;
  readonly now: () => number;
  readonly random: () => number;
}

/** Wake events of pull-wake subscriptions have a lane of their own. */
const EVENTS = 'events';
const WAKE_ID_BYTES = 18;

export class Wakes {
  readonly #options: WakesOptions;
  readonly #lanes = new Lanes<Subscription>({ run: (subscription) => this.#attempt(subscription), busyShare: busyShareMeter() });
  readonly #abort = new AbortController();
  #stopped = false;

  constructor(options: WakesOptions) {
    this.#options = options;
    setMaxListeners(2 * DELIVERIES_MAX, this.#abort.signal);
  }

  /** Deliveries under way, and those that wait for room. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#lanes.running, waiting: this.#lanes.waiting };
  }

  /** Queues rows of a subscription; resolves when they are durable. What memory says goes on to count: rows that failed are written again. */
  save(subscription: Subscription, ops: readonly HotOp[]): Promise<void> {
    const done = this.#options.core.stageOps([...ops, ...(this.#options.coldLog?.changed(subscription) ?? [])]).catch((error: unknown) => {
      subscription.doubtful = true;
      subscription.mayBeLogged = true;
      throw error;
    });
    done.catch(() => undefined);
    subscription.durable = done;
    return done;
  }

  /** Decides what comes next, after whatever happened to a subscription. */
  settle(subscription: Subscription): void {
    this.#clearTimer(subscription);
    if (this.#stopped || subscription.ended || subscription.attempt !== null) return;
    const now = this.#options.now();
    const { wake } = subscription;
    if (wake !== null && wake.phase !== 'issued') {
      // A wake event waits for a worker, however long.
      if (wake.leaseUntilMs === null) return;
      if (now < wake.leaseUntilMs) return this.#later(subscription, wake.leaseUntilMs - now);
      // Holder and token end with the lease (SUB-47).
      subscription.wake = null;
    }
    const { nextAttemptAtMs } = subscription;
    if (nextAttemptAtMs !== null && now < nextAttemptAtMs) this.#later(subscription, nextAttemptAtMs - now);
    else if (subscription.wake !== null || subscription.hasPending) this.#lanes.add(laneOf(subscription), subscription);
    else this.#wait(subscription);
  }

  /** Something is pending for a subscription that waited. */
  noticed(subscription: Subscription): void {
    this.#unwait(subscription);
    this.settle(subscription);
  }

  #wait(subscription: Subscription): void {
    subscription.isWaiting = true;
    subscription.group?.waiting.add(subscription);
  }

  #unwait(subscription: Subscription): void {
    subscription.isWaiting = false;
    subscription.group?.waiting.delete(subscription);
  }

  /** Its state is decided elsewhere from here on: a claim, a callback, a deletion. An attempt under way no longer counts. */
  takeOver(subscription: Subscription): void {
    this.#unwait(subscription);
    this.#clearTimer(subscription);
    this.#lanes.remove(laneOf(subscription), subscription);
    subscription.attempt = null;
  }

  #later(subscription: Subscription, ms: number): void {
    subscription.timer = setTimeout(() => this.settle(subscription), Math.max(1, ms));
    subscription.timer.unref();
  }

  #clearTimer(subscription: Subscription): void {
    if (subscription.timer !== null) clearTimeout(subscription.timer);
    subscription.timer = null;
  }

  /** The next generation, in memory; its rows belong to the caller's turn. */
  issue(subscription: Subscription): Wake {
    const leaseUntilMs = subscription.type === 'webhook' ? this.#options.now() + subscription.leaseTtlMs : null;
    subscription.generation++;
    const wake: Wake = { id: `w_${randomBytes(WAKE_ID_BYTES).toString('base64url')}`, generation: subscription.generation, phase: 'issued', leaseUntilMs, holder: null };
    subscription.wake = wake;
    this.#options.metrics.wakes.add();
    return wake;
  }

  async #attempt(subscription: Subscription): Promise<void> {
    if (subscription.ended || (subscription.wake !== null && subscription.wake.phase !== 'issued')) return;
    if (this.#options.isRefused(subscription.id)) {
      subscription.nextAttemptAtMs = this.#options.now() + RETRY_MS_MAX;
      return this.settle(subscription);
    }
    const attempt = {};
    subscription.attempt = attempt;
    const counts = (): boolean => subscription.attempt === attempt && !subscription.ended;
    try {
      const wake = await this.#begin(subscription);
      if (wake === null || !counts()) return;
      if (subscription.type === 'webhook') await this.#post(subscription, wake, counts);
      else await this.#announce(subscription, wake, counts);
    } catch (error) {
      if (this.#stopped || !counts()) return;
      this.#options.logger.warn({ event: 'wake-failed', subscription: subscription.id, err: error }, 'a wake could not be told now; it will be tried again');
      subscription.nextAttemptAtMs = this.#options.now() + RETRY_MS_MIN;
    } finally {
      if (counts()) {
        subscription.attempt = null;
        this.settle(subscription);
      }
    }
  }

  /** The wake to be told, durable; null: nothing is pending any more. */
  async #begin(subscription: Subscription): Promise<Wake | null> {
    const now = this.#options.now();
    subscription.nextAttemptAtMs = null;
    if (!subscription.hasPending) {
      subscription.wake = null;
      subscription.failures = 0;
      await this.save(subscription, [subscription.recordOp()]);
      return null;
    }
    let { wake } = subscription;
    if (wake === null || isOver(wake, now)) wake = this.issue(subscription);
    else if (wake.leaseUntilMs !== null) wake.leaseUntilMs = now + subscription.leaseTtlMs;
    await this.save(subscription, [subscription.recordOp()]);
    return wake;
  }

  async #post(subscription: Subscription, wake: Wake, counts: () => boolean): Promise<void> {
    const { keyring, publicUrl, deliveries, now } = this.#options;
    const keys = await keyring();
    const snapshot = subscription.snapshot();
    const token = makeToken(keys.tokenSecret, { subscription: subscription.id, number: subscription.number, generation: wake.generation, use: 'callback' }, now());
    const body = wakeBody(subscription.id, publicUrl ?? subscription.origin, wake, snapshot.links, token);
    const request = { url: subscription.webhookUrl!, body, sign: () => keys.signature(body), deadlineMs: Math.min(DELIVERY_MS_MAX, subscription.leaseTtlMs) };
    const outcome = await deliveries.send(request, this.#abort.signal);
    this.#options.metrics.webhookDeliveries[outcome.kind].add();
    if (counts() && subscription.wake === wake) await this.#concluded(subscription, wake, snapshot, outcome);
  }

  async #concluded(subscription: Subscription, wake: Wake, snapshot: Snapshot, outcome: DeliveryOutcome): Promise<void> {
    // A receiver that has called back has the wake, whatever became of its answer.
    if (outcome.kind === 'failed' && wake.phase === 'issued') return this.#failed(subscription, outcome.why);
    subscription.failures = 0;
    let ops: HotOp[] = [];
    if (outcome.kind === 'done') {
      const alive = snapshot.tails.filter(({ stream, incarnation }) => incarnation !== null && stream.incarnation === incarnation && subscription.ackedOf(stream) !== null);
      ops = subscription.advance(alive);
      subscription.wake = null;
    } else {
      wake.phase = 'delivered';
    }
    await this.save(subscription, [...ops, subscription.recordOp()]);
  }

  async #announce(subscription: Subscription, wake: Wake, counts: () => boolean): Promise<void> {
    const pending = subscription.pending().next();
    const stream = pending.done === true ? '' : pending.value.key;
    const body = wakeEvent(subscription.id, stream, wake.generation, this.#options.now());
    try {
      await this.#options.log.append({ key: subscription.wakeStream!, dialect: 'base', precondition: null, contentType: JSON_TYPE, producer: null, seq: null, close: false, body });
    } catch (error) {
      if (!(error instanceof FirnError)) throw error;
      if (counts() && subscription.wake === wake) await this.#failed(subscription, error.code);
      return;
    }
    if (!counts() || subscription.wake !== wake) return;
    subscription.failures = 0;
    wake.phase = 'delivered';
    await this.save(subscription, [subscription.recordOp()]);
  }

  async #failed(subscription: Subscription, why: string): Promise<void> {
    subscription.failures++;
    const delayMs = retryDelayMs(subscription.failures, this.#options.random());
    subscription.nextAttemptAtMs = this.#options.now() + delayMs;
    this.#options.logger.warn({ event: 'delivery-failed', subscription: subscription.id, generation: subscription.generation, failures: subscription.failures, why, retryMs: delayMs }, 'a wake was not taken');
    await this.save(subscription, [subscription.recordOp()]);
  }

  /** Starts nothing more; deliveries under way get a moment to end, the others are told again at the next start. */
  async stop(subscriptions: Iterable<Subscription>): Promise<void> {
    this.#stopped = true;
    for (const subscription of subscriptions) this.#clearTimer(subscription);
    const late = setTimeout(() => this.#abort.abort(new Error('the node stops')), STOP_MS);
    await this.#lanes.stop();
    clearTimeout(late);
  }
}

/** A lease that ran out: the token of this wake is good for nothing any more. */
export function isOver(wake: Wake, nowMs: number): boolean {
  return wake.leaseUntilMs !== null && wake.leaseUntilMs <= nowMs;
}

/** Doubles from RETRY_MS_MIN to RETRY_MS_MAX, a fifth more or less (SUB-36). `random`: 0 <= value < 1. */
export function retryDelayMs(failures: number, random: number): number {
  const gap = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(failures - 1, 16));
  return Math.round(gap * (1 + RETRY_JITTER * (2 * random - 1)));
}

function laneOf({ webhookUrl }: Subscription): string {
  return webhookUrl === null ? EVENTS : new URL(webhookUrl).origin;
}

/** How busy the event loop was since the last call. */
function busyShareMeter(): () => number {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return utilization;
  };
}
