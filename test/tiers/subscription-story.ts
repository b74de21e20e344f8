/** Subscriptions over the loss of a hot tier: what a log in the object store gives back of them, and what begins anew. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import type { Env, FirnNode } from '../support/node.js';
import { Stream, TEXT } from '../support/stream.js';
import { checkSignature, DONE, jwksOf, Sub, until, type Receiver, type Received, type Shown } from '../support/webhooks.js';

interface Report {
  readonly partitions: readonly { readonly subscriptions: number }[];
  readonly losses: readonly { readonly key: string; readonly what: string }[];
}

/** The links of an answer in one order. */
function sorted(shown: Shown): Shown {
  return { ...shown, streams: [...shown.streams].sort((a, b) => a.path.localeCompare(b.path)) };
}

/** What stays of an answer: the key that signs is a new one. */
function kept({ webhook, ...shown }: Shown): object {
  return { ...sorted({ ...shown, webhook: null }), url: webhook?.url };
}

export class SubscriptionStory {
  readonly name = 'ev';
  readonly hooked: Sub;
  readonly pulled: Sub;
  readonly ended: Sub;
  readonly late: Sub;
  /** Times that everything was lost, and found to be there again. */
  losses = 0;
  readonly #settings: Env;
  /** Newest delivery of each subscription. */
  readonly #last = new Map<string, Received>();

  constructor(readonly node: FirnNode, readonly receiver: Receiver, settings: Env) {
    this.#settings = settings;
    [this.hooked, this.pulled, this.ended, this.late] = [new Sub(node, 'hööked'), new Sub(node, 'pulled'), new Sub(node, 'ended'), new Sub(node, 'late')] as [Sub, Sub, Sub, Sub];
    receiver.reply = (res, received) => {
      this.#last.set(received.body.subscription_id, received);
      DONE(res, received);
    };
  }

  stream(n: number | string): Stream {
    return new Stream(this.node.http, `/v1/stream/${this.name}/${n}`);
  }

  /** Appends, and waits until the webhook subscriptions have acknowledged it. */
  async append(n: number, ...subs: readonly Sub[]): Promise<void> {
    const { next } = await this.stream(n).append('more', { type: TEXT });
    for (const sub of subs) await until(async () => (await sub.acked(`${this.name}/${n}`)) === next);
  }

  async begin(): Promise<void> {
    for (let n = 0; n < 30; n++) await this.stream(n).create({ type: TEXT, body: 'x'.repeat(n) });
    const { name } = this;
    await this.hooked.webhook(this.receiver, `${name}/*`, { streams: [`${name}/5`, `${name}/none`], description: 'kept', lease_ttl_ms: 20_000 });
    await this.pulled.pull(`${name}/*`);
    await this.ended.webhook(this.receiver, null, { streams: [`${name}/1`] });
    await this.append(7, this.hooked);
    await this.node.seal();
  }

  /** Changes that the log has to take along in a record of their own. */
  async change(): Promise<void> {
    const { name } = this;
    for (const n of [7, 8, 5]) await this.append(n, this.hooked);
    expect((await this.hooked.link(`${name}/9`)).status).toBe(204);
    expect((await this.hooked.unlink(`${name}/none`)).status).toBe(204);
    expect((await this.ended.delete()).status).toBe(204);
    await this.append(11, this.hooked);
    const { token, wake_id, generation } = await this.pulled.claimed();
    expect((await this.pulled.tell('ack', { token, wake_id, generation, acks: [{ stream: `${name}/11`, offset: String((await this.stream(11).head()).next) }], done: true })).status).toBe(200);
    await this.node.seal();
  }

  /** What no seal takes along. */
  async loseMore(): Promise<void> {
    await this.late.webhook(this.receiver, `${this.name}/*`);
    await this.append(21, this.late, this.hooked);
  }

  async restore(args: readonly string[] = []): Promise<Report> {
    await this.node.stop();
    for (const folder of ['hot', 'staging', 'cache']) rmSync(join(this.node.dataDir, folder), { recursive: true, force: true });
    const run = await firn(['restore', ...args], settingsFor(this.node, this.#settings));
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    await this.node.start();
    return JSON.parse(run.stdout) as Report;
  }

  /** Loses the hot tier, and checks everything about what came back. */
  async loseAndCheck(args: readonly string[] = []): Promise<void> {
    const before = { hooked: kept(await this.hooked.shown()), pulled: kept(await this.pulled.shown()) };
    const keys = await jwksOf(this.node.http);
    await this.loseMore();
    const told = this.#last.get(this.hooked.id)!.body;
    const lateTold = this.#last.get('late')!.body;
    const report = await this.restore(args);
    expect(report.partitions.reduce((sum, { subscriptions }) => sum + subscriptions, 0)).toBe(2);
    // What was acknowledged stays so, whatever the tokens of the streams are now; what came after the seal is gone with its bytes.
    expect({ hooked: kept(await this.hooked.shown()), pulled: kept(await this.pulled.shown()) }).toEqual(before);
    for (const sub of [this.ended, this.late]) expect((await sub.send('GET')).status).toBe(404);
    const fresh = await jwksOf(this.node.http);
    expect(fresh.some(({ kid }) => keys.some((old) => old.kid === kid))).toBe(false);
    expect((await this.hooked.tell('callback', { token: told.callback_token, wake_id: told.wake_id, generation: told.generation, done: true })).status).toBe(401);
    await this.append(12, this.hooked);
    const next = this.#last.get(this.hooked.id)!;
    expect(next.body.generation).toBeGreaterThan(told.generation);
    expect(next.body.streams.filter(({ has_pending: pending }) => pending).map(({ path }) => path)).toEqual([`${this.name}/12`]);
    expect(checkSignature(next, fresh).valid).toBe(true);
    // An id that the log never knew counts on, too.
    await this.late.webhook(this.receiver, `${this.name}/*`);
    await this.append(22, this.late, this.hooked);
    expect(this.#last.get('late')!.body.generation).toBeGreaterThan(lateTold.generation);
    expect((await this.late.delete()).status).toBe(204);
    await this.node.seal();
    const verify = await firn(['verify', '--deep'], settingsFor(this.node, this.#settings));
    expect([verify.code, verify.code === 0 ? '' : verify.stdout]).toEqual([0, '']);
    expect(JSON.parse(verify.stdout)).toMatchObject({ subscriptions: 2 });
    this.losses++;
  }
}
