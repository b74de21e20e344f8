/** `kill -9` at chosen moments: in large bodies, snapshots and restores, and with the side file gone (R011, R103, R101). */
import { spawn } from 'node:child_process';
import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { filesBelow } from '../support/damage.js';
import { cleanEnv, FirnNode } from '../support/node.js';
import { FIRN, PROJECT } from '../support/paths.js';
import { seeded } from '../support/random.js';
import { JSON_TYPE, OCTETS, sleep, Stream } from '../support/stream.js';

let node: FirnNode;
beforeEach(() => {
  node = new FirnNode({ FIRN_SEAL_AGE_MS: '300' });
});
afterEach(() => node.dispose());

/** Runs the work and kills the node in its midst; what was answered until then. */
async function killedAfter<T>(ms: number, work: Promise<T>): Promise<T | null> {
  const outcome = work.catch(() => null);
  await sleep(ms);
  await node.kill();
  return outcome;
}

it('R011 R101 a large message is there whole or not at all', { timeout: 120_000 }, async () => {
  const random = seeded('large message');
  await node.start();
  const s = new Stream(node.http, '/edge/large');
  await s.create({ type: JSON_TYPE });
  const text = JSON.stringify('large '.repeat(1_400_000));
  let stored = 0;
  for (let round = 0; round < 6; round += 1) {
    const answer = await killedAfter(random.int(5, 400), s.append(text));
    await node.start();
    const tail = Number(await s.tail());
    const whole = tail / (text.length + 1);
    expect(Number.isInteger(whole)).toBe(true);
    expect(whole === stored || whole === stored + 1).toBe(true);
    if (answer?.status === 204) expect(whole).toBe(stored + 1);
    stored = whole;
    if (stored > 0) expect((await s.read({ offset: String((stored - 1) * (text.length + 1)), max_bytes: 8_388_608 })).body.subarray(0, 7).toString()).toBe('"large ');
    expect((await s.append('1', { type: OCTETS })).status).toBe(409);
  }
});

it('R103 a large snapshot is visible whole or not at all; what is left of it goes', { timeout: 120_000 }, async () => {
  const random = seeded('large snapshot');
  await node.start();
  const s = new Stream(node.http, '/edge/snapshot');
  await s.create({ type: OCTETS, body: '0123456789' });
  let visible: { offset: number; digest: string } | null = null;
  for (let round = 0; round < 8; round += 1) {
    const offset = round + 1;
    const body = Buffer.alloc(random.int(2_000_000, 12_000_000), `snapshot ${round} `);
    const answer = await killedAfter(random.int(5, 250), s.publish(String(offset), body));
    await node.start();
    const head = await s.head();
    const seen = head.header('stream-snapshot-offset');
    if (answer?.status === 204) expect(Number(seen)).toBe(offset);
    if (seen === undefined) expect(visible).toBe(null);
    else {
      expect([visible?.offset, offset]).toContain(Number(seen));
      const read = await s.sub('GET', `snapshot/${seen}`);
      expect([read.status, read.header('stream-snapshot-digest')]).toEqual([200, head.header('stream-snapshot-digest')]);
      if (Number(seen) === offset) expect(read.body.equals(body)).toBe(true);
      else expect(head.header('stream-snapshot-digest')).toBe(visible?.digest);
      visible = { offset: Number(seen), digest: head.need('stream-snapshot-digest') };
    }
  }
  await node.restart();
  const staged = filesBelow(join(node.dataDir, 'staging'));
  expect(staged.length).toBeLessThanOrEqual(1);
});

describe('side file', () => {
  for (const [how, damage] of [
    ['missing', (file: string) => rmSync(file)],
    ['torn', (file: string) => truncateSync(file, 3)],
  ] as const) {
    it(`when ${how} the node reports it and comes up with every acknowledged byte`, async () => {
      await node.start();
      const s = new Stream(node.http, '/edge/side');
      await s.create({ type: OCTETS });
      for (let i = 0; i < 50; i += 1) expect((await s.append(`${i};`)).status).toBe(204);
      await node.kill();
      damage(join(node.dataDir, 'acked'));
      await node.start();
      expect((await s.read()).text).toBe(Array.from({ length: 50 }, (_, i) => `${i};`).join(''));
      expect(node.output).toMatch(/acked/);
      expect((await s.append('more')).status).toBe(204);
    });
  }
});

it('a restore that is killed can be done again', { timeout: 120_000 }, async () => {
  await node.start({ FIRN_SEAL_AGE_MS: '3600000' });
  const streams = Array.from({ length: 300 }, (_, i) => new Stream(node.http, `/edge/r${i}`));
  await Promise.all(streams.map((stream, i) => stream.create({ type: OCTETS, body: `body ${i}` })));
  await node.seal();
  await node.stop();
  for (const wait of [150, 300, 450]) {
    for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
    const child = spawn(process.execPath, [FIRN, 'restore'], { cwd: PROJECT, env: cleanEnv(settingsFor(node)), stdio: 'ignore' });
    const gone = new Promise((resolve) => child.once('exit', resolve));
    await sleep(wait);
    child.kill('SIGKILL');
    await gone;
  }
  for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
  const run = await firn(['restore'], settingsFor(node));
  expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
  await node.start();
  await Promise.all(streams.map(async (stream, i) => expect((await stream.read()).text).toBe(`body ${i}`)));
});
