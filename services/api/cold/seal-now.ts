/**
 * Seals on demand: what is unsealed at the call, and waits for it (design section 3).
 */
import type { PartitionCold, SealStep } from './partition-cold.js';
import { orStopped, pause } from './timing.js';
import type { SealReport } from './types.js';

/** Wait before streams are tried again that could not be sealed in the pass before, ms. */
const AGAIN_MS = 200;

interface Count {
  segments: number;
  bytes: number;
  streams: number;
}

/** `evict`: sealed copies go at once, and the call waits for that too. Rejects with the signal's reason, or with why a partition takes no seals. */
export async function sealNow(partitions: readonly PartitionCold[], prefix: string, evict: boolean, signal: AbortSignal): Promise<SealReport> {
  const count: Count = { segments: 0, bytes: 0, streams: 0 };
  await Promise.all(partitions.map((partition) => sealPartition(partition, prefix, evict, count, signal)));
  return { ...count };
}

async function sealPartition(partition: PartitionCold, prefix: string, evict: boolean, count: Count, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const { refusal, state } = partition.session;
    if (state === 'fenced' || state === 'refused') throw refusal ?? new Error('the partition takes no seals');
    if (partition.halted !== null) throw new Error(partition.halted);
    const whole = partition.sealing && (await orStopped(pass(partition, prefix, count), signal));
    if (whole) break;
    await pause(AGAIN_MS, signal);
  }
  if (evict) await orStopped(partition.evictDue(), signal);
}

/**
 * One pass over everything dirty; true when nothing was left out. Every stream that was dirty when the pass began is in one of its plans, each made
 * after the call: its state then holds all that was there at the call.
 */
async function pass(partition: PartitionCold, prefix: string, count: Count): Promise<boolean> {
  let whole = await partition.offloadAll(prefix);
  let from: Buffer | null = null;
  do {
    const step: SealStep = await partition.sealOnce(prefix, from);
    const { outcome } = step;
    if (outcome?.kind === 'done') {
      count.segments += outcome.segments;
      count.bytes += outcome.bytes;
      count.streams += outcome.streams;
    }
    if (step.skipped > 0 || outcome?.kind === 'given-up' || (outcome?.kind === 'done' && outcome.dropped > 0)) whole = false;
    from = step.next;
  } while (from !== null);
  return whole;
}
