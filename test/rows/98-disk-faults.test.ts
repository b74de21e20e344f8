/**
 * Rows that only a fault of the disk below a node can show (R001, R008). The fault is real: from outside the process is forbidden to write files beyond a size, so that the log of
 * its store cannot grow, and a write may end in the midst of a record.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import type { Answer } from '../support/http.js';
import { ownNode } from '../support/node.js';
import { BASE, BUCKETED, OCTETS, sleep, Stream, TEXT, uniqueId } from '../support/stream.js';

const WRITERS = 4;
const BODY_BYTES = 100_000;
/** Less than the log of a store soon has under these writers. */
const FILE_BYTES_MAX = 1_500_000;

const PRLIMIT = spawnSync('prlimit', ['--version']).status === 0;
if (!PRLIMIT) process.stdout.write('no prlimit on this machine: faults of the disk are not tried\n');

const node = ownNode({ FIRN_LOG: 'error' });

function limitFiles(bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(node.pid), `--fsize=${bytes}:`]);
}

/** A write of a marked body, and what came of it. */
interface Write {
  readonly marker: string;
  readonly key: readonly [id: string, epoch: number, seq: number] | null;
  readonly answer: Answer;
}

const bodyOf = (marker: string): string => marker.padEnd(BODY_BYTES, '.');

/** Writes marked bodies until told to stop. A keyed writer stops at the first write whose outcome it does not know, as it has to settle that one first. */
async function write(s: Stream, id: string, keyed: boolean, running: () => boolean): Promise<Write[]> {
  const writes: Write[] = [];
  for (let n = 0, seq = 0; running(); n += 1) {
    const marker = `<${id}.${n}>`;
    const key = keyed ? ([id, 0, seq] as const) : null;
    const answer = await s.append(bodyOf(marker), key === null ? {} : { producer: key });
    writes.push({ marker, key, answer });
    if (answer.status < 300) seq += 1;
    else if (keyed && answer.code === 'OUTCOME_UNKNOWN') break;
    else await sleep(20);
  }
  return writes;
}

const outcomeOf = ({ answer }: Write): string => (answer.status < 300 ? 'applied' : answer.code);

it.runIf(PRLIMIT)('WO-02 WO-03 WO-07 R001 R008 OUTCOME_UNKNOWN alone leaves a write open, its key settles it, and reads and live reads go on', { timeout: 120_000 }, async () => {
  await node.start();
  const streams = [BUCKETED, BASE].map((on) => new Stream(node.http, on.path(uniqueId())));
  for (const s of streams) await s.create({ type: OCTETS });
  const live = new Stream(node.http, BUCKETED.path(uniqueId()));
  await live.create({ type: TEXT, body: 'before' });
  const sse = await live.sse('-1');
  await sse.through();
  let running = true;
  const writing = streams.map((s) => Promise.all(Array.from({ length: WRITERS }, (_, w) => write(s, `w${w}`, w % 2 === 1, () => running))));
  await sleep(200);
  limitFiles(FILE_BYTES_MAX);
  const heads: number[] = [];
  const answered = (): number => heads.filter((status) => status === 200).length;
  // Long enough for some answers, however busy the machine is.
  for (const startedAt = Date.now(); Date.now() - startedAt < (answered() > 3 ? 2_000 : 20_000); ) {
    const head = await live.head();
    heads.push(head.status);
    if (head.status === 200) expect(Number(head.next)).toBe(6);
    // A publish of a body that goes to a file of its own.
    const published = await live.publish('3', Buffer.alloc(2 * FILE_BYTES_MAX));
    expect([500, 503]).toContain(published.status);
    await sleep(20);
  }
  limitFiles('unlimited');
  // It opens its store again by itself.
  const deadline = Date.now() + 30_000;
  while ((await live.append(' after', { type: TEXT })).status !== 204 && Date.now() < deadline) await sleep(100);
  await sleep(300);
  running = false;
  const seen = await Promise.all(writing.map(async (lists) => (await lists).flat()));
  // While its store is opened again a node answers nothing but 503.
  for (const status of heads) expect([200, 503]).toContain(status);
  expect(answered()).toBeGreaterThan(3);
  expect((await live.read()).text).toBe('before after');
  expect((await live.head()).header('stream-snapshot-offset')).toBeUndefined();
  const woken = await sse.through((control) => Number(control.streamNextOffset) === 12);
  expect(woken.filter((event) => event.event === 'data').map((event) => event.data).join('')).toBe(' after');
  sse.close();
  expect((await live.publish('3', Buffer.alloc(2 * FILE_BYTES_MAX))).status).toBe(204);
  const counts = new Map<string, number>();
  for (const one of seen.flat()) counts.set(outcomeOf(one), (counts.get(outcomeOf(one)) ?? 0) + 1);
  process.stdout.write(`disk fault: ${[...counts].map(([outcome, count]) => `${outcome}: ${count}`).join(', ')}\n`);
  for (const outcome of ['applied', 'OUTCOME_UNKNOWN', 'GROUP_RESTARTING']) expect([outcome, (counts.get(outcome) ?? 0) > 0]).toEqual([outcome, true]);

  for (const [i, s] of streams.entries()) {
    const stored = (await s.all()).toString();
    const times = (marker: string): number => stored.split(bodyOf(marker)).length - 1;
    for (const one of seen[i]!) {
      const outcome = outcomeOf(one);
      if (outcome !== 'applied') expect([one.answer.status, Number(one.answer.need('retry-after')) >= 1]).toEqual([503, true]);
      const allowed = outcome === 'applied' ? [1] : outcome === 'OUTCOME_UNKNOWN' ? [0, 1] : [0];
      expect([one.marker, outcome, allowed]).toEqual([one.marker, outcome, expect.arrayContaining([times(one.marker)])]);
    }
    // Nothing but whole writes.
    expect(stored.length % BODY_BYTES).toBe(0);
    for (const one of seen[i]!.filter((other) => other.key !== null && outcomeOf(other) === 'OUTCOME_UNKNOWN')) {
      const settled = await s.append(bodyOf(one.marker), { producer: one.key! });
      expect([one.marker, settled.status]).toEqual([one.marker, times(one.marker) === 1 ? 204 : 200]);
      const again = await s.append(bodyOf(one.marker), { producer: one.key! });
      expect(again.status).toBe(204);
      expect((await s.all()).toString().split(bodyOf(one.marker)).length - 1).toBe(1);
    }
  }
  await node.kill();
  await node.start();
  expect((await live.read()).text).toBe('before after');
});
