/**
 * Seals on demand: what is unsealed at the call, and waits for it (architecture section 3).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { idlePause } from '../../../shared/time/pause.js';
import type { PartitionCold } from './partition-cold.js';
import type { SealStep } from './seal-step.js';
import { orStopped } from './timing.js';
import type { SealReport } from './types.js';

/** Wait before streams are tried again that could not be sealed in the pass before, ms. */
const AGAIN_MS = 200;

interface Count {
  segments: number;
  bytes: number;
  streams: number;
}

/**
 * `evict`: sealed copies go at once, and the call waits for that too. Rejects with the signal's reason, or with why a partition takes no seals. A fork is sealed behind its source: one that lies elsewhere,
 * or outside the prefix, is sealed along with it.
 */
export async function sealNow(partitions: readonly PartitionCold[], prefix: string, evict: boolean, signal: AbortSignal): Promise<SealReport> {
  const count: Count = { segments: 0, bytes: 0, streams: 0 };
  let also: ReadonlySet<StreamKey> = new Set();
  for (let open = partitions; ; ) {
    const awaited = new Set<StreamKey>();
    const before = count.streams;
    const left = await Promise.all(open.map(async (partition) => ((await passIfSealing(partition, { prefix, also, awaited }, count, signal)) ? null : partition)));
    // Whoever owns a source has to look again.
    open = awaited.size > 0 ? partitions : left.filter((partition) => partition !== null);
    if (open.length === 0) break;
    also = awaited;
    // What was sealed may be what the next link of a chain of forks waited for.
    if (awaited.size === 0 || count.streams === before) await idlePause(AGAIN_MS, signal);
  }
  if (evict) await Promise.all(partitions.map((partition) => orStopped(partition.evictor.due(), signal)));
  return { ...count };
}

interface Asked {
  readonly prefix: string;
  /** Sealed too. */
  readonly also: ReadonlySet<StreamKey>;
  /** Sources that forks turned out to wait for. */
  readonly awaited: Set<StreamKey>;
}

async function passIfSealing(partition: PartitionCold, asked: Asked, count: Count, signal: AbortSignal): Promise<boolean> {
  signal.throwIfAborted();
  const { refusal, state } = partition.session;
  if (state === 'fenced' || state === 'refused') throw refusal ?? new Error('the partition takes no seals');
  if (partition.halted !== null) throw new Error(partition.halted);
  return partition.sealing && orStopped(pass(partition, asked, count), signal);
}

/**
 * One pass over everything dirty; true when nothing was left out. Every stream that was dirty when the pass began is in one of its plans, each made
 * after the call: its state then holds all that was there at the call.
 */
async function pass(partition: PartitionCold, { prefix, also, awaited }: Asked, count: Count): Promise<boolean> {
  let whole = await partition.offloadAll(prefix);
  let from: Buffer | null = null;
  do {
    const step: SealStep = await partition.sealOnce(prefix, from, also);
    const { outcome } = step;
    if (outcome?.kind === 'done') {
      count.segments += outcome.segments;
      count.bytes += outcome.bytes;
      count.streams += outcome.streams;
    }
    for (const key of step.awaited) awaited.add(key);
    if (step.skipped > 0 || outcome?.kind === 'given-up' || (outcome?.kind === 'done' && outcome.dropped > 0)) whole = false;
    from = step.next;
  } while (from !== null);
  return whole;
}
