/**
 * Deliveries of webhooks on their way (architecture section 9, I5, I6): a job carries an id, and whoever runs it asks here what is to be posted.
 *
 * | a delivery that is   | waits for                                                       | and then                                    |
 * | -------------------- | --------------------------------------------------------------- | ------------------------------------------- |
 * | handed to a runner   | somebody to take it up, TAKE_MS                                 | the node makes it itself, under another id  |
 * | taken                | the outcome, until its deadline and REPORT_MS                   | counts as failed: the wake is told again    |
 * | taken once more      | the same; the run before counts no more                         |                                             |
 *
 * Owns: open deliveries, in memory. Promises: every `send` ends, whatever Redis and workers do; one that no runner takes is made in this process by the same handler at once; an outcome counts once, and only
 * of the run that was given last; a job of an earlier life of the node finds nothing. Wakes, their leases and back-offs lie in the hot store and are another module's.
 */
import { randomBytes } from 'node:crypto';
import type { JobRunner } from '../../../shared/queue/index.js';
import { deliverHandler } from '../../worker/handlers/deliver.js';
import type { Delivery, DeliveryOutcome, DeliverySide, DeliveryTry } from '../../worker/node-port.js';
import { WebhookTargets, type WebhookLists } from '../../worker/webhooks/targets.js';
import { HERE_MS, REPORT_MS, TAKE_MS } from './limits.js';

export interface DeliveryRequest extends Omit<Delivery, 'signature'> {
  /** Signs the body, now. */
  readonly sign: () => string;
}

interface Open {
  /** By which jobs name it; '': nobody waits any more. */
  id: string;
  readonly request: DeliveryRequest;
  readonly unwanted: AbortSignal;
  /** Clock of the process, ms. */
  readonly untilMs: number;
  readonly settle: (outcome: DeliveryOutcome) => void;
  /** Times that it was taken up. */
  runs: number;
  timer: NodeJS.Timeout | null;
}

export interface DeliveriesOptions {
  /** Where webhooks may go. */
  readonly webhooks: WebhookLists;
  /** Of the process, ms, never set back. */
  readonly clock?: () => number;
}

const LIFE_BYTES = 9;

export class Deliveries implements DeliverySide {
  readonly targets: WebhookTargets;
  readonly #options: DeliveriesOptions;
  readonly #handler: ReturnType<typeof deliverHandler>;
  readonly #open = new Map<string, Open>();
  /** Tells this life of the node from others: their jobs may still be in a queue. */
  readonly #life = randomBytes(LIFE_BYTES).toString('hex');
  #last = 0;
  #runner: JobRunner | null = null;
  #hereUntilMs = -Infinity;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
    this.targets = new WebhookTargets(options.webhooks);
    this.#handler = deliverHandler(this, this.targets);
  }

  /** Deliveries are jobs of this runner from now on. */
  use(runner: JobRunner): void {
    this.#runner = runner;
  }

  get #clockMs(): number {
    return (this.#options.clock ?? (() => performance.now()))();
  }

  /** Has a webhook delivered. Rejects with the signal's reason alone: then nothing is known of the outcome. */
  async send(request: DeliveryRequest, signal: AbortSignal): Promise<DeliveryOutcome> {
    signal.throwIfAborted();
    let abort: () => void = () => undefined;
    let open: Open | null = null;
    try {
      return await new Promise<DeliveryOutcome>((resolve, reject) => {
        abort = () => reject(signal.reason as Error);
        signal.addEventListener('abort', abort, { once: true });
        open = { id: '', request, unwanted: signal, untilMs: this.#clockMs + request.deadlineMs, settle: resolve, runs: 0, timer: null };
        void this.#handOver(open);
      });
    } finally {
      signal.removeEventListener('abort', abort);
      if (open !== null) this.#end(open);
    }
  }

  async #handOver(open: Open): Promise<void> {
    const id = this.#name(open);
    const runner = this.#runner;
    const queued = runner !== null && this.#clockMs >= this.#hereUntilMs && (await runner.enqueue({ kind: 'deliver', id }));
    // It may be taken, or over, by now.
    if (open.id !== id || open.runs > 0) return;
    if (queued) open.timer = setTimeout(() => this.#notTaken(open), Math.min(TAKE_MS, open.request.deadlineMs / 2));
    else this.#here(open);
  }

  #notTaken(open: Open): void {
    this.#hereUntilMs = this.#clockMs + HERE_MS;
    void this.#runner?.withdraw({ kind: 'deliver', id: open.id });
    this.#here(open);
  }

  /** The same handler, in this process. */
  #here(open: Open): void {
    const late: DeliveryOutcome = { kind: 'failed', why: 'there was no time left' };
    this.#handler(this.#name(open), open.unwanted).then(() => open.settle(late), (error: unknown) => open.settle({ kind: 'failed', why: String(error) }));
  }

  /** A new id: jobs of the one before find nothing. */
  #name(open: Open): string {
    this.#end(open);
    open.id = `${this.#life}-${++this.#last}`;
    this.#open.set(open.id, open);
    return open.id;
  }

  delivery(jobId: string): Promise<DeliveryTry | null> {
    const open = this.#open.get(jobId);
    const deadlineMs = open === undefined ? 0 : open.untilMs - this.#clockMs;
    if (open === undefined || deadlineMs <= 0) return Promise.resolve(null);
    open.runs++;
    this.#stopTimer(open);
    open.timer = setTimeout(() => open.settle({ kind: 'failed', why: 'no outcome in time' }), deadlineMs + REPORT_MS);
    const { url, body, sign } = open.request;
    return Promise.resolve({ run: open.runs, url, body, signature: sign(), deadlineMs, unwanted: open.unwanted });
  }

  delivered(jobId: string, run: number, outcome: DeliveryOutcome): Promise<void> {
    const open = this.#open.get(jobId);
    if (open?.runs === run) open.settle(outcome);
    return Promise.resolve();
  }

  #end(open: Open): void {
    this.#stopTimer(open);
    this.#open.delete(open.id);
    open.id = '';
  }

  #stopTimer(open: Open): void {
    if (open.timer !== null) clearTimeout(open.timer);
    open.timer = null;
  }
}
