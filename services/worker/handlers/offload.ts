/**
 * Job `offload`: moves one large snapshot from the node's staging to an object of its own (architecture section 6, R035, R041).
 *
 * Owns: nothing that lasts. The body is never in memory; the object's name is of this very run.
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { crc32c } from '../../../shared/storage/crc.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { ObjectId } from '../../../shared/storage/records/types.js';
import type { NodePort } from '../node-port.js';
import { runTry } from './run-try.js';

export function offloadHandler(port: NodePort): JobHandler {
  return (jobId, stop) =>
    runTry(port, jobId, 'offload', stop, async (head, signal) => {
      const id: ObjectId = { kind: 'snapshot', partition: head.partition, session: head.session, plan: head.plan, attempt: head.attempt, part: 0 };
      const snapshot = await port.snapshot(jobId, signal);
      let crc = 0;
      const summed = async function* (): AsyncGenerator<Buffer> {
        for await (const piece of snapshot.body) {
          crc = crc32c(piece, crc);
          yield piece;
        }
      };
      await port.objects.putUnique(objectKey(id), summed(), snapshot.bytes, signal);
      if (crc !== snapshot.crc) throw new Error(`the staged body of ${jobId} is not the one that was published`);
      await port.commitOffload(jobId, { object: id, bytes: snapshot.bytes, crc }, signal);
    });
}
