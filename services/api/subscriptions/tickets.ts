/**
 * What receivers and workers say of a wake: callback, claim, ack, release (P7.1 .. P7.3).
 *
 * Owns: the checks of tokens, generations and acks. Promises: a request that names anything but the wake that is current changes nothing (SUB-34, SUB-35); acks are applied all or none (SUB-53). Each
 * function decides and changes memory in one turn; the caller waits for `subscription.durable`.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { HotOp } from '../hot/store.js';
import type { LinkedStream } from './links.js';
import type { LinkedStreams } from './linked-streams.js';
import type { Subscription, Wake } from './subscription.js';
import { makeToken, readToken, type TokenUse } from './tokens.js';
import type { Ack, Claim, Ticket } from './types.js';
import { isOver, type Wakes } from './wakes.js';

export interface TicketParts {
  readonly wakes: Wakes;
  readonly streams: LinkedStreams<Subscription>;
  readonly now: () => number;
}

/** Acks of a wake, its end with `done`, else a longer lease. Returns whether another wake follows. */
export function acknowledge(parts: TicketParts, secret: Buffer, subscription: Subscription, ticket: Ticket, use: TokenUse): boolean {
  const wake = current(parts, secret, subscription, ticket, use);
  const ops = applyAcks(parts, subscription, ticket.acks);
  subscription.failures = 0;
  subscription.nextAttemptAtMs = null;
  if (ticket.done) return end(parts, subscription, ops);
  wake.leaseUntilMs = parts.now() + subscription.leaseTtlMs;
  // Whoever calls back has got the wake.
  if (use === 'callback') wake.phase = 'delivered';
  void parts.wakes.save(subscription, [...ops, subscription.recordOp()]);
  parts.wakes.settle(subscription);
  return false;
}

/** Gives a claim up without an ack. */
export function release(parts: TicketParts, secret: Buffer, subscription: Subscription, ticket: Ticket): void {
  current(parts, secret, subscription, ticket, 'claim');
  end(parts, subscription, []);
}

/** Takes the lease for a worker; there is one wake for each claim, whether or not its event was written yet. */
export function claim(parts: TicketParts, secret: Buffer, subscription: Subscription, worker: string): Claim {
  const { wakes, now } = parts;
  if (subscription.type !== 'pull-wake') throw wrongType(subscription);
  const held = subscription.wake !== null && !isOver(subscription.wake, now()) ? subscription.wake : null;
  if (held?.phase === 'claimed') throw new FirnError('ALREADY_CLAIMED', { members: { current_holder: held.holder ?? '', generation: held.generation } });
  wakes.takeOver(subscription);
  subscription.wake = held;
  if (!subscription.hasPending) {
    subscription.wake = null;
    void wakes.save(subscription, [subscription.recordOp()]);
    wakes.settle(subscription);
    throw new FirnError('NO_PENDING_WORK');
  }
  const wake = held ?? wakes.issue(subscription);
  wake.phase = 'claimed';
  wake.holder = worker;
  wake.leaseUntilMs = now() + subscription.leaseTtlMs;
  subscription.failures = 0;
  subscription.nextAttemptAtMs = null;
  void wakes.save(subscription, [subscription.recordOp()]);
  wakes.settle(subscription);
  const token = makeToken(secret, { subscription: subscription.id, number: subscription.number, generation: wake.generation, use: 'claim' }, now());
  return { wakeId: wake.id, generation: wake.generation, token, links: subscription.snapshot().links, leaseTtlMs: subscription.leaseTtlMs };
}

/** The wake that a ticket names, if it is the one that counts. Throws TOKEN_INVALID, TOKEN_EXPIRED, FENCED. */
function current({ now }: TicketParts, secret: Buffer, subscription: Subscription, ticket: Ticket, use: TokenUse): Wake {
  if ((use === 'callback') !== (subscription.type === 'webhook')) throw wrongType(subscription);
  const claims = readToken(secret, ticket.token, subscription.id, use, now());
  const { wake } = subscription;
  const isCurrent = wake !== null && !isOver(wake, now()) && claims.number === subscription.number && claims.generation === wake.generation
    && ticket.generation === wake.generation && ticket.wakeId === wake.id && (use === 'callback' || wake.phase === 'claimed');
  if (!isCurrent) throw new FirnError('FENCED');
  return wake;
}

function end({ wakes }: TicketParts, subscription: Subscription, ops: readonly HotOp[]): boolean {
  wakes.takeOver(subscription);
  subscription.wake = null;
  void wakes.save(subscription, [...ops, subscription.recordOp()]);
  wakes.settle(subscription);
  return subscription.hasPending;
}

/** Rows of the cursors that move. Throws before any of them does. */
function applyAcks({ streams }: TicketParts, subscription: Subscription, acks: readonly Ack[]): HotOp[] {
  const judged: { readonly stream: LinkedStream<Subscription>; readonly offset: number }[] = [];
  for (const { stream: key, offset } of acks) {
    const stream = streams.get(key);
    if (stream === undefined || subscription.ackedOf(stream) === null) throw new FirnError('INVALID_REQUEST', { detail: 'an ack names a stream that is not linked' });
    if (offset > stream.tail) throw new FirnError('INVALID_OFFSET', { detail: 'an ack lies beyond the tail of its stream' });
    judged.push({ stream, offset });
  }
  return subscription.advance(judged);
}

function wrongType({ type }: Subscription): FirnError {
  return new FirnError('INVALID_REQUEST', { detail: `this is a ${type} subscription` });
}
