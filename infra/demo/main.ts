/**
 * `npm run demo [-- --s3]`: 20,000 real flight records through the whole path.
 *
 * Writes them into one stream for each airport, reads some live, publishes snapshots, seals, restarts the node, reads everything back on both surfaces, deletes the
 * hot tier, restores it from the objects, and reads everything back again. With `--s3` the objects lie in a real S3 server, and the work is done by two workers that get it from Redis; one of them is killed
 * half-way. Ends with a table; ends non-zero at the first difference, and leaves neither processes nor folders behind, also when it is interrupted.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { step } from '../lib/bars.js';
import { FirnProcess } from '../lib/firn-process.js';
import { withScope, type Scope } from '../lib/scope.js';
import { bytes, count, duration, quantile, table } from '../lib/table.js';
import { call, closeClient } from './client.js';
import { usage, type Usage } from './disk.js';
import { loadAirports, type Airport } from './flights.js';
import { liveReaders } from './live.js';
import { embedded, withServices, type Place } from './place.js';
import { createStreams, produceAll } from './produce.js';
import { readBack } from './read-back.js';
import { checkSnapshots, planSnapshots, publishSnapshots, type Published } from './snapshots.js';
import { StoreTraffic } from './store-traffic.js';

const LIVE_AIRPORTS = 5;
const LARGE_SNAPSHOTS = 3;
const SMALL_SNAPSHOTS = 9;

interface Figures {
  appends: number;
  readers: number;
  writeMs: number;
  sealMs: number;
  restoreMs: number;
  hotBefore: Usage;
  hotAfter: Usage;
  objects: Usage;
  coldReads: number[];
  bootstraps: number[];
  restoredReads: number[];
  readonly traffic: StoreTraffic;
}

async function write(node: FirnProcess, place: Place, airports: readonly Airport[], snapshots: readonly Published[], figures: Figures): Promise<void> {
  await step('create the streams', airports.length, (bar) => createStreams(node.url, airports, bar));
  const live = liveReaders(node.url, airports, LIVE_AIRPORTS);
  // A reader that fails while the producers still write is reported below, not as an unhandled rejection.
  live.catch(() => undefined);
  const messages = airports.reduce((sum, airport) => sum + airport.messages.length, 0);
  figures.writeMs = await step('append the flights', messages, async (bar) => {
    let written = 0;
    let half: Promise<void> | null = null;
    const add = (more = 1): void => {
      written += more;
      bar.add(more);
      if (written < messages / 2 || half !== null) return;
      half = place.halfWay();
      // Should the producers fail first, that is what is reported.
      half.catch(() => undefined);
    };
    figures.appends = await produceAll(node.url, airports, { add });
    await half;
  });
  await step('live readers have everything', 1, async () => {
    figures.readers = await live;
  });
  await step('publish snapshots', snapshots.length, (bar) => publishSnapshots(node.url, snapshots, bar));
}

async function check(node: FirnProcess, airports: readonly Airport[], snapshots: readonly Published[], what: string): Promise<{ reads: number[]; bootstraps: number[] }> {
  let reads: number[] = [];
  let bootstraps: number[] = [];
  await step(`read back ${what}`, airports.length, async (bar) => {
    reads = await readBack(node.url, airports, bar);
  });
  await step(`bootstrap ${what}`, snapshots.length, async (bar) => {
    bootstraps = await checkSnapshots(node.url, snapshots, bar);
  });
  return { reads, bootstraps };
}

function report(place: Place, airports: readonly Airport[], snapshots: readonly Published[], figures: Figures): string {
  const messages = airports.reduce((sum, airport) => sum + airport.messages.length, 0);
  const raw = airports.reduce((sum, airport) => sum + airport.stored.length, 0);
  const snapshotBytes = snapshots.reduce((sum, snapshot) => sum + snapshot.body.length, 0);
  const times = (list: readonly number[]): string => `p50 ${duration(quantile(list, 0.5))}, p99 ${duration(quantile(list, 0.99))}`;
  return table(['what', 'figure'], [
    ['place', place.title],
    ['records', `${count(messages)} in ${count(figures.appends)} appends, ${bytes(raw)}`],
    ['streams', count(airports.length)],
    ['snapshots', `${snapshots.length}, ${bytes(snapshotBytes)}`],
    ['live readers', `${figures.readers}, every byte`],
    ['written in', duration(figures.writeMs)],
    ['sealed in', duration(figures.sealMs)],
    ['objects', `${count(figures.objects.files)}, ${bytes(figures.objects.bytes)}`],
    ...figures.traffic.rows(),
    ['hot tier before and after sealing', `${bytes(figures.hotBefore.bytes)}, ${bytes(figures.hotAfter.bytes)}`],
    ['cold read of a stream, both surfaces', times(figures.coldReads)],
    ['bootstrap with the read that completes it', times(figures.bootstraps)],
    ['restored in', duration(figures.restoreMs)],
    ['read of a restored stream', times(figures.restoredReads)],
  ]);
}

/** The first life of the node: everything is written and sealed. */
async function fill(node: FirnProcess, place: Place, airports: readonly Airport[], snapshots: readonly Published[], figures: Figures): Promise<void> {
  await step('start a node', 1, () => node.start());
  await place.begin(node);
  await write(node, place, airports, snapshots, figures);
  figures.hotBefore = await usage(join(node.dataDir, 'hot'));
  figures.sealMs = await step('seal everything', 1, async () => {
    await call(`${node.adminUrl}/__firn/seal`, { method: 'POST', expect: [200] });
  });
  await figures.traffic.note(node);
}

async function run(scope: Scope, s3: boolean): Promise<string> {
  const airports = loadAirports();
  const snapshots = planSnapshots(airports, LARGE_SNAPSHOTS, SMALL_SNAPSHOTS);
  const figures: Figures = {
    appends: 0, readers: 0, writeMs: 0, sealMs: 0, restoreMs: 0, hotBefore: { files: 0, bytes: 0 }, hotAfter: { files: 0, bytes: 0 }, objects: { files: 0, bytes: 0 },
    coldReads: [], bootstraps: [], restoredReads: [], traffic: new StoreTraffic(),
  };
  const dataDir = await mkdtemp(join(tmpdir(), 'firn-demo-'));
  await scope.defer(() => rm(dataDir, { recursive: true, force: true }));
  const place = s3 ? await withServices(scope) : embedded(dataDir);
  // Sealed data leaves the hot tier at once, so that the reads below are cold.
  const node = await FirnProcess.on(dataDir, { ...place.settings, FIRN_HOT_KEEP_MS: '0' });
  await scope.defer(() => node.kill());
  await fill(node, place, airports, snapshots, figures);
  await step('restart the node', 1, async () => {
    await node.stop();
    await node.start();
  });
  const cold = await check(node, airports, snapshots, 'from the cold tier');
  figures.coldReads = cold.reads;
  figures.bootstraps = cold.bootstraps;
  await step('checkpoint (npx firn checkpoint)', 1, async () => void (await node.command('checkpoint')));
  figures.hotAfter = await usage(join(dataDir, 'hot'));
  await figures.traffic.note(node);
  await node.stop();
  figures.objects = await place.objects();
  await rm(join(dataDir, 'hot'), { recursive: true });
  figures.restoreMs = await step('restore (npx firn restore)', 1, async () => void (await node.command('restore')));
  await node.start();
  figures.restoredReads = (await check(node, airports, snapshots, 'after the restore')).reads;
  await place.end();
  await figures.traffic.note(node);
  await node.stop();
  return report(place, airports, snapshots, figures);
}

const program = new Command('demo').option('--s3', 'with a real S3 server, Redis and two workers, which are installed when they are missing', false).parse();
try {
  await withScope(async (scope) => {
    await scope.defer(closeClient);
    process.stdout.write(`\n${await run(scope, program.opts<{ s3: boolean }>().s3)}\n\nEvery byte came back as it was sent.\n`);
  });
} catch (error) {
  process.stderr.write(`\nthe demonstration failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
