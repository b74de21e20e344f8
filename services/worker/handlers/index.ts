/** Handlers of every kind of job over one way to the node. */
import type { JobHandlers } from '../../../shared/queue/index.js';
import type { NodePort } from '../node-port.js';
import { checkpointHandler } from './checkpoint.js';
import { collectHandler } from './collect.js';
import { compactHandler } from './compact.js';
import type { WebhookTargets } from '../webhooks/targets.js';
import { deliverHandler } from './deliver.js';
import { offloadHandler } from './offload.js';
import { sealHandler } from './seal.js';

/** `now`: milliseconds since 1970. `targets`: where webhooks may go from this process. */
export function jobHandlers(port: NodePort, now: () => number, targets: WebhookTargets): JobHandlers {
  return {
    seal: sealHandler(port),
    offload: offloadHandler(port),
    checkpoint: checkpointHandler(port, { now }),
    compact: compactHandler(port),
    collect: collectHandler(port),
    deliver: deliverHandler(port, targets),
  };
}
