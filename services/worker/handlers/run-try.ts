/** One try of a plan: asks what it is about, does it, and tells the node when it failed. */
import { PlanGone, type NodePort, type PlanHead } from '../node-port.js';

/** Rejects with what went wrong, after the node was told. A plan that is gone is no failure: somebody else finished it. */
export async function runTry(port: NodePort, jobId: string, kind: PlanHead['kind'], work: (head: PlanHead) => Promise<void>): Promise<void> {
  const head = await port.plan(jobId);
  if (head === null) return;
  if (head.kind !== kind) throw new Error(`job ${jobId} is about ${head.kind}, not ${kind}`);
  try {
    await work(head);
  } catch (error) {
    if (error instanceof PlanGone) return;
    await port.failed(jobId, error instanceof Error ? error.message : String(error)).catch(() => undefined);
    throw error;
  }
}
