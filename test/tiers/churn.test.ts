/**
 * Streams that live, die and come back at the same URL while seals and evictions run all the time (I7, R024, R031): each reads as its model says after
 * every step, after a crash, and after a restore from the objects alone.
 *
 * `FIRN_SEED` replays a run, `FIRN_CHURN_MS` makes it longer.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import type { Random } from '../support/random.js';
import { JSON_TYPE, OCTETS, Stream, TEXT } from '../support/stream.js';
import { compareAll, Modelled } from './model.js';

const RUN_MS = Number(process.env['FIRN_CHURN_MS'] ?? 12_000);

let node: FirnNode;
afterEach(() => node.dispose());

/** One URL and who lives there now. */
class Place {
  tenant: Modelled | null = null;
  readonly incarnations = new Set<string>();

  constructor(
    readonly path: string,
    readonly type: string,
  ) {}

  async step(random: Random): Promise<void> {
    const { tenant } = this;
    if (tenant === null) {
      this.tenant = new Modelled(new Stream(node.http, this.path), this.type);
      await this.tenant.create();
      const token = await this.tenant.stream.token();
      expect(this.incarnations.has(token)).toBe(false);
      this.incarnations.add(token);
      return;
    }
    const dice = random.next();
    if (dice < 0.04) {
      expect((await tenant.stream.delete()).status).toBe(204);
      expect((await tenant.stream.head()).status).toBe(404);
      this.tenant = null;
    } else if (dice < 0.12 && (tenant.snapshot?.offset ?? -1) < tenant.content.length) await tenant.publish(random, random.chance(0.1) ? 1_100_000 : 200);
    else if (dice < 0.2) await tenant.retain(random);
    else if (dice < 0.22 && !tenant.closed) await tenant.close();
    else if (dice < 0.3) await tenant.compare(random);
    else if (!tenant.closed) {
      const before = tenant.content.length;
      await tenant.append(random, random.chance(0.05) ? 300_000 : 2_000);
      const read = await tenant.stream.read({ offset: String(before) });
      expect([read.status, read.body.equals(tenant.content.subarray(before))]).toEqual([200, true]);
    } else this.tenant = await this.renew(tenant);
  }

  private async renew(tenant: Modelled): Promise<null> {
    expect((await tenant.stream.delete()).status).toBe(204);
    return null;
  }
}

it(`I7 R024 R031 ${RUN_MS / 1_000} s of lives and deaths under seals and evictions`, { timeout: RUN_MS + 180_000 }, async () => {
  const random = seeded('churn');
  node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '40', FIRN_SEAL_BYTES: '20000', FIRN_PARTITIONS: String(random.pick([1, 4])), FIRN_LOG: 'warn' });
  await node.start();
  const places = Array.from({ length: 9 }, (_, i) => new Place(`/churn/place-${i}`, [JSON_TYPE, TEXT, OCTETS][i % 3]!));
  const deadline = Date.now() + RUN_MS;
  let steps = 0;
  await Promise.all(
    places.map(async (place) => {
      const own = random.fork();
      for (; Date.now() < deadline; steps += 1) await place.step(own);
    }),
  );
  const living = (): Modelled[] => places.flatMap((place) => (place.tenant === null ? [] : [place.tenant]));
  process.stdout.write(`churn: ${steps} steps, ${places.reduce((sum, place) => sum + place.incarnations.size, 0)} lives, ${living().length} left\n`);
  expect(new Set(places.flatMap((place) => [...place.incarnations])).size).toBe(places.reduce((sum, place) => sum + place.incarnations.size, 0));
  await node.kill();
  await node.start();
  await compareAll(living(), random);
  await node.seal();
  await compareAll(living(), random);
  const verified = await firn(['verify', '--deep'], settingsFor(node));
  expect([verified.code, verified.code === 0 ? '' : verified.stdout + verified.stderr]).toEqual([0, '']);
  await node.stop();
  for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
  const restored = await firn(['restore'], settingsFor(node));
  expect([restored.code, restored.code === 0 ? '' : restored.stderr]).toEqual([0, '']);
  await node.start();
  await compareAll(living(), random);
  for (const place of places) if (place.tenant === null) expect((await node.http.send('HEAD', place.path)).status).toBe(404);
  for (const message of node.output.split('\n')) expect(message).not.toMatch(/"event":"damage"/);
});
