/**
 * Job `compact`: takes ranges of streams out of many objects and puts them together, stream by stream (architecture section 6).
 *
 * Owns: nothing that lasts. Promises: memory is that of one object being made and a window of each one being read (I11); a source that is damaged or gone is left out whole or in part, and the node,
 * which compares every range with what it replaces, keeps the references to it (I9); no range is cut into pieces that a short read would have to fetch one by one.
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { decodeBlockSpan } from '../../../shared/storage/block.js';
import { DataObjectWriter } from '../../../shared/storage/data-object.js';
import { joinedBlocks } from '../../../shared/storage/join-blocks.js';
import type { ObjectInfo } from '../../../shared/storage/records/types.js';
import { isSourceDamage, SourceFrames } from '../../../shared/storage/source-frames.js';
import type { NodePort, PlanHead, PlanSource } from '../node-port.js';
import { runTry } from './run-try.js';
import { SEGMENT_RAW_BYTES } from './seal.js';
import { uploadObject } from './upload-object.js';

/** Bytes of one stream that lie together at least, where it has as many: a read of so much meets two such places at most. */
export const RUN_BYTES_MIN = 1_048_576;
/** What the head of a snapshot may take beside its body, bytes. */
const SNAPSHOT_HEAD_BYTES = 32_768;

export function compactHandler(port: NodePort): JobHandler {
  return (jobId, stop) =>
    runTry(port, jobId, 'compact', stop, async (head, signal) => {
      const parts = new Parts(port, head, signal);
      const frames = new SourceFrames(port.objects, signal);
      for await (const source of port.planSources(jobId, 0, signal)) {
        try {
          await parts.take(source, frames);
        } catch (error) {
          // The node meets the same damage when it compares, and says so.
          if (!isSourceDamage(error)) throw error;
        }
      }
      await port.commitCompact(jobId, await parts.finish(), signal);
    });
}

/** The objects of one run. */
class Parts {
  readonly #objects: ObjectInfo[] = [];
  #writer = new DataObjectWriter();

  constructor(private readonly port: NodePort, private readonly head: PlanHead, private readonly signal: AbortSignal) {}

  async take({ key, incarnation, refs, snapshot }: PlanSource, frames: SourceFrames): Promise<void> {
    if (snapshot !== null) {
      const { body, ...record } = await frames.snapshot(snapshot);
      if (!this.#writer.fits(body.length + SNAPSHOT_HEAD_BYTES) || this.#writer.rawBytes >= SEGMENT_RAW_BYTES) await this.#close();
      this.#writer.addSnapshot(key, incarnation, record, body);
      return;
    }
    const from = refs[0]?.start ?? 0;
    const to = refs.at(-1)?.end ?? 0;
    if (this.#writer.rawBytes >= SEGMENT_RAW_BYTES) await this.#close();
    let began: number = from;
    for await (const block of joinedBlocks(frames.blocks(refs))) {
      const { start } = decodeBlockSpan(block);
      const enough = this.#writer.rawBytes >= SEGMENT_RAW_BYTES && start - began >= RUN_BYTES_MIN && to - start >= RUN_BYTES_MIN;
      if (enough || !this.#writer.fits(block.length)) {
        await this.#close();
        began = start;
      }
      this.#writer.addBlock(key, incarnation, block);
    }
  }

  async finish(): Promise<readonly ObjectInfo[]> {
    await this.#close();
    return this.#objects;
  }

  async #close(): Promise<void> {
    if (this.#writer.ranges === 0) return;
    this.#objects.push(await uploadObject(this.port, this.head, 'merged', this.#objects.length, this.#writer, this.signal));
    this.#writer = new DataObjectWriter();
  }
}
