/**
 * A restore beside a node that still runs (architecture section 7, I10): whoever restores owns the history, the old node finds out and says so; on one file store and on S3.
 */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { eventually } from '../support/forks.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();
/** A node looks for a newer session every 5 s. */
const NOTICED_MS = 15_000;

let settings: Env;
let old: FirnNode;
let heir: FirnNode;
const folders: string[] = [];
afterEach(async () => {
  await Promise.all([old.dispose(), heir.dispose()]);
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** An empty data directory with the object store of the old node. */
function otherDirectory(kind: 'fs' | 's3'): string {
  const folder = mkdtempSync(join(tmpdir(), 'firn-test-'));
  folders.push(folder);
  if (kind === 'fs') symlinkSync(join(old.dataDir, 'objects'), join(folder, 'objects'));
  return folder;
}

async function health(node: FirnNode, route: 'healthz' | 'readyz'): Promise<{ readonly status: number; readonly reasons: string }> {
  const answer = await node.send('GET', `/__firn/${route}`);
  return { status: answer.status, reasons: (answer.json() as { reasons: string[] }).reasons.join('\n') };
}

describe.each(['fs', 's3'] as const)('a store on %s that was restored elsewhere while its node runs', (kind) => {
  it.each(['asked to seal', 'left alone'] as const)('I10 R097 the old node, %s, takes no more writes and says why; the new one goes on', { timeout: 120_000 }, async (how) => {
    settings = { FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0', ...(kind === 's3' ? s3Settings(server) : {}) };
    old = new FirnNode(settings);
    heir = new FirnNode(settings);
    await old.start();
    const s = new Stream(old.http, '/demo/s');
    await s.create({ type: OCTETS, body: 'one ' });
    await old.seal();
    heir.dataDir = otherDirectory(kind);

    const run = await firn(['restore'], { ...settings, FIRN_DATA_DIR: heir.dataDir });
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    const early = await s.append('two ');
    if (how === 'asked to seal') {
      const sealed = await old.send('POST', '/__firn/seal');
      expect([sealed.status, sealed.code]).toEqual([503, 'APPLY_STOPPED']);
    } else {
      await eventually(async () => (await health(old, 'readyz')).status === 503, NOTICED_MS);
    }
    const refused = await s.append('three ');
    expect([refused.status, refused.code]).toEqual([503, 'APPLY_STOPPED']);
    expect(Number(refused.need('retry-after'))).toBeGreaterThan(0);
    expect((await new Stream(old.http, '/demo/new').create({ type: OCTETS })).code).toBe('APPLY_STOPPED');
    const ready = await health(old, 'readyz');
    expect([ready.status, ready.reasons]).toEqual([503, expect.stringMatching(/session/)]);
    expect((await health(old, 'healthz')).reasons).toMatch(/session/);
    // It shows what it has: also what nobody else will ever see.
    expect((await s.read()).text).toBe(early.status === 204 ? 'one two ' : 'one ');

    await heir.start();
    const t = new Stream(heir.http, '/demo/s');
    expect((await t.read()).text).toBe('one ');
    expect((await t.append('zwei ')).status).toBe(204);
    await heir.seal();
    await heir.ask('POST', '/__firn/checkpoint');
    expect((await t.read()).text).toBe('one zwei ');
    expect(((await heir.ask('POST', '/__firn/verify?deep=1')) as { findings: unknown[] }).findings).toEqual([]);

    await old.stop();
    const again = await firn(['serve'], settingsFor(old, settings));
    expect([again.code === 0, again.stdout + again.stderr]).toEqual([false, expect.stringMatching(/moved on/)]);
    expect((await t.append('drei ')).status).toBe(204);
  });
});
