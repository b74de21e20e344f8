/** Closes a data object and puts it under the next name of a run: created once, never over another one's bytes (I4). */
import type { DataObjectWriter } from '../../../shared/storage/data-object.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { ObjectId, ObjectInfo } from '../../../shared/storage/records/types.js';
import type { NodePort, PlanHead } from '../node-port.js';

export async function uploadObject(port: NodePort, head: PlanHead, kind: ObjectId['kind'], part: number, writer: DataObjectWriter, signal: AbortSignal): Promise<ObjectInfo> {
  const id: ObjectId = { kind, partition: head.partition, session: head.session, plan: head.plan, attempt: head.attempt, part };
  const packed = await writer.finish();
  const outcome = await port.objects.putOnce(objectKey(id), packed.body, signal);
  if (outcome === 'exists-theirs') throw new Error(`somebody else wrote other bytes to ${objectKey(id)}`);
  return { id, bytes: packed.bytes, crc: packed.crc };
}
