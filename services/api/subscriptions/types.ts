/**
 * What subscriptions offer to the layer above (P6, P7): requests and what they come to.
 *
 * Owns: the interface `SubscriptionsApi`. Every refusal is a `FirnError`; nothing here knows HTTP. An answer comes after what it says is durable (I2).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { SubscriptionType } from '../hot/keys/index.js';
import type { PublicJwk } from './keyring.js';
import type { LinkView } from './subscription.js';

/** A subscription as asked for; syntax was checked. */
export interface CreateSubscription {
  readonly id: string;
  readonly type: SubscriptionType;
  /** In its normal form. */
  readonly pattern: string | null;
  readonly streams: readonly StreamKey[];
  /** As it was sent. */
  readonly webhookUrl: string | null;
  readonly wakeStream: StreamKey | null;
  readonly leaseTtlMs: number;
  readonly description: string | null;
  /** Origin for `callback_url`. */
  readonly origin: string;
}

export interface SubscriptionView {
  readonly id: string;
  readonly type: SubscriptionType;
  readonly pattern: string | null;
  readonly webhookUrl: string | null;
  readonly wakeStream: StreamKey | null;
  readonly leaseTtlMs: number;
  readonly description: string | null;
  readonly createdAtMs: number;
  readonly status: 'active' | 'failed';
  /** Id of the key that signs deliveries now. */
  readonly kid: string;
  /** Its links now. */
  links(): Iterable<LinkView>;
}

export interface Ack {
  readonly stream: StreamKey;
  readonly offset: number;
}

/** What a receiver or worker says of a wake. */
export interface Ticket {
  readonly token: string | null;
  readonly wakeId: string;
  readonly generation: number;
  readonly acks: readonly Ack[];
  readonly done: boolean;
}

export interface Claim {
  readonly wakeId: string;
  readonly generation: number;
  readonly token: string;
  readonly links: readonly LinkView[];
  readonly leaseTtlMs: number;
}

export interface SubscriptionsApi {
  /** Throws WEBHOOK_URL_REJECTED, SUBSCRIPTION_ALREADY_EXISTS, SUBSCRIPTION_LIMIT, INVALID_REQUEST. */
  create(request: CreateSubscription): Promise<{ readonly created: boolean; readonly subscription: SubscriptionView }>;
  /** Throws SUBSCRIPTION_NOT_FOUND, as all below but `delete`. */
  get(id: string): Promise<SubscriptionView>;
  delete(id: string): Promise<void>;
  link(id: string, streams: readonly StreamKey[]): Promise<void>;
  unlink(id: string, stream: StreamKey): Promise<void>;
  /** Throws TOKEN_INVALID, TOKEN_EXPIRED, FENCED, INVALID_OFFSET. Returns whether another wake follows. */
  callback(id: string, ticket: Ticket): Promise<boolean>;
  ack(id: string, ticket: Ticket): Promise<boolean>;
  release(id: string, ticket: Ticket): Promise<void>;
  /** Throws ALREADY_CLAIMED, NO_PENDING_WORK. */
  claim(id: string, worker: string): Promise<Claim>;
  jwks(): Promise<readonly PublicJwk[]>;
}
