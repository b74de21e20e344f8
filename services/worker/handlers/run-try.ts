/**
 * One try of a plan: asks what it is about, does it, and tells the node when it failed.
 *
 * Owns: the signs of life of a try. A try may be silent for long towards the node (an upload over a slow line); without them it would count as lost.
 * Promises: the signal of a try fires at the latest when it is over, so that nothing of it stays open, such as a body that nobody came to read.
 */
import { JoinedSignal } from '../../../shared/time/joined-signal.js';
import { PlanGone, type NodePort, type PlanHead } from '../node-port.js';

/** How often a try says that it is alive, ms: several times before it would count as lost. */
export const ALIVE_MS = 10_000;

/** Rejects with what went wrong, after the node was told. A plan that is gone is no failure: somebody else finished it. */
export async function runTry(port: NodePort, jobId: string, kind: PlanHead['kind'], stop: AbortSignal, work: (head: PlanHead, signal: AbortSignal) => Promise<void>): Promise<void> {
  const head = await port.plan(jobId);
  if (head === null) return;
  if (head.kind !== kind) throw new Error(`job ${jobId} is about ${head.kind}, not ${kind}`);
  const joined = new JoinedSignal([stop]);
  const pulse = setInterval(() => {
    // A node that does not answer just now may well want the result.
    port.alive(jobId).then((wanted) => (wanted ? undefined : joined.abort(new PlanGone(jobId))), () => undefined);
  }, ALIVE_MS);
  pulse.unref();
  try {
    await work(head, joined.signal);
  } catch (error) {
    if (error instanceof PlanGone || joined.signal.reason instanceof PlanGone) return;
    await port.failed(jobId, error instanceof Error ? error.message : String(error)).catch(() => undefined);
    throw error;
  } finally {
    clearInterval(pulse);
    joined.abort(new Error(`the try of ${jobId} is over`));
  }
}
