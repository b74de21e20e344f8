import { randomBytes } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { appliedRow, dataRow, doomedRow } from '../hot/keys/index.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { Applier } from './apply.js';
import { until, useCounts, useRig } from './cold-rig.contract.js';
import { SESSION_CHECK_MS } from './limits.js';
import { noSteps } from './steps.js';

const place = useRig();
const { start } = place;

describe('sealing through a real log', () => {
  it('moves the frontier, evicts, and reads the same bytes (I1, I3)', async () => {
    const node = await start({ hotKeepMs: 0 });
    await node.create('demo/a');
    let expected = '';
    for (let n = 0; n < 50; n++) {
      const line = `record ${n} of a\n`;
      expected += line;
      await node.append('demo/a', line, { id: 'p', epoch: 0, seq: n });
    }
    expect(await node.seal()).toEqual({ segments: 1, bytes: expected.length, streams: 1 });
    const record = await node.head('demo/a');
    expect(record).toMatchObject({ sealed: expected.length, hotStart: expected.length, loggedChange: record.change });
    expect((await node.read('demo/a')).toString()).toBe(expected);
    await node.append('demo/a', 'more\n');
    expect((await node.read('demo/a', 100)).toString()).toBe(`${expected}more\n`);
    expect(await node.seal()).toEqual({ segments: 1, bytes: 5, streams: 1 });
    expect(await node.seal()).toEqual({ segments: 0, bytes: 0, streams: 0 });
    expect((await node.read('demo/a')).toString()).toBe(`${expected}more\n`);
  });

  it('packs many small streams into one object (cost follows bytes)', async () => {
    const node = await start();
    await Promise.all(Array.from({ length: 300 }, async (_, n) => {
      await node.create(`many/s${n}`);
      await node.append(`many/s${n}`, `stream ${n} `.repeat(20));
    }));
    node.objects.puts = [];
    expect(await node.seal()).toMatchObject({ segments: 1, streams: 300 });
    // One object and one log record.
    expect(node.objects.puts).toHaveLength(2);
    for (let n = 0; n < 300; n += 37) expect((await node.read(`many/s${n}`)).toString()).toBe(`stream ${n} `.repeat(20));
  });

  it('takes a long stream over several objects of one plan, and large appends over several blocks', async () => {
    const node = await start({ hotKeepMs: 0 });
    await node.create('long/x');
    const bytes = randomBytes(40_000_000);
    for (let at = 0; at < bytes.length; at += 5_000_000) await node.append('long/x', bytes.subarray(at, at + 5_000_000));
    expect(await node.seal()).toMatchObject({ segments: 2, bytes: bytes.length, streams: 1 });
    expect((await node.head('long/x')).hotStart).toBe(bytes.length);
    expect((await node.read('long/x')).equals(bytes)).toBe(true);
  });

  it('seals only what lies under the prefix', async () => {
    const node = await start();
    for (const key of ['one/a', 'two/b']) {
      await node.create(key);
      await node.append(key, key);
    }
    expect(await node.seal('one/')).toMatchObject({ streams: 1, bytes: 5 });
    expect((await node.head('one/a')).sealed).toBe(5);
    expect((await node.head('two/b')).sealed).toBe(0);
  });

  it('is due by bytes, and by age', async () => {
    const bySize = await start({ sealBytes: 1_000 });
    await bySize.create('demo/a');
    await bySize.append('demo/a', 'x'.repeat(1_500));
    await until(async () => (await bySize.head('demo/a')).sealed === 1_500);
    place.rig = await bySize.reopen({ sealAgeMs: 20 });
    await place.rig.append('demo/a', 'y');
    await until(async () => (await place.rig.head('demo/a'))?.sealed === 1_501);
    // Closure has no bytes, and still reaches the log.
    await place.rig.log.append({ key: 'demo/a' as StreamKey, dialect: 'bucketed', precondition: null, contentType: null, producer: null, seq: null, close: true, body: Buffer.alloc(0) });
    await until(async () => {
      const record = await place.rig.head('demo/a');
      return record?.closed === true && record.change === record.loggedChange;
    });
  });

  it('keeps under writes: state in the log is exactly the state at the sealed end (I2, I3)', async () => {
    const node = await start({ sealAgeMs: 5, hotKeepMs: 0 });
    await Promise.all(['w/a', 'w/b', 'w/c'].map(async (key) => {
      await node.create(key);
      for (let seq = 0; seq < 300; seq++) await node.append(key, `${seq};`, { id: 'p', epoch: 0, seq });
    }));
    let checked = 0;
    for await (const { record } of readLog({ store: node.objects, partition: 0, after: { session: 0, seq: 0 }, until: 1, live: true })) {
      for (const delta of record.deltas) {
        if (delta.kind !== 'seal') continue;
        const [producer] = delta.producers;
        if (producer === undefined) continue;
        expect(producer.lastEnd).toBe(delta.state.tail);
        expect(delta.state.sealed).toBe(delta.state.tail);
        checked++;
      }
    }
    expect(checked).toBeGreaterThan(5);
    await node.seal();
    const expected = Array.from({ length: 300 }, (_, seq) => `${seq};`).join('');
    for (const key of ['w/a', 'w/b', 'w/c']) expect((await node.read(key)).toString()).toBe(expected);
  });
});

describe('the store away', () => {
  it('nothing unsealed is evicted; everything seals by itself when it is back (R016, R028, R030)', async () => {
    const node = await start({ sealAgeMs: 20, hotKeepMs: 0, hotBytesMax: 1 });
    node.objects.down = true;
    await node.create('demo/a');
    for (let n = 0; n < 30; n++) await node.append('demo/a', `${n}\n`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const record = await node.head('demo/a');
    expect(record).toMatchObject({ sealed: 0, hotStart: 0 });
    // What a plan holds counts too: an alarm on the age must not be blind for as long as the plan is tried.
    expect(node.cold.unsealedSinceMs(0)).toBeGreaterThan(0);
    expect(node.cold.reasons().join()).toMatch(/partition 0: a seal is at try \d+, the one before failed: /);
    const expected = Array.from({ length: 30 }, (_, n) => `${n}\n`).join('');
    expect((await node.read('demo/a')).toString()).toBe(expected);
    node.objects.down = false;
    await until(async () => (await node.head('demo/a')).hotStart === expected.length, 30_000);
    expect((await node.read('demo/a')).toString()).toBe(expected);
    await until(async () => node.cold.unsealedSinceMs(0) === null);
    expect(node.cold.reasons()).toEqual([]);
  });

  it('one failed upload does not let a later one jump the frontier (R016)', async () => {
    const node = await start();
    await node.create('demo/a');
    await node.append('demo/a', 'first ');
    let failed = 0;
    node.objects.before = (call, key) => {
      if (call === 'put' && key.includes('/segments/') && failed < 2) {
        failed++;
        throw new Error('503 for this object');
      }
    };
    const sealed = node.seal();
    await node.append('demo/a', 'second');
    await sealed;
    await node.seal();
    expect(failed).toBe(2);
    expect((await node.head('demo/a')).sealed).toBe(12);
    expect((await node.read('demo/a')).toString()).toBe('first second');
  });
});

describe('plans that no longer hold (I6, I7)', () => {
  it('a stream deleted and recreated while its plan is under way keeps its own bytes (R031)', async () => {
    let hold: (() => void) | null = null;
    const held = new Promise<void>((resolve) => {
      hold = resolve;
    });
    let reached: () => void = () => undefined;
    const arrived = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const node = await start({ hotKeepMs: 0 }, { steps: async (name) => {
      if (name !== 'seal:uploaded') return;
      reached();
      await held;
    } });
    await node.create('demo/a');
    await node.append('demo/a', 'the old life');
    await node.create('demo/b');
    await node.append('demo/b', 'a bystander');
    const sealing = node.seal();
    await arrived;
    await node.delete('demo/a');
    await node.create('demo/a');
    await node.append('demo/a', 'the new life');
    (hold as (() => void) | null)?.();
    await sealing;
    await node.seal();
    expect((await node.read('demo/a')).toString()).toBe('the new life');
    expect((await node.read('demo/b')).toString()).toBe('a bystander');
    await until(async () => {
      for await (const page of node.hot.scan(doomedRow.range())) if (page.length > 0) return false;
      return true;
    });
    const { rows, counted } = await useCounts(node);
    expect(rows).toEqual(counted);
  });

  it('a job that runs twice changes nothing the second time (R125)', async () => {
    const node = await start();
    await node.create('demo/a');
    await node.append('demo/a', 'once');
    const jobs: string[] = [];
    const commit = node.cold.port.commitSeal.bind(node.cold.port);
    node.cold.port.commitSeal = async (jobId, objects, signal) => {
      jobs.push(jobId);
      await commit(jobId, objects, signal);
    };
    await node.seal();
    expect(jobs).toHaveLength(1);
    const puts = node.objects.puts.length;
    await node.cold.runner.enqueue({ kind: 'seal', id: jobs[0] as string });
    await until(async () => (await node.cold.runner.stats()).seal.done === 2);
    expect(node.objects.puts).toHaveLength(puts);
    await expect(commit(jobs[0] as string, [], AbortSignal.timeout(1_000))).rejects.toThrow(/not open/);
  });

  it('applying a record again changes nothing, counts included', async () => {
    const node = await start({ hotKeepMs: 0 });
    for (const key of ['demo/a', 'demo/b']) {
      await node.create(key);
      await node.append(key, `${key} `.repeat(50));
    }
    await node.snapshot('demo/a', 5, Buffer.from('snapshot'));
    await node.seal();
    const before = [await node.head('demo/a'), await node.head('demo/b')];
    const counts = await useCounts(node);
    const applier = new Applier({ core: node.core, partition: 0, now: Date.now, hotKeepMs: 0, steps: noSteps, stop: AbortSignal.timeout(10_000), told: { unneeded: (key, error) => expect.fail(`${key}: ${error.message}`), behind: (key, error) => expect.fail(`${key}: ${error.message}`) } });
    for await (const { record } of readLog({ store: node.objects, partition: 0, after: { session: 0, seq: 0 }, until: 1, live: true })) await applier.apply(record);
    expect([await node.head('demo/a'), await node.head('demo/b')]).toEqual(before);
    expect(await useCounts(node)).toEqual(counts);
    expect(appliedRow.decode((await node.hot.get(appliedRow.key(0))) as Buffer)).toMatchObject({ session: 1, slice: 0 });
  });
});

describe('damage is loud, and only where it is (I9)', () => {
  async function objectsOf(kind: string): Promise<string[]> {
    return (await readdir(join(place.dir, 'objects', 'partitions', '0000', kind))).map((name) => join(place.dir, 'objects', 'partitions', '0000', kind, name));
  }

  it('a flipped byte or a missing object fails the read with COLD_STORE_FAILED, and the next read of other data works', async () => {
    const node = await start({ hotKeepMs: 0 });
    await node.create('demo/a');
    await node.append('demo/a', 'a'.repeat(5_000));
    await node.seal();
    await node.create('demo/b');
    await node.append('demo/b', 'b'.repeat(5_000));
    await node.seal();
    const [first, second] = (await objectsOf('segments')).sort();
    const bytes = await readFile(first as string);
    bytes[20] = (bytes[20] as number) ^ 1;
    await writeFile(first as string, bytes);
    await expect(node.read('demo/a')).rejects.toMatchObject({ code: 'COLD_STORE_FAILED', status: 502 });
    expect(node.metrics.damage.object.value).toBe(1);
    expect((await node.read('demo/b')).toString()).toBe('b'.repeat(5_000));
    bytes[20] = (bytes[20] as number) ^ 1;
    await writeFile(first as string, bytes);
    // Errors are not cached.
    expect((await node.read('demo/a')).toString()).toBe('a'.repeat(5_000));
    place.rig = await node.reopen();
    await rm(second as string);
    await expect(place.rig.read('demo/b')).rejects.toMatchObject({ code: 'COLD_STORE_FAILED' });
    expect((await place.rig.read('demo/a')).toString()).toBe('a'.repeat(5_000));
  });

  it('an object altered between upload and commit is never published (I3)', async () => {
    let tampered = 0;
    const node = await start({}, { steps: async (name) => {
      if (name !== 'seal:uploaded' || tampered > 0) return;
      tampered++;
      const [path] = await objectsOf('segments');
      const bytes = await readFile(path as string);
      bytes[30] = (bytes[30] as number) ^ 4;
      await writeFile(path as string, bytes);
    } });
    await node.create('demo/a');
    await node.append('demo/a', 'payload '.repeat(100));
    await node.seal();
    expect(tampered).toBe(1);
    const refs = await node.refs(slotOf('demo/a' as StreamKey), (await node.head('demo/a')).incarnation, 0 as Offset, 10);
    expect(refs.map((ref) => ref.object.attempt)).toEqual([2]);
    expect((await node.read('demo/a')).toString()).toBe('payload '.repeat(100));
  });

  it('a damaged hot value parks its stream; the others are sealed on time (R123)', async () => {
    const node = await start();
    await node.create('demo/bad');
    await node.append('demo/bad', 'x'.repeat(1_000));
    await node.create('demo/good');
    await node.append('demo/good', 'y'.repeat(1_000));
    const slot = slotOf('demo/bad' as StreamKey);
    const { incarnation } = await node.head('demo/bad');
    const key = dataRow.key(slot, incarnation, 1_000 as Offset);
    const value = Buffer.from((await node.core.store.get(key)) as Buffer);
    value[value.length - 1] = 0;
    await node.core.stageOps([{ type: 'put', key, value }]);
    await expect(node.seal('', 1_500)).rejects.toThrow();
    expect((await node.head('demo/good')).sealed).toBe(1_000);
    expect((await node.head('demo/bad')).sealed).toBe(0);
    expect(node.cold.reasons().join()).toContain('cannot be sealed');
    expect(node.metrics.damage.hot.value).toBeGreaterThan(0);
    expect(await node.cold.jobs()).toMatchObject({ parked: [{ incarnation: String(incarnation) }] });
  });
});

describe('regular work', () => {
  it('is not begun again while it lasts: looks at the sessions do not pile up before a slow store', async () => {
    const node = await start();
    let looks = 0;
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    node.objects.before = (call, key) => {
      if (call !== 'size' || !key.includes('session')) return undefined;
      looks += 1;
      return answered;
    };
    await new Promise((resolve) => setTimeout(resolve, 2.5 * SESSION_CHECK_MS));
    expect(looks).toBe(1);
    answer();
    await until(() => looks === 2);
  });
});
