import { describe, expect, it } from 'vitest';
import { COUNTER_LIMIT } from '../../../shared/protocol/incarnation.js';
import { sessionKey } from '../../../shared/storage/keys.js';
import { StoreUnavailable } from '../../../shared/storage/object-store.js';
import { encodeSessionDocument, STORE_FORMAT } from '../../../shared/storage/store-json.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { HotStoreError } from '../hot/errors.js';
import { Killed, type Rig, until, useRig } from './cold-rig.contract.js';
import { readIdentity, tokenReserveRow } from './directory.js';

const place = useRig();
const { start } = place;

/** Ranges of a stream as the log names them, in order. */
async function ranges(of: Rig, key: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { record } of readLog({ store: of.objects, partition: 0, after: { session: 0, seq: 0 }, until: of.cold.session(0) as number, live: true })) {
    for (const delta of record.deltas) if (delta.kind === 'seal' && delta.key === key) for (const { start: from, end } of delta.refs) found.push(`${from}-${end}`);
  }
  return found;
}

/** All tokens of the session are used up: the next one needs the next session. */
async function useUpTokens(of: Rig): Promise<void> {
  await of.core.stageOps([tokenReserveRow(0, { session: of.cold.session(0) as number, reserved: COUNTER_LIMIT })]);
  const identity = await readIdentity(of.hot);
  await of.cold.partitions[0]?.load(identity?.tokenKey as Buffer);
}

/** A gate that work waits at, and its opening. */
function gate(): { readonly reached: Promise<void>; readonly wait: () => Promise<void>; readonly open: () => void } {
  let reach: () => void = () => undefined;
  let open: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { reached, wait: () => (reach(), opened), open: () => open() };
}

describe('a log that could not be read to its end', () => {
  it('is read again before anything is sealed: no record is lost, no range is sealed twice (I6, I10)', async () => {
    const killed = await start({}, { steps: (name) => {
      if (name === 'log:put') throw new Killed(name);
    } });
    await killed.create('demo/a');
    await killed.append('demo/a', Buffer.alloc(300_000, 1));
    void killed.seal('', 3_000).catch(() => undefined);
    await killed.died;
    await killed.kill();
    const node = await start({ sealAgeMs: 50 }, { down: true });
    await node.append('demo/a', Buffer.alloc(100_000, 2));
    let hiccups = 0;
    node.objects.before = (call, key) => {
      if (call !== 'get' || !key.includes('/log/') || node.cold.partitions[0]?.session.state !== 'active' || hiccups > 0) return;
      hiccups++;
      throw new StoreUnavailable('one GET failed');
    };
    node.objects.down = false;
    await until(async () => (await node.head('demo/a')).sealed === 400_000, 20_000);
    expect(hiccups).toBe(1);
    expect(await ranges(node, 'demo/a')).toEqual(['0-262144', '262144-300000', '300000-400000']);
    expect(node.cold.reasons()).toEqual([]);
    expect(node.objects.puts.filter((key) => key.includes('-000000-'))).toEqual([]);
    expect(await node.cold.checkpointNow(AbortSignal.timeout(5_000))).toMatchObject([{ streams: 1 }]);
  });

  it('seals nothing while it is being read, whatever the timers say', async () => {
    const killed = await start({}, { steps: (name) => {
      if (name === 'log:put') throw new Killed(name);
    } });
    await killed.create('demo/a');
    await killed.append('demo/a', 'first');
    void killed.seal('', 3_000).catch(() => undefined);
    await killed.died;
    await killed.kill();
    const node = await start({ sealAgeMs: 20 }, { down: true });
    await node.append('demo/a', 'second');
    const reading = gate();
    node.objects.before = async (call, key) => {
      if (call === 'get' && key.includes('/log/') && node.cold.partitions[0]?.session.state === 'active') await reading.wait();
    };
    node.objects.down = false;
    await reading.reached;
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(node.objects.puts.filter((key) => key.includes('/segments/'))).toEqual([]);
    expect(node.cold.reasons().join()).toContain('not read to the end');
    reading.open();
    await until(async () => (await node.head('demo/a')).sealed === 11);
    expect(await ranges(node, 'demo/a')).toEqual(['0-5', '5-11']);
  });
});

describe('the next session of a running node', () => {
  it('is claimed later when the store fails at first; writes and seals go on (R030)', async () => {
    const node = await start({ sealAgeMs: 50 });
    await node.create('demo/a');
    await useUpTokens(node);
    node.objects.before = (call, key) => {
      if (call === 'put' && key.includes('/sessions/')) throw new StoreUnavailable('one PUT failed');
    };
    await expect(node.create('demo/b')).rejects.toMatchObject({ code: 'NO_LEADER', status: 503 });
    await node.append('demo/a', 'written without a session');
    node.objects.before = () => undefined;
    await until(async () => (await node.head('demo/a')).sealed === 25);
    await node.create('demo/b');
    expect(node.cold.session(0)).toBeGreaterThan(1);
    expect(node.cold.reasons()).toEqual([]);
  });

  it('is another node\'s: writes are refused at once (I10)', async () => {
    const node = await start();
    await node.create('demo/a');
    await useUpTokens(node);
    const theirs = encodeSessionDocument({ format: STORE_FORMAT, partition: 0, session: 2, node: 'ff'.repeat(16), claimedAtMs: 1 });
    expect(await node.objects.inner.putOnce(sessionKey(0, 2), theirs)).toBe('created');
    await expect(node.create('demo/b')).rejects.toMatchObject({ code: 'APPLY_STOPPED' });
    await expect(node.append('demo/a', 'x')).rejects.toMatchObject({ code: 'APPLY_STOPPED' });
    expect(node.cold.partitions[0]?.session.state).toBe('fenced');
  });

  it('takes no record of a plan that the session before it made; its range is sealed once (I6)', async () => {
    const late = gate();
    let held = 0;
    const node = await start({}, { steps: (name) => (name === 'seal:checked' && held++ === 0 ? late.wait() : undefined) });
    await node.create('demo/a');
    await node.append('demo/a', 'sealed once');
    await useUpTokens(node);
    const sealing = node.seal();
    await late.reached;
    await node.create('demo/b');
    expect(node.cold.session(0)).toBe(2);
    await until(async () => (await node.head('demo/a')).sealed === 11);
    late.open();
    await sealing;
    await node.append('demo/a', ', then more');
    await node.seal();
    expect(await ranges(node, 'demo/a')).toEqual(['0-11', '11-22']);
    expect(await node.cold.checkpointNow(AbortSignal.timeout(5_000))).toMatchObject([{ streams: 2 }]);
  });
});

describe('a log record that cannot be applied at once', () => {
  it('halts sealing only until it can: nothing has to be restarted', async () => {
    let failures = 0;
    const node = await start({ sealAgeMs: 50 }, { steps: (name) => {
      if (name !== 'log:put' || failures > 0) return;
      failures++;
      const using = node.core.using.bind(node.core);
      node.core.using = (() => {
        node.core.using = using;
        return Promise.reject(new HotStoreError('IO error: a read failed once'));
      }) as typeof node.core.using;
    } });
    await node.create('demo/a');
    await node.append('demo/a', 'first ');
    await until(() => node.cold.partitions[0]?.halted !== null);
    expect(node.cold.reasons().join()).toContain('cannot be applied');
    await node.append('demo/a', 'second');
    await until(async () => (await node.head('demo/a')).sealed === 12);
    expect(node.cold.reasons()).toEqual([]);
    expect(failures).toBe(1);
    expect(await ranges(node, 'demo/a')).toEqual(['0-6', '6-12']);
    expect(node.metrics.damage.hot.value).toBe(0);
    const names = node.objects.puts.filter((key) => key.includes('/segments/'));
    expect(new Set(names).size).toBe(names.length);
    expect((await node.read('demo/a')).toString()).toBe('first second');
  });
});
