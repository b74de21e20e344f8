/** What the parts of this folder share: the subscriptions in memory and what they are linked to. */
import type { Logger, Metrics } from '../../../shared/observability/index.js';
import type { ColdTier } from '../cold/types.js';
import type { Core } from '../log/log-core.js';
import type { StreamLog } from '../log/types.js';
import type { ColdLog } from './cold-log.js';
import type { Deliveries } from './deliveries.js';
import type { Keyring } from './keyring.js';
import type { LinkedStreams } from './linked-streams.js';
import type { StreamScan } from './stream-scan.js';
import type { Subscription } from './subscription.js';
import type { Wakes } from './wakes.js';

export interface SubscriptionsOptions {
  readonly core: Core;
  readonly log: Pick<StreamLog, 'append' | 'head'>;
  /** null: without a log in an object store. */
  readonly cold: Pick<ColdTier, 'followSubscriptions' | 'refusal'> | null;
  /** Where this node is for everybody; null: where the request that made a subscription found it. */
  readonly publicUrl: string | null;
  readonly deliveries: Deliveries;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'wakes' | 'webhookDeliveries' | 'subscriptionLinksRefused'>;
  readonly now: () => number;
  readonly random: () => number;
}

export interface Parts extends SubscriptionsOptions {
  readonly byId: Map<string, Subscription>;
  readonly streams: LinkedStreams<Subscription>;
  readonly scan: StreamScan;
  readonly wakes: Wakes;
  readonly keyring: () => Promise<Keyring>;
  readonly coldLog: ColdLog | null;
}
