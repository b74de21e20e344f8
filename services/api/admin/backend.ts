/**
 * The admin listener's view of a running node.
 *
 * Owns: what an operator is shown, put together from the log, the hot rows and the cold tier. Promises: reads only, except for the work that is asked for.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { formatExpiresAt } from '../../../shared/protocol/ttl.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { Metrics } from '../../../shared/observability/index.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import type { Engine } from '../engine.js';
import { refRow } from '../hot/keys/index.js';
import type { AdminBackend, Health, SealReport, StreamRow } from './types.js';

/** Objects and producers that the page of one stream lists; more are counted. */
const LISTED_MAX = 1_000;

export interface NodeBackendOptions {
  readonly engine: Engine;
  readonly metrics: Metrics;
  /** Live readers connected to a stream. */
  readonly subscribers: (key: StreamKey) => number;
  /** Replaces the key that signs webhooks; the id of the new one. */
  readonly rotateWebhookKey: () => Promise<string>;
}

export class NodeBackend implements AdminBackend {
  readonly #engine: Engine;
  readonly #metrics: Metrics;
  readonly #subscribers: (key: StreamKey) => number;
  readonly #rotateWebhookKey: () => Promise<string>;

  constructor(options: NodeBackendOptions) {
    this.#engine = options.engine;
    this.#metrics = options.metrics;
    this.#subscribers = options.subscribers;
    this.#rotateWebhookKey = options.rotateWebhookKey;
  }

  health(): Health {
    const { cold, core, damagedFiles, partitions, pressure } = this.#engine;
    const refusals: string[] = [];
    if (core.healing) refusals.push('the hot store is being opened again after a failed batch');
    if (pressure.refusal !== null) refusals.push(pressure.refusal.message);
    for (let partition = 0; partition < partitions; partition++) {
      const refusal = cold.refusal(partition);
      if (refusal !== null) refusals.push(`partition ${partition}: ${refusal.message}`);
    }
    const files = damagedFiles();
    const damaged = files.length === 0 ? [] : [`damaged tables in the hot store: ${files.join(', ')}`];
    return { healthy: true, ready: refusals.length === 0, reasons: [...new Set([...refusals, ...damaged, ...cold.reasons()])] };
  }

  async metrics(): Promise<{ readonly contentType: string; readonly text: string }> {
    return { contentType: this.#metrics.contentType, text: await this.#metrics.text() };
  }

  async streams(prefix: string, after: string | null, limit: number): Promise<readonly StreamRow[]> {
    return (await this.#engine.log.list(prefix, after, limit)).map(({ key, record }) => rowOf(key, record));
  }

  async stream(key: StreamKey): Promise<object | null> {
    let record: StreamRecord;
    try {
      record = await this.#engine.log.head(key, null);
    } catch (error) {
      if (error instanceof FirnError && error.status === 404) return null;
      throw error;
    }
    const slot = this.#engine.core.slotOf(key);
    const { origin, forks } = record;
    const coldStart = Math.max(record.retained, origin?.at ?? 0);
    const producers = await this.#engine.core.using(key, (found) => this.#engine.core.producersSince(found, record.incarnation, -1));
    return {
      ...rowOf(key, record),
      partition: this.#engine.core.partitionOf(key),
      createdAt: new Date(record.createdAtMs).toISOString(),
      hot: { start: formatOffset(record.hotStart), end: formatOffset(record.tail) },
      cold: { start: formatOffset(coldStart as Offset), end: formatOffset(Math.max(record.sealed, coldStart) as Offset), ...(await this.#segments(slot, record)) },
      fork: origin === null ? null : { source: origin.key, incarnation: String(origin.incarnation), end: formatOffset(origin.at) },
      forks,
      snapshot: record.snapshot === null ? null : snapshotOf(record.snapshot),
      producers: {
        count: producers.length,
        listed: producers.slice(0, LISTED_MAX).map(({ id, epoch, lastSeq, lastEnd, lastAtMs }) => ({ id, epoch, seq: lastSeq, end: formatOffset(lastEnd), lastAt: new Date(lastAtMs).toISOString() })),
      },
      subscribers: this.#subscribers(key),
    };
  }

  /** The objects that hold the stream's cold ranges, neighbours in one object joined. */
  async #segments(slot: number, record: StreamRecord): Promise<{ readonly references: number; readonly segments: object[] }> {
    const joined: { object: string; start: number; end: number }[] = [];
    let references = 0;
    for await (const page of this.#engine.core.store.scan(refRow.range(slot, record.incarnation))) {
      for (const entry of page) {
        const ref = refRow.decode(entry.value);
        references++;
        const object = objectKey(ref.object);
        const last = joined.at(-1);
        if (last?.object === object && last.end === ref.start) last.end = ref.end;
        else if (joined.length < LISTED_MAX) joined.push({ object, start: ref.start, end: ref.end });
      }
    }
    return { references, segments: joined.map(({ object, start, end }) => ({ object, start: formatOffset(start as Offset), end: formatOffset(end as Offset) })) };
  }

  seal(prefix: string, signal: AbortSignal): Promise<SealReport> {
    return this.#engine.cold.sealNow(prefix, signal);
  }

  async checkpoint(signal: AbortSignal): Promise<object> {
    return { checkpoints: await this.#engine.cold.checkpointNow(signal) };
  }

  verify(deep: boolean, signal: AbortSignal): Promise<object> {
    return this.#engine.verify(deep, signal);
  }

  compact(signal: AbortSignal): Promise<object> {
    return this.#engine.cold.compactNow(signal);
  }

  collect(signal: AbortSignal): Promise<object> {
    return this.#engine.collect(signal);
  }

  jobs(): Promise<object> {
    return this.#engine.cold.jobs();
  }

  purge(bucket: string): Promise<object> {
    return this.#engine.log.purge(bucket);
  }

  async rotateWebhookKey(): Promise<object> {
    return { kid: await this.#rotateWebhookKey() };
  }
}

function rowOf(key: StreamKey, record: StreamRecord): StreamRow {
  return {
    key,
    contentType: record.contentType,
    incarnation: String(record.incarnation),
    tail: formatOffset(record.tail),
    retained: formatOffset(record.retained),
    coldFrontier: formatOffset(record.sealed),
    closed: record.closed,
    ttl: record.ttl,
    expiresAt: record.expiresAtMs === null ? null : formatExpiresAt(record.expiresAtMs),
  };
}

function snapshotOf(snapshot: SnapshotRecord): object {
  return {
    offset: formatOffset(snapshot.offset),
    contentType: snapshot.contentType,
    digest: snapshot.digest,
    bytes: snapshot.bytes,
    publishedAt: new Date(snapshot.publishedAtMs).toISOString(),
    hot: snapshot.hot?.at ?? null,
    cold: snapshot.cold === null ? null : objectKey(snapshot.cold.ref.object),
  };
}
