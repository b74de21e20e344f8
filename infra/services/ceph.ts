/**
 * Ceph's object gateway (RGW) on loopback: a real S3 server where no container engine runs.
 *
 * Owns: a cluster of one monitor, one memory store and one gateway, in a folder and on ports of its own, so that several run side by side. Promises: it is up in a few seconds or
 * `startCeph` throws; `stop` ends every process and removes the folder.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../lib/ports.js';
import { ensurePrograms } from './debian.js';
import { answers, run, ServerProcess } from './processes.js';
import type { S3Server, S3Traits } from './s3-server.js';

const PACKAGES = ['ceph-mon', 'ceph-osd', 'ceph-base', 'ceph-common', 'radosgw'];
const PROGRAMS = ['ceph-mon', 'ceph-osd', 'monmaptool', 'ceph', 'radosgw', 'radosgw-admin'];
const USER = { accessKey: 'test', secretKey: 'testtest' };
/** Buckets are subdomains of it, for who resolves it to this machine. */
const DOMAIN = 's3.firn.test';
/** A key of its test backend, of no worth. */
const KMS = { id: 'firn-key', secret: Buffer.alloc(32, 7).toString('base64') };
const READY_MS_MAX = 60_000;
/** A monitor that has just begun may let a store wait for ever: it is started anew. */
const STORE_MS_MAX = 10_000;
const STORE_TRIES = 3;
const CLUSTER_TRIES = 2;
/** Ports in which the store's own connections lie, behind that of the monitor. */
const STORE_PORTS = 50;
/** What the memory store may hold, bytes: memory is taken as it fills. */
const STORE_BYTES = 4_294_967_296;

interface Ports {
  readonly gateway: number;
  readonly monitor: number;
}

function configuration(dir: string, fsid: string, { gateway, monitor }: Ports): string {
  return `
[global]
fsid = ${fsid}
mon host = v1:127.0.0.1:${monitor}
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
ms bind ipv6 = false
ms bind msgr2 = false
ms bind port min = ${monitor + 1}
ms bind port max = ${monitor + STORE_PORTS}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
paxos propose interval = 0.05
paxos min wait = 0.01
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd heartbeat grace = 600
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
mon data avail warn = 1
mon max pg per osd = 1000
run dir = ${dir}
admin socket =
pid file =
log file = ${dir}/$name.log
keyring = ${dir}/keyring
[mon.a]
mon data = ${dir}/mon
mon addr = v1:127.0.0.1:${monitor}
[osd.0]
osd data = ${dir}/osd
osd objectstore = memstore
memstore device bytes = ${STORE_BYTES}
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:${gateway} tcp_nodelay=1
rgw enable usage log = false
rgw dns name = ${DOMAIN}
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = ${KMS.id}=${KMS.secret}
`;
}

/** Starts a gateway. Throws when Ceph is not here and cannot be installed, or does not come up. */
export async function startCeph(): Promise<S3Server> {
  await ensurePrograms(PROGRAMS, PACKAGES);
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOnce();
    } catch (error) {
      // Another cluster that begins at the same time may have taken one of its ports.
      if (tries === CLUSTER_TRIES) throw error;
    }
  }
}

async function startOnce(): Promise<S3Server> {
  const dir = mkdtempSync(join(tmpdir(), 'firn-ceph-'));
  const processes: ServerProcess[] = [];
  const stop = async (): Promise<void> => {
    for (const one of processes.toReversed()) await one.stop(1_000);
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    const ports = { gateway: await freePort(), monitor: await freePort() };
    await bringUp(dir, ports, processes);
    const version = /version (\S+)/.exec(await run('radosgw', ['--version']))?.[1] ?? 'of unknown version';
    return { name: `Ceph RGW ${version}`, endpoint: `http://127.0.0.1:${ports.gateway}`, region: 'us-east-1', ...USER, traits: traitsOf(dir), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function traitsOf(dir: string): S3Traits {
  return { domain: DOMAIN, encryption: { sse: 'aws:kms', keyId: KMS.id }, cephConf: join(dir, 'ceph.conf') };
}

/** Gives the user of the gateway another key, or takes one away: from then on the gateway refuses it. */
export async function cephKey(cephConf: string, verb: 'create' | 'rm', { accessKey, secretKey }: { readonly accessKey: string; readonly secretKey: string }): Promise<void> {
  const secret = verb === 'create' ? [`--secret-key=${secretKey}`] : [];
  await run('radosgw-admin', ['key', verb, '--uid=test', '--key-type=s3', `--access-key=${accessKey}`, ...secret], { CEPH_CONF: cephConf }, READY_MS_MAX);
}

async function bringUp(dir: string, ports: Ports, processes: ServerProcess[]): Promise<void> {
  const fsid = randomUUID();
  for (const folder of ['mon', 'osd']) mkdirSync(join(dir, folder));
  writeFileSync(join(dir, 'ceph.conf'), configuration(dir, fsid, ports));
  writeFileSync(join(dir, 'keyring'), '');
  const env = { CEPH_CONF: join(dir, 'ceph.conf') };
  const tool = (program: string, ...args: readonly string[]): Promise<string> => run(program, args, env, READY_MS_MAX);
  const begin = (program: string, ...args: readonly string[]): ServerProcess => {
    const one = new ServerProcess(program, ['-f', ...args], join(dir, `${program}.out`), env);
    processes.push(one);
    return one;
  };
  const map = join(dir, 'monmap');
  await tool('monmaptool', '--create', '--clobber', '--fsid', fsid, '--addv', 'a', `[v1:127.0.0.1:${ports.monitor}]`, map);
  await tool('ceph-mon', '--mkfs', '-i', 'a', '--monmap', map);
  const monitor = begin('ceph-mon', '-i', 'a');
  await monitor.until('the monitor has no quorum', READY_MS_MAX, async () => (await run('ceph', ['mon', 'stat'], env, 5_000)).includes('quorum'));
  await tool('ceph', 'osd', 'create');
  await tool('ceph-osd', '-i', '0', '--mkfs');
  // A monitor that has just found its quorum may still refuse everybody, on a busy machine for seconds.
  await monitor.until('the store gets no place', READY_MS_MAX, async () => (await tool('ceph', 'osd', 'crush', 'add', 'osd.0', '1.0', 'root=default', 'host=localhost')) !== null);
  for (let tries = 1; ; tries += 1) {
    const store = begin('ceph-osd', '-i', '0');
    try {
      await store.until('the store does not join', STORE_MS_MAX, async () => (await tool('ceph', 'osd', 'stat')).includes('1 up'));
      break;
    } catch (error) {
      if (tries === STORE_TRIES) throw error;
      await store.stop(1_000);
    }
  }
  const gateway = begin('radosgw', '-n', 'client.rgw', '--no-mon-config');
  await gateway.until('the gateway does not answer', READY_MS_MAX, () => answers(`http://127.0.0.1:${ports.gateway}/`));
  await tool('radosgw-admin', 'user', 'create', '--uid=test', '--display-name=test', `--access-key=${USER.accessKey}`, `--secret-key=${USER.secretKey}`);
}
