/**
 * Job `deliver`: asks the node what is to be posted, posts it, tells what came of it (requirements section 29, P7.1).
 *
 * Owns: nothing that lasts. Promises: the address is judged here, where the connection is made; run twice, late or by two workers, the node takes the outcome of the run that it gave last (I6), and a
 * receiver tells doubles by the id of the wake.
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { withSignal } from '../../../shared/time/joined-signal.js';
import type { DeliveryOutcome, DeliverySide, DeliveryTry } from '../node-port.js';
import { deliver } from '../webhooks/deliver.js';
import type { WebhookTargets } from '../webhooks/targets.js';

export function deliverHandler(port: DeliverySide, targets: WebhookTargets): JobHandler {
  return async (jobId, stop) => {
    const askedMs = performance.now();
    const found = await port.delivery(jobId);
    if (found === null) return;
    await port.delivered(jobId, found.run, await outcomeOf(found, askedMs, targets, stop));
  };
}

async function outcomeOf(found: DeliveryTry, askedMs: number, targets: WebhookTargets, stop: AbortSignal): Promise<DeliveryOutcome> {
  // A process that slept meanwhile must not post what the node has given up.
  const deadlineMs = Math.ceil(found.deadlineMs - (performance.now() - askedMs));
  if (deadlineMs <= 0) return { kind: 'failed', why: 'there was no time left' };
  const signals = found.unwanted === undefined ? [stop] : [stop, found.unwanted];
  return withSignal(signals, null, (signal) => deliver({ ...found, deadlineMs }, targets, signal)).catch((): DeliveryOutcome => ({ kind: 'failed', why: 'the process stopped' }));
}
