/**
 * What a worker and the node say to each other as JSON (docs/formats.md, "The way to a worker").
 *
 * Owns: routes and shapes of both directions. Promises: what does not have the shape is refused as a whole, by either side.
 */
import { z } from 'zod';
import type { Offset } from '../../shared/protocol/types.js';
import { STORE_OPS, STORE_OUTCOMES, type StoreTraffic } from '../../shared/storage/measured-store.js';
import { objectKey, parseObjectKey } from '../../shared/storage/records/object-id.js';
import type { ObjectInfo, SnapshotObjectRef } from '../../shared/storage/records/types.js';
import {
  COLLECT_BATCH, type CheckpointReport, type CollectChoice, type CollectPlans, type CollectReport, type CollectVerdict, type DeliveryOutcome, type DeliveryTry, type PlanHead, type PlanPosition,
} from './node-port.js';

/** Of the routes and shapes below: a node and a worker that differ do not work together. */
export const WORK_VERSION = 3;
/** Everything that workers use lies below. */
export const WORK_ROOT = '/__firn/work';
/** Bytes of a request's body at most. */
export const MESSAGE_BYTES_MAX = 4_194_304;
/** CRC32C of a whole snapshot, 8 hex digits. */
export const CRC_HEADER = 'firn-crc32c';
/** Code of the refusal (503) of a node that sends as many bodies as it does at a time: whoever asked waits for its turn. */
export const BUSY_CODE = 'WORK_BACKPRESSURE';
export const PLAN_STREAM_TYPE = 'application/vnd.firn.plan';

const count = z.int().min(0);
const crc = z.int().min(0).max(0xffff_ffff);

/** An object by its key. */
const objectInfo = z.strictObject({ key: z.string().max(200), bytes: count, crc }).transform(({ key, bytes, crc: sum }, context): ObjectInfo => {
  const id = parseObjectKey(key);
  if (id !== null) return { id, bytes, crc: sum };
  context.addIssue({ code: 'custom', message: 'no key of a data object' });
  return z.NEVER;
});

function written({ id, bytes, crc: sum }: ObjectInfo): object {
  return { key: objectKey(id), bytes, crc: sum };
}

/** `GET {root}`: whom a worker would work for. */
export const nodeInfo = z.strictObject({ version: z.int(), storeId: z.string() });
export type NodeInfo = z.infer<typeof nodeInfo>;

/** `POST {root}/{store}/plans/{job}/take`. */
export const planHead: z.ZodType<PlanHead> = z.strictObject({ kind: z.enum(['seal', 'offload', 'compact']), partition: count, session: count, plan: count, attempt: count, streams: count });

/** `GET …/log/{partition}`. */
export const logPosition = z.strictObject({ session: count, seq: count });

/** `POST …/alive`. */
export const aliveAnswer = z.strictObject({ wanted: z.boolean() });

/** `POST …/seal`, `…/compact`. */
export const sealMessage = z.strictObject({ objects: z.array(objectInfo) });
export const writeSeal = (objects: readonly ObjectInfo[]): object => ({ objects: objects.map(written) });

/** `POST …/offload`. */
export const offloadMessage = z.strictObject({ object: objectInfo }).transform(({ object }): SnapshotObjectRef => ({ object: object.id, bytes: object.bytes, crc: object.crc }));
export const writeOffload = (ref: SnapshotObjectRef): object => ({ object: written({ id: ref.object, bytes: ref.bytes, crc: ref.crc }) });

/** `POST …/failed`. */
export const failedMessage = z.strictObject({ why: z.string().max(10_000) });

/** `POST …/checkpointed`. */
export const checkpointMessage: z.ZodType<CheckpointReport> = z.strictObject({ partition: count, session: count, seq: count, streams: count, bytes: count, damaged: count });

const objectKeys = z.array(z.string().max(200)).max(COLLECT_BATCH);

/** `GET …/plans/{job}/collect`. */
export const collectPlans: z.ZodType<CollectPlans> = z.strictObject({ session: count, last: count, open: z.array(count) });

/** `POST …/collect`, and its answer. */
export const collectChoice: z.ZodType<CollectChoice> = z.strictObject({ dropped: objectKeys, strays: objectKeys });
export const collectVerdict: z.ZodType<CollectVerdict> = z.strictObject({ free: objectKeys, pinned: count, retryMs: z.number().min(0).nullable() });

/** `POST …/collected`. */
export const collectMessage: z.ZodType<CollectReport> = z.strictObject({
  partition: count, objects: count, orphans: count, bytes: count, checkpoints: count, logs: count,
  unknown: count, unknownKeys: z.array(z.string().max(2_000)).max(100), damaged: count, waiting: count, waitingBytes: count, uncovered: count, pinned: count, retryMs: z.number().min(0).nullable(),
});

/** `POST {root}/{store}/deliveries/{job}/take`. */
export const deliveryTry: z.ZodType<DeliveryTry> = z.strictObject({ run: count, url: z.string(), body: z.string().transform((text) => Buffer.from(text)), signature: z.string(), deadlineMs: z.number() });
export const writeDelivery = ({ run, url, body, signature, deadlineMs }: DeliveryTry): object => ({ run, url, body: body.toString('utf8'), signature, deadlineMs });

/** `POST …/deliveries/{job}/outcome`. */
export const outcomeMessage: z.ZodType<{ readonly run: number; readonly outcome: DeliveryOutcome }> = z.strictObject({
  run: count,
  outcome: z.union([z.strictObject({ kind: z.enum(['done', 'accepted']) }), z.strictObject({ kind: z.literal('failed'), why: z.string().max(1_000) })]),
});

/** `POST {root}/{store}/traffic`: what the worker asked of the object store since it last told. */
export const trafficMessage: z.ZodType<StoreTraffic> = z.strictObject({
  requests: z.array(z.strictObject({ op: z.enum(STORE_OPS), outcome: z.enum(STORE_OUTCOMES), count })).max(STORE_OPS.length * STORE_OUTCOMES.length),
  written: count,
  read: count,
  retries: count,
  hedges: count,
});

/** `GET …/items?stream=&offset=`. */
export function positionQuery({ stream, offset }: PlanPosition): string {
  return `stream=${stream}&offset=${offset}`;
}

/** null: not a position. */
export function parsePosition(query: URLSearchParams): PlanPosition | null {
  const [stream, offset] = ['stream', 'offset'].map((name) => {
    const text = query.get(name) ?? '0';
    return /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  }) as [number, number];
  return Number.isSafeInteger(stream) && Number.isSafeInteger(offset) ? { stream, offset: offset as Offset } : null;
}
