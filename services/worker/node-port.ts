/**
 * The one narrow way by which job handlers reach the node that owns a plan (architecture section 9, I5, I6).
 *
 * Owns: the interface. Implementations: the node itself for handlers in its process, the admin listener for workers elsewhere. Handlers know neither
 * which of them they have nor which object store lies behind `objects`. Everything a handler brings back is checked again by the node.
 */
import type { Incarnation, Offset, StreamKey } from '../../shared/protocol/types.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';
import type { BlockRef, ColdRef, ObjectInfo, SnapshotObjectRef } from '../../shared/storage/records/types.js';
import type { SnapshotIdentity } from '../../shared/storage/snapshot-body.js';

/** What a job is about, as the node knows it now. */
export interface PlanHead {
  readonly kind: 'seal' | 'offload' | 'compact';
  readonly partition: number;
  readonly session: number;
  readonly plan: number;
  /** Part of the names of the objects of this run: no other run of the plan has it, also not of the same job. */
  readonly attempt: number;
  /** Streams of a seal plan, or sources of a compaction, numbered from 0. */
  readonly streams: number;
}

/** Where a reader of a plan stands: everything before `offset` of stream number `stream` is behind it. */
export interface PlanPosition {
  readonly stream: number;
  readonly offset: Offset;
}

/** Keys of one choice of a collection, both kinds together: bounds the log record, the question and the answer. */
export const COLLECT_BATCH = 500;

/** The beginning of every plan. */
export const PLAN_START: PlanPosition = { stream: 0, offset: 0 as Offset };

/** A piece of a seal plan, in the order in which it goes into the objects: by incarnation, then by offset, a stream's snapshot after its blocks. */
export type PlanItem =
  | { readonly kind: 'block'; readonly stream: number; readonly key: StreamKey; readonly incarnation: Incarnation; readonly block: Buffer }
  | { readonly kind: 'snapshot'; readonly stream: number; readonly key: StreamKey; readonly incarnation: Incarnation; readonly record: SnapshotIdentity; readonly body: Buffer };

/** A piece of a compaction, in the order in which it goes into the objects: references that cover one range without a gap, or a small snapshot. */
export interface PlanSource {
  /** Number in the plan. */
  readonly source: number;
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Empty: a snapshot. */
  readonly refs: readonly ColdRef[];
  /** null: a range. */
  readonly snapshot: BlockRef | null;
}

/** What a checkpoint covers and holds. */
export interface CheckpointReport {
  readonly partition: number;
  readonly session: number;
  readonly seq: number;
  readonly streams: number;
  /** Stored bytes written. */
  readonly bytes: number;
  /** Newer checkpoints that were passed over, since they are not as they were written. */
  readonly damaged: number;
}

/** What a node tells a collection about the plans of its session: objects of those that are over are named by the log by now, or never. */
export interface CollectPlans {
  readonly session: number;
  /** The last number that was given to a plan of this session. */
  readonly last: number;
  readonly open: readonly number[];
}

/** Objects that a collection found, by their keys. */
export interface CollectChoice {
  /** The newest checkpoint says that the last reference to them was dropped at or before the older of the newest two. */
  readonly dropped: readonly string[];
  /** In the store, named by no checkpoint and no log record, and their plan is over. */
  readonly strays: readonly string[];
}

/** What the node made of a choice. */
export interface CollectVerdict {
  /** May be deleted now: a log record says so, or they never were in the log. */
  readonly free: readonly string[];
  /** Objects that readers hold. */
  readonly pinned: number;
  /** When the first of those that wait for the end of their grace is free, ms from now; null: none waits. */
  readonly retryMs: number | null;
}

/** What one run of a collection came to. */
export interface CollectReport {
  readonly partition: number;
  /** Objects that the log had named, deleted. */
  readonly objects: number;
  /** Objects of tries that came to nothing, deleted. */
  readonly orphans: number;
  /** Bytes of both. */
  readonly bytes: number;
  /** Checkpoints (with all their parts) and log records, deleted. */
  readonly checkpoints: number;
  readonly logs: number;
  /** Names that nobody knows, kept; the first of them listed. */
  readonly unknown: number;
  readonly unknownKeys: readonly string[];
  /** Checkpoints that were found not to be as they were written, before anything was deleted that a restore would need without them. */
  readonly damaged: number;
  /** Objects that may go later: `uncovered` of them need one more checkpoint, `pinned` are held by readers, the others wait for the end of their grace. */
  readonly waiting: number;
  readonly waitingBytes: number;
  readonly uncovered: number;
  readonly pinned: number;
  readonly retryMs: number | null;
}

/** A body that can be read once. */
export interface SnapshotSource {
  /** Of the whole body. */
  readonly bytes: number;
  /** CRC32C of the whole body. */
  readonly crc: number;
  readonly body: AsyncIterable<Buffer>;
}

/** A request to a webhook. */
export interface Delivery {
  readonly url: string;
  readonly body: Buffer;
  /** Value of `Webhook-Signature`: made where the key is. */
  readonly signature: string;
  readonly deadlineMs: number;
}

/** One run of a delivery job. */
export interface DeliveryTry extends Delivery {
  /** A later run of the job takes its place: the outcome of an earlier one counts no more. */
  readonly run: number;
  /** Fires when nobody wants the outcome any more; in the node's own process alone. */
  readonly unwanted?: AbortSignal;
}

/** `done`: the receiver has finished; `accepted`: it took the wake; `failed`: it did not, as far as is known. */
export type DeliveryOutcome = { readonly kind: 'done' | 'accepted' } | { readonly kind: 'failed'; /** Without a secret. */ readonly why: string };

/** The part of the node that has webhooks delivered. */
export interface DeliverySide {
  /** Takes a delivery up. null: it was made, given up, or is of an earlier life of the node. */
  delivery(jobId: string): Promise<DeliveryTry | null>;
  /** Tells what a run came to. Of no effect when nobody waits for that run. */
  delivered(jobId: string, run: number, outcome: DeliveryOutcome): Promise<void>;
}

export interface NodePort extends DeliverySide {
  readonly objects: ObjectStore;
  /** Takes the try up. null: the plan is finished, dropped, or this try was given up: nothing to do. */
  plan(jobId: string): Promise<PlanHead | null>;
  /** Says that the try is being worked on. false: nobody wants its result any more. */
  alive(jobId: string): Promise<boolean>;
  /**
   * Streams the plan's bytes from a position on, with back-pressure. Every block carries its own checksums. A stream that cannot be read is left
   * out from there on; the node knows. Throws `PlanGone`.
   */
  planItems(jobId: string, from: PlanPosition, signal: AbortSignal): AsyncIterable<PlanItem>;
  /** Hands over the objects that were uploaded, in order; resolves when the log record exists and is applied. Throws `PlanGone` when the plan is not open any more. */
  commitSeal(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void>;
  /** What a compaction takes together, from a source on; the worker reads the bytes from the object store. Throws `PlanGone`. */
  planSources(jobId: string, from: number, signal: AbortSignal): AsyncIterable<PlanSource>;
  /** Hands over what was written of these sources; a source that is not in the objects whole stays as it is. Resolves and throws like `commitSeal`. */
  commitCompact(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void>;
  /** The large snapshot of an offload plan. Its body is open until it was read, or the signal fires. Throws `PlanGone`. */
  snapshot(jobId: string, signal: AbortSignal): Promise<SnapshotSource>;
  commitOffload(jobId: string, ref: SnapshotObjectRef, signal: AbortSignal): Promise<void>;
  /** Says that a try failed, so that the next one need not wait until this one counts as lost. */
  failed(jobId: string, why: string): Promise<void>;
  /** Where a partition's log stands: what a checkpoint may cover. */
  logPosition(partition: number): Promise<{ readonly session: number; readonly seq: number }>;
  /** The checkpoint that a job was about exists. */
  checkpointed(jobId: string, report: CheckpointReport): Promise<void>;
  /** The plans of the session that a collection runs in, asked between two log records. Throws `PlanGone` when that session is over. */
  collectPlans(jobId: string): Promise<CollectPlans>;
  /** What of a choice may be deleted now; the log says so when this resolves. At most `COLLECT_BATCH` keys. Throws `PlanGone`. */
  collect(jobId: string, choice: CollectChoice): Promise<CollectVerdict>;
  /** A run of a collection has ended. */
  collected(jobId: string, report: CollectReport): Promise<void>;
}

/** The node does not know this try any more: it was finished by another, or given up. Its objects are orphans. */
export class PlanGone extends Error {
  constructor(readonly jobId: string) {
    super(`plan ${jobId} is not open any more`);
    this.name = 'PlanGone';
  }
}
