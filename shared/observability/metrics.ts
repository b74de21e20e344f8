/**
 * The metrics of one node: what `GET /__firn/metrics` shows.
 *
 * Owns: names, help texts and labels of every metric. Promises: a registry of its own for each node, so that two nodes in one
 * process do not mix; on hot paths a count is one addition to a number.
 */
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { STORE_OPS, STORE_OUTCOMES, type StoreMeter } from '../storage/measured-store.js';
import { readCounter, readGauge, Tally, tallyCounter, tallyFamily, type Sample } from './tally.js';

/** What a request was about: few, fixed, never a stream's name. */
const ROUTE_CLASSES = [
  'create', 'append', 'close', 'delete', 'head', 'read', 'long-poll', 'sse', 'snapshot-put', 'snapshot-get', 'retention', 'bootstrap', 'chunk', 'preflight', 'bucket', 'subscription', 'other',
] as const;
export type RouteClass = (typeof ROUTE_CLASSES)[number];

export const TIERS = ['hot', 'cold'] as const;
const DAMAGE_KINDS = ['hot', 'object', 'log', 'checkpoint', 'snapshot'] as const;
const COMPACTED_REFS = ['replaced', 'written'] as const;
export const OBJECT_KINDS = ['segment', 'snapshot', 'merged', 'log', 'checkpoint', 'other'] as const;
const DELETED_KINDS = ['object', 'orphan', 'checkpoint', 'log'] as const;
const CACHE_RESULTS = ['hit', 'miss'] as const;
const DISK_CACHE_RESULTS = ['hit', 'miss', 'damaged'] as const;
const CACHE_STAGES = ['memory', 'disk'] as const;
/** Codes under which a node refuses all writes, or those of a partition, until something ends that is not the client's doing. */
const REFUSAL_CODES = ['COLD_BACKPRESSURE', 'WAL_DISK_PRESSURE', 'APPLY_STOPPED', 'NO_LEADER', 'OUTCOME_UNKNOWN'] as const;
const DELIVERY_RESULTS = ['done', 'accepted', 'failed'] as const;
const LIVE_KINDS = ['long-poll', 'sse'] as const;

/** Requests by route and status: one number each in a fixed table. */
export class RequestCounts {
  static readonly STATUS_MAX = 599;
  private readonly counts: Readonly<Record<RouteClass, Float64Array>>;

  constructor() {
    this.counts = Object.fromEntries(ROUTE_CLASSES.map((route) => [route, new Float64Array(RequestCounts.STATUS_MAX + 1)])) as Record<RouteClass, Float64Array>;
  }

  /** `status`: the HTTP status that was sent; 499 for a client that left before. */
  count(route: RouteClass, status: number): void {
    const row = this.counts[route];
    const index = status >= 0 && status <= RequestCounts.STATUS_MAX ? status : 0;
    row[index] = (row[index] ?? 0) + 1;
  }

  * samples(): Iterable<Sample> {
    for (const route of ROUTE_CLASSES) {
      const row = this.counts[route];
      for (let status = 0; status < row.length; status += 1) {
        const value = row[status] ?? 0;
        if (value > 0) yield { labels: { route, status: String(status) }, value };
      }
    }
  }
}

/** Values that other parts own and the scrape asks for. Null or empty: nothing to show. */
export interface MetricSources {
  partitions(): readonly { readonly partition: number; readonly unsealedBytes: number; readonly unsealedAgeMs: number; readonly garbageBytes: number; readonly unknownObjects: number }[];
  diskFreeBytes(): number | null;
  hotBytes(): number | null;
  /** null: there is no cache on disk. */
  diskCacheBytes(): number | null;
  bodiesInFlightBytes(): number | null;
  /** Unsealed bytes from which writes are refused; null: no limit. */
  unsealedBytesMax(): number | null;
  /** Codes under which writes are refused now. */
  refusals(): readonly string[];
  /** true while writes are refused because a batch failed. */
  poisoned(): boolean;
  subscriptions(): { readonly subscriptions: number; readonly links: number; readonly delivering: number; readonly waiting: number } | null;
}

const NOTHING: MetricSources = {
  partitions: () => [], diskFreeBytes: () => null, hotBytes: () => null, diskCacheBytes: () => null, unsealedBytesMax: () => null, refusals: () => [], bodiesInFlightBytes: () => null, poisoned: () => false, subscriptions: () => null,
};

/** What the objects of a partition are. */
export interface ColdUse {
  readonly objects: number;
  /** Stored. */
  readonly bytes: number;
  readonly garbageBytes: number;
  readonly references: number;
}

export interface Metrics {
  readonly registry: Registry;
  readonly requests: RequestCounts;
  /** A batch is on disk: its requests, the bytes of its rows, and the time from handing it to the store, ms. */
  batchCommitted(requests: number, bytes: number, millis: number): void;
  /** A batch failed: the store is closed and opened again. */
  storePoisoned(): void;
  readonly appends: Tally;
  /** Stream bytes of these appends. */
  readonly appendBytes: Tally;
  /** Bytes given to readers, by the tier they came from. */
  readonly readBytes: Readonly<Record<(typeof TIERS)[number], Tally>>;
  /** Live readers now; add 1 and -1. */
  readonly liveReaders: Readonly<Record<(typeof LIVE_KINDS)[number], Tally>>;
  readonly liveReadersCut: Tally;
  readonly seals: Tally;
  readonly sealSeconds: Histogram;
  readonly objectsWritten: Readonly<Record<(typeof OBJECT_KINDS)[number], Tally>>;
  readonly objectBytesWritten: Readonly<Record<(typeof OBJECT_KINDS)[number], Tally>>;
  readonly compactions: Tally;
  /** Stored bytes that were fetched to compare what compactions wrote; what wrote them read as many. */
  readonly compactedBytesRead: Tally;
  readonly compactedRefs: Readonly<Record<(typeof COMPACTED_REFS)[number], Tally>>;
  /** By partition, as the last look at its objects found. */
  readonly coldUse: Map<number, ColdUse>;
  /** Deleted by collections; a checkpoint counts once, whatever its parts. */
  readonly objectsDeleted: Readonly<Record<(typeof DELETED_KINDS)[number], Tally>>;
  /** Bytes of deleted data objects. */
  readonly objectBytesDeleted: Tally;
  readonly coldReadersCut: Tally;
  readonly frameCache: Readonly<Record<(typeof CACHE_RESULTS)[number], Tally>>;
  /** Frames that memory did not hold, looked for in the cache on disk. */
  readonly diskCache: Readonly<Record<(typeof DISK_CACHE_RESULTS)[number], Tally>>;
  readonly frameEvictions: Readonly<Record<(typeof CACHE_STAGES)[number], Tally>>;
  readonly diskCacheWriteFailures: Tally;
  /** Calls of the object store that failed. */
  readonly storeErrors: Tally;
  /** Calls of the object store, their bytes and repeats. */
  readonly store: StoreMeter;
  /** The same of workers elsewhere, as they tell. */
  readonly workerStore: StoreMeter;
  readonly evictedBytes: Tally;
  readonly jobFailures: Tally;
  /** Wakes of subscriptions issued. */
  readonly wakes: Tally;
  readonly webhookDeliveries: Readonly<Record<(typeof DELIVERY_RESULTS)[number], Tally>>;
  /** Streams that matched a subscription and could not be linked. */
  readonly subscriptionLinksRefused: Tally;
  /** Damaged or missing bytes met, by where (I9). */
  readonly damage: Readonly<Record<(typeof DAMAGE_KINDS)[number], Tally>>;
  /** Binds values that other parts own, when these exist. */
  bind(sources: Partial<MetricSources>): void;
  /** The text of `GET /__firn/metrics`. */
  text(): Promise<string>;
  readonly contentType: string;
}

const one = (value: number | null): Sample[] => (value === null ? [] : [{ labels: {}, value }]);

function gauges(registry: Registry, sources: () => MetricSources): void {
  const perPartition = (pick: (row: ReturnType<MetricSources['partitions']>[number]) => number) => (): Sample[] =>
    sources().partitions().map((row) => ({ labels: { partition: String(row.partition) }, value: pick(row) }));
  readGauge(registry, { name: 'firn_unsealed_bytes', help: 'Bytes not yet in the cold tier.' }, ['partition'], perPartition((row) => row.unsealedBytes));
  readGauge(registry, { name: 'firn_unsealed_age_seconds', help: 'Age of the oldest change not yet in the cold tier.' }, ['partition'], perPartition((row) => row.unsealedAgeMs / 1_000));
  readGauge(registry, { name: 'firn_unsealed_bytes_max', help: 'Bytes not yet in the cold tier, of all partitions, from which writes are refused.' }, [], () => one(sources().unsealedBytesMax()));
  readGauge(registry, { name: 'firn_writes_refused', help: '1 while writes, or those of one partition, are refused under this code.' }, ['code'], () => {
    const refused = new Set(sources().refusals());
    return REFUSAL_CODES.map((code) => ({ labels: { code }, value: refused.has(code) ? 1 : 0 }));
  });
  readGauge(registry, { name: 'firn_uncollected_bytes', help: 'Bytes of objects in the cold tier that nothing names any more and that wait to be collected.' }, ['partition'], perPartition((row) => row.garbageBytes));
  readGauge(registry, { name: 'firn_unknown_objects', help: 'Names in the object store that nobody knows, as of the last collection: they are kept.' }, ['partition'], perPartition((row) => row.unknownObjects));
  readGauge(registry, { name: 'firn_disk_free_bytes', help: 'Free bytes of the disk that holds the data directory.' }, [], () => one(sources().diskFreeBytes()));
  readGauge(registry, { name: 'firn_hot_bytes', help: 'Logical bytes held in the hot tier.' }, [], () => one(sources().hotBytes()));
  readGauge(registry, { name: 'firn_disk_cache_bytes', help: 'Room that the cache of cold frames on disk takes.' }, [], () => one(sources().diskCacheBytes()));
  readGauge(registry, { name: 'firn_request_bodies_in_flight_bytes', help: 'Bytes of request bodies held in memory.' }, [], () => one(sources().bodiesInFlightBytes()));
  for (const [name, help, pick] of [
    ['firn_subscriptions', 'Subscriptions.', 'subscriptions'], ['firn_subscription_links', 'Links of subscriptions through patterns.', 'links'],
    ['firn_deliveries_running', 'Deliveries under way.', 'delivering'], ['firn_deliveries_waiting', 'Subscriptions that wait for room to be told of a wake.', 'waiting'],
  ] as const) readGauge(registry, { name, help }, [], () => one(sources().subscriptions()?.[pick] ?? null));
  readGauge(registry, { name: 'firn_store_poisoned', help: '1 while writes are refused because a batch failed.' }, [], () => one(sources().poisoned() ? 1 : 0));
}

function liveReaders(registry: Registry): Metrics['liveReaders'] {
  const live = { 'long-poll': new Tally(), sse: new Tally() };
  readGauge(registry, { name: 'firn_live_readers', help: 'Live readers connected now.' }, ['kind'], () => LIVE_KINDS.map((kind) => ({ labels: { kind }, value: live[kind].value })));
  return live;
}

function coldUse(registry: Registry): Metrics['coldUse'] {
  const uses: Metrics['coldUse'] = new Map();
  const of = (pick: (use: ColdUse) => number) => (): Sample[] => [...uses].map(([partition, use]) => ({ labels: { partition: String(partition) }, value: pick(use) }));
  readGauge(registry, { name: 'firn_cold_objects', help: 'Objects that the log names, when compaction looked last.' }, ['partition'], of(({ objects }) => objects));
  readGauge(registry, { name: 'firn_cold_bytes', help: 'Their stored bytes.' }, ['partition'], of(({ bytes }) => bytes));
  readGauge(registry, { name: 'firn_cold_garbage_bytes', help: 'Stored bytes of what is named no more, by its share of the raw bytes of each object.' }, ['partition'], of(({ garbageBytes }) => garbageBytes));
  readGauge(registry, { name: 'firn_cold_references', help: 'References to ranges in objects.' }, ['partition'], of(({ references }) => references));
  return uses;
}

function histogram(registry: Registry, name: string, help: string, buckets: number[]): Histogram {
  return new Histogram({ name, help, buckets, registers: [registry] });
}

function batchMetrics(registry: Registry): Metrics['batchCommitted'] {
  const batchRequests = histogram(registry, 'firn_batch_requests', 'Requests in one synced batch.', [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]);
  const batchBytes = histogram(registry, 'firn_batch_bytes', 'Bytes of the rows in one synced batch, about.', [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 33_554_432]);
  const commitSeconds = histogram(registry, 'firn_commit_seconds', 'Time until a batch was on disk.', [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5]);
  return (requests, bytes, millis) => {
    batchRequests.observe(requests);
    batchBytes.observe(bytes);
    commitSeconds.observe(millis / 1_000);
  };
}

/** `whose`: '' for the node's own process. */
function storeMeter(registry: Registry, whose: '' | 'worker_'): StoreMeter {
  const by = whose === '' ? '' : ' by workers elsewhere, as they told';
  const outcomes = Object.fromEntries(STORE_OUTCOMES.map((outcome) => [outcome, 0]));
  const counts = Object.fromEntries(STORE_OPS.map((op) => [op, { ...outcomes }]));
  readCounter(registry, { name: `firn_${whose}store_requests_total`, help: `Calls of the object store${by}, by kind and outcome.` }, ['op', 'outcome'], () =>
    STORE_OPS.flatMap((op) => STORE_OUTCOMES.map((outcome) => ({ labels: { op, outcome }, value: counts[op]?.[outcome] ?? 0 })).filter(({ labels, value }) => value > 0 || labels.outcome === 'ok')));
  const bytes = tallyFamily(registry, { name: `firn_${whose}store_bytes_total`, help: `Bytes of bodies written to the object store and read from it${by}.` }, 'direction', ['written', 'read']);
  const retries = tallyCounter(registry, { name: `firn_${whose}store_retries_total`, help: `Requests to the object store that were made again after a fault${by}.` });
  const hedges = tallyCounter(registry, { name: `firn_${whose}store_hedges_total`, help: `Second GETs made beside one whose answer was late${by}.` });
  return {
    request: (op, outcome, count = 1) => {
      const row = counts[op] as Record<string, number>;
      row[outcome] = (row[outcome] ?? 0) + count;
    },
    bytes: (direction, count) => bytes[direction].add(count),
    retry: (count) => retries.add(count),
    hedge: (count) => hedges.add(count),
  };
}

/** A registry with every metric of a node; memory, event loop and garbage collection of the process are part of it. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  let sources = NOTHING;
  const requests = new RequestCounts();
  readCounter(registry, { name: 'firn_requests_total', help: 'Requests answered, by kind and status.' }, ['route', 'status'], () => requests.samples());
  gauges(registry, () => sources);
  const counter = (name: string, help: string): Tally => tallyCounter(registry, { name, help });
  const family = <K extends string>(name: string, help: string, label: string, keys: readonly K[]): Readonly<Record<K, Tally>> => tallyFamily(registry, { name, help }, label, keys);
  const poisonings = counter('firn_store_poisonings_total', 'Times a batch failed and the hot store was opened again.');
  return {
    registry,
    requests,
    batchCommitted: batchMetrics(registry),
    storePoisoned: () => poisonings.add(),
    appends: counter('firn_appends_total', 'Appends applied, creates with a body included.'),
    appendBytes: counter('firn_append_bytes_total', 'Stream bytes of these appends.'),
    readBytes: family('firn_read_bytes_total', 'Stream bytes given to readers, by the tier they came from.', 'tier', TIERS),
    liveReaders: liveReaders(registry),
    liveReadersCut: counter('firn_live_readers_cut_total', 'Live readers cut because they did not keep up.'),
    seals: counter('firn_seals_total', 'Seals published.'),
    sealSeconds: histogram(registry, 'firn_seal_seconds', 'Time from the plan of a seal to its publication.', [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]),
    objectsWritten: family('firn_objects_written_total', 'Objects written to the cold tier.', 'kind', OBJECT_KINDS),
    objectBytesWritten: family('firn_object_bytes_written_total', 'Bytes written to the cold tier.', 'kind', OBJECT_KINDS),
    compactions: counter('firn_compactions_total', 'Compactions carried out.'),
    compactedBytesRead: counter('firn_compacted_bytes_read_total', 'Stored bytes that compactions replaced, as they were read.'),
    compactedRefs: family('firn_compacted_references_total', 'References that compactions took away, and those that came for them.', 'which', COMPACTED_REFS),
    coldUse: coldUse(registry),
    objectsDeleted: family('firn_objects_deleted_total', 'Objects deleted from the cold tier, by what they were.', 'what', DELETED_KINDS),
    objectBytesDeleted: counter('firn_object_bytes_deleted_total', 'Bytes of data objects deleted from the cold tier.'),
    coldReadersCut: counter('firn_cold_readers_cut_total', 'Readers cut because they held an object for too long that nothing names any more.'),
    frameCache: family('firn_frame_cache_total', 'Cold frames asked for, by whether the cache held them.', 'result', CACHE_RESULTS),
    diskCache: family('firn_disk_cache_total', 'Cold frames looked for in the cache on disk, by what was found.', 'result', DISK_CACHE_RESULTS),
    frameEvictions: family('firn_cache_evictions_total', 'Cold frames dropped to make room, by stage of the cache.', 'stage', CACHE_STAGES),
    diskCacheWriteFailures: counter('firn_disk_cache_write_failures_total', 'Cold frames that could not be written to the cache on disk.'),
    store: storeMeter(registry, ''),
    workerStore: storeMeter(registry, 'worker_'),
    storeErrors: counter('firn_object_store_errors_total', 'Calls of the object store that failed.'),
    evictedBytes: counter('firn_evicted_bytes_total', 'Hot copies removed after their seal, bytes.'),
    jobFailures: counter('firn_job_failures_total', 'Runs of background jobs that failed.'),
    wakes: counter('firn_wakes_total', 'Wakes of subscriptions issued.'),
    webhookDeliveries: family('firn_webhook_deliveries_total', 'Deliveries to webhooks, by what came of them.', 'result', DELIVERY_RESULTS),
    subscriptionLinksRefused: counter('firn_subscription_links_refused_total', 'Streams that matched a subscription and could not be linked for lack of room.'),
    damage: family('firn_damage_total', 'Damaged or missing bytes met.', 'where', DAMAGE_KINDS),
    bind: (more) => {
      sources = { ...sources, ...more };
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
