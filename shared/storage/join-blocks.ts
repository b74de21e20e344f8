/**
 * Neighbouring blocks of one stream joined to large ones: fewer references, and frames that shrink better.
 *
 * Promises: entry boundaries and times survive; one block of output in memory.
 */
import { BLOCK_ENTRIES_MAX, BLOCK_PAYLOAD_MAX, decodeBlockSpan, mergeBlocks } from './block.js';

/** Blocks in order and without a gap, joined as far as one block holds them. Throws `BadBytes`. */
export async function* joinedBlocks(blocks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  let entries = 0;
  for await (const block of blocks) {
    const head = decodeBlockSpan(block);
    const more = head.end - head.start;
    if (held.length > 0 && (bytes + more > BLOCK_PAYLOAD_MAX || entries + head.count > BLOCK_ENTRIES_MAX)) {
      yield joined(held);
      held = [];
      bytes = 0;
      entries = 0;
    }
    held.push(block);
    bytes += more;
    entries += head.count;
  }
  if (held.length > 0) yield joined(held);
}

function joined(blocks: readonly Buffer[]): Buffer {
  const [first] = blocks;
  return blocks.length === 1 && first !== undefined ? first : mergeBlocks(blocks);
}
