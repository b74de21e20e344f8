/**
 * Job `seal`: streams the bytes of a plan from the node, packs them into data objects, uploads them (architecture section 6, step 2).
 *
 * Owns: nothing that lasts. Promises: each object is written once under a name of this very run; run twice, late or by two workers, the node takes the first
 * result and the rest are orphans (I6).
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { DataObjectWriter } from '../../../shared/storage/data-object.js';
import type { ObjectInfo } from '../../../shared/storage/records/types.js';
import { PLAN_START, type PlanItem, type NodePort } from '../node-port.js';
import { runTry } from './run-try.js';
import { uploadObject } from './upload-object.js';

/** Raw bytes at which an object is closed: the number of PUTs follows bytes (8 to 64 MiB are aimed at). */
export const SEGMENT_RAW_BYTES = 33_554_432;

export function sealHandler(port: NodePort): JobHandler {
  return (jobId, stop) =>
    runTry(port, jobId, 'seal', stop, async (head, signal) => {
      const objects: ObjectInfo[] = [];
      let writer = new DataObjectWriter();
      for await (const item of port.planItems(jobId, PLAN_START, signal)) {
        signal.throwIfAborted();
        if (writer.ranges > 0 && (writer.rawBytes >= SEGMENT_RAW_BYTES || !writer.fits(bytesOf(item)))) {
          objects.push(await uploadObject(port, head, 'segment', objects.length, writer, signal));
          writer = new DataObjectWriter();
        }
        if (item.kind === 'block') writer.addBlock(item.key, item.incarnation, item.block);
        else writer.addSnapshot(item.key, item.incarnation, item.record, item.body);
      }
      if (writer.ranges > 0) objects.push(await uploadObject(port, head, 'segment', objects.length, writer, signal));
      await port.commitSeal(jobId, objects, signal);
    });
}

/** What an item may take at most, the head of a snapshot included. */
function bytesOf(item: PlanItem): number {
  return item.kind === 'block' ? item.block.length : item.body.length + 32_768;
}
