/**
 * The session of one partition on this node, and the log that it writes (architecture section 7, I10).
 *
 * Owns: the claim, the bound session of the directory, log numbers, and the discovery that another node took over. Promises: one log PUT in flight;
 * numbers contiguous from 1; a record whose PUT has no known outcome is settled with the very same bytes before anything else is written;
 * once fenced, nothing of this partition is written any more.
 *
 *   unclaimed --claim--> active --newer session or fence--> fenced
 *       \--directory and bucket disagree--> refused
 *   active --the next session could not be claimed--> unclaimed
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { StoreUnavailable, type ObjectStore } from '../../../shared/storage/object-store.js';
import { encodeLogEntry } from '../../../shared/storage/records/log-entry.js';
import { logKey, sessionKey } from '../../../shared/storage/keys.js';
import type { LogDelta, LogRecord, ObjectInfo } from '../../../shared/storage/records/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { idlePause } from '../../../shared/time/pause.js';
import type { ColdMetrics } from './cold-metrics.js';
import { boundSessionRow, claimNonceRow, readBoundSession, readClaimNonce, type MetaRows } from './directory.js';
import { STORE_RETRY_MAX_MS, STORE_RETRY_MS } from './limits.js';
import { readLogEntry } from '../../../shared/storage/history/log-entries.js';
import { claimSession, fenceEarlier, isSuperseded, newestSession, readClaim } from './sessions.js';
import { StartRefused } from './start-refused.js';
import type { Steps } from './steps.js';
import { Backoff, Lane, Stopped } from './timing.js';

export type SessionState = 'unclaimed' | 'active' | 'fenced' | 'refused';

/** Another session owns the partition now: nothing may be written to its log. */
export class SessionFenced extends Error {
  constructor(readonly partition: number, readonly session: number, detail: string) {
    super(`session ${session} of partition ${partition} is over: ${detail}`);
    this.name = 'SessionFenced';
  }
}

/** What a log record is made of; numbers and time are added here. */
export interface LogDraft {
  readonly plan: number | null;
  readonly objects: readonly ObjectInfo[];
  readonly deltas: readonly LogDelta[];
}

export interface WrittenRecord {
  readonly record: LogRecord;
  /** As stored. */
  readonly bytes: number;
}

export interface PartitionSessionOptions {
  readonly partition: number;
  readonly store: ObjectStore;
  readonly rows: MetaRows;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly now: () => number;
  /** 128 random bits in hex. */
  readonly nonce: () => string;
  readonly steps: Steps;
  /** Ends every wait of this session. */
  readonly stop: AbortSignal;
}

export class PartitionSession {
  readonly partition: number;
  readonly #options: PartitionSessionOptions;
  readonly #lane = new Lane();
  #state: SessionState = 'unclaimed';
  #session = 0;
  #fencedBelow = 0;
  #seq = 0;
  #why = '';

  constructor(options: PartitionSessionOptions) {
    this.partition = options.partition;
    this.#options = options;
  }

  get state(): SessionState {
    return this.#state;
  }

  /** The session that the directory is bound to: claimed now, or the last one while unclaimed. 0: none yet. */
  get session(): number {
    return this.#session;
  }

  /** Number of the newest record of this session. */
  get seq(): number {
    return this.#seq;
  }

  /** Why no writes are taken; null: they are. */
  get refusal(): Error | null {
    if (this.#state === 'fenced' || this.#state === 'refused') return new FirnError('APPLY_STOPPED', { detail: this.#why });
    if (this.#session === 0) return new FirnError('NO_LEADER', { detail: `partition ${this.partition} has no session yet` });
    return null;
  }

  /** A sentence for `healthz`, null when all is well. */
  get reason(): string | null {
    if (this.#state === 'active') return null;
    if (this.#state === 'unclaimed') return `partition ${this.partition}: no session claimed, nothing is sealed`;
    return `partition ${this.partition}: ${this.#why}`;
  }

  /** Reads the last bound session from the directory, without the object store. */
  async load(): Promise<void> {
    const bound = await readBoundSession(this.#options.rows, this.partition);
    if (bound === null) return;
    this.#session = bound.session;
    this.#fencedBelow = bound.fencedBelow;
  }

  /**
   * Claims the next session and fences every earlier one. Throws `StoreUnavailable` (the claim may be tried again) and `StartRefused` (bucket and
   * directory do not belong together).
   */
  claim(): Promise<void> {
    return this.#lane.run(async () => {
      if (this.#state !== 'unclaimed') throw new Error(`partition ${this.partition} is ${this.#state}`);
      try {
        const newest = await newestSession(this.#options.store, this.partition, this.#session);
        await this.#recognise(newest);
        await this.#claimAfter(newest);
      } catch (error) {
        if (error instanceof StartRefused) this.#refuse(error.message);
        throw error;
      }
    });
  }

  /**
   * Ends this session and goes on with the next one (its token counters are used up). Log records of both are one history. Throws `SessionFenced` when
   * another node has the next one; after any other error nothing is claimed, and `claim` tries again.
   */
  claimNext(): Promise<void> {
    return this.#lane.run(async () => {
      this.#assertActive();
      this.#state = 'unclaimed';
      try {
        await this.#claimAfter(this.#session);
      } catch (error) {
        if (error instanceof StartRefused) throw this.#fence(error.message);
        throw error;
      }
    });
  }

  /** Sessions newer than the bound one: an own claim whose answer was lost is taken over, anything else means that the bucket has moved on. */
  async #recognise(newest: number): Promise<void> {
    const { store, rows } = this.#options;
    const bound = this.#session;
    if (newest === bound) {
      if (bound > 0 && (await store.size(sessionKey(this.partition, bound))) === null) {
        throw new StartRefused(`the directory is bound to session ${bound} of partition ${this.partition}, which ${store.describe} does not hold`);
      }
      return;
    }
    const nonce = await readClaimNonce(rows, this.partition);
    const claim = await readClaim(store, this.partition, newest);
    if (newest !== bound + 1 || claim.node !== nonce) {
      throw new StartRefused(`${store.describe} has moved on: partition ${this.partition} is at session ${newest}, this directory at session ${bound}; another node owns it now`);
    }
    await this.#bind(newest);
  }

  async #claimAfter(newest: number): Promise<void> {
    const { store, rows, steps, now, logger } = this.#options;
    const nonce = this.#options.nonce();
    await rows.write([claimNonceRow(this.partition, nonce)]);
    await steps('claim:intent');
    const session = newest + 1;
    if (!(await claimSession(store, { partition: this.partition, session, node: nonce, claimedAtMs: now() }))) {
      throw new StartRefused(`another node claimed session ${session} of partition ${this.partition} in ${store.describe} just now`);
    }
    await steps('claim:created');
    await this.#bind(session);
    await steps('claim:bound');
    await fenceEarlier(store, this.partition, this.#fencedBelow, session);
    this.#fencedBelow = session;
    await rows.write([boundSessionRow(this.partition, { session, fencedBelow: session })]);
    await steps('claim:fenced');
    this.#seq = 0;
    this.#state = 'active';
    logger.info({ event: 'session-claimed', partition: this.partition, session }, 'claimed a session');
  }

  async #bind(session: number): Promise<void> {
    await this.#options.rows.write([boundSessionRow(this.partition, { session, fencedBelow: this.#fencedBelow })]);
    this.#session = session;
  }

  /**
   * Writes the next record; it is valid, and part of the history, when this resolves. Waits as long as the store is away. Throws `SessionFenced`
   * when another session owns the partition, `Stopped` when the node stops (the record may be there: the next start finds it).
   */
  append(draft: LogDraft): Promise<WrittenRecord> {
    return this.#lane.run(async () => {
      this.#assertActive();
      const { partition } = this;
      const record: LogRecord = { kind: 'record', partition, session: this.#session, seq: this.#seq + 1, plan: draft.plan, writtenAtMs: this.#options.now(), objects: draft.objects, deltas: draft.deltas };
      const bytes = await this.#settle(record);
      this.#seq = record.seq;
      return { record, bytes };
    });
  }

  async #settle(record: LogRecord): Promise<number> {
    const { store, stop, logger, metrics, steps } = this.#options;
    const body = encodeLogEntry(record);
    const key = logKey(record.partition, record.session, record.seq);
    const backoff = new Backoff(STORE_RETRY_MS, STORE_RETRY_MAX_MS);
    for (;;) {
      if (stop.aborted) throw new Stopped();
      try {
        if (await isSuperseded(store, this.partition, this.#session)) throw this.#fence('a newer session was claimed');
        const outcome = await store.putOnce(key, body, stop);
        if (outcome === 'exists-theirs') throw await this.#taken(record);
        metrics.objectWritten('log', body.length);
        await steps('log:put');
        return body.length;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        metrics.storeError();
        const waitMs = backoff.next();
        logger.warn({ err: error, event: 'log-put-waits', partition: this.partition, seq: record.seq, waitMs }, 'the log record could not be written yet');
        await idlePause(waitMs, stop);
      }
    }
  }

  /** Something else lies at this session's next position: a fence, since nobody else writes records of this session. */
  async #taken(record: LogRecord): Promise<SessionFenced> {
    const there = await readLogEntry(this.#options.store, record.partition, record.session, record.seq);
    return this.#fence(there.kind === 'fence' ? `session ${there.fencedBy} fenced it` : `log position ${record.seq} holds a record that this run did not write`);
  }

  /** Looks for a newer session; called on a timer. Never throws for a store that is away. */
  async check(): Promise<void> {
    if (this.#state !== 'active') return;
    try {
      if (await isSuperseded(this.#options.store, this.partition, this.#session)) this.#fence('a newer session was claimed');
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      this.#options.metrics.storeError();
    }
  }

  #fence(detail: string): SessionFenced {
    const error = new SessionFenced(this.partition, this.#session, detail);
    if (this.#state !== 'fenced') {
      this.#state = 'fenced';
      this.#why = error.message;
      this.#options.logger.error({ event: 'session-fenced', partition: this.partition, session: this.#session }, `${error.message}; writes to this partition are refused from now on`);
    }
    return error;
  }

  #refuse(why: string): void {
    this.#state = 'refused';
    this.#why = why;
    this.#options.logger.error({ event: 'store-refused', partition: this.partition }, why);
  }

  #assertActive(): void {
    if (this.#state === 'fenced') throw new SessionFenced(this.partition, this.#session, this.#why);
    if (this.#state !== 'active') throw new StoreUnavailable(`partition ${this.partition} has no claimed session`);
  }
}
