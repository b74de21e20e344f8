/**
 * Verbs for tests of collections: what lies in the object store, and what of it is alive.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import { objectRow } from '../../hot/keys/index.js';
import { namesIn, type Rig } from '../cold-rig.contract.js';
import { verifyStore, type VerifyReport } from '../verify.js';

/** A grace that a test can wait for, ms. */
export const SHORT_GRACE_MS = 20;

/** A clock that a test moves. */
export class Clock {
  skewMs = 0;
  readonly now = (): number => Date.now() + this.skewMs;
}

/** Each stream sealed into an object of its own. */
export async function fillEach(of: Rig, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    await of.create(key);
    await of.append(key, `bytes of ${key}`);
    await of.seal();
  }
}

/** Names of data objects in the store. */
export async function dataObjects(of: Rig): Promise<string[]> {
  return (await namesIn(of.objects)).filter((name) => /\/(segments|snapshots|merged)\//.test(name));
}

/** Objects that the hot store counts references to. */
export async function alive(of: Rig): Promise<string[]> {
  const keys: string[] = [];
  for (let partition = 0; partition < of.cold.partitions.length; partition++) {
    for await (const page of of.hot.scan(objectRow.range(partition))) {
      for (const { key, value } of page) if (objectRow.decode(value).refs > 0) keys.push(objectKey(objectRow.decodeKey(key)));
    }
  }
  return keys.sort();
}

export function verify(of: Rig, deep = true): Promise<VerifyReport> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(of.dir, 'staging', file)).then(({ size }) => size, () => null);
  return verifyStore({ store: of.core.store, objects: of.objects, deep, stagedBytes, signal: AbortSignal.timeout(20_000) });
}

/** The store holds what is alive and nothing else, two checkpoints, and is sound. */
export async function expectOnlyAlive(of: Rig): Promise<void> {
  expect(await dataObjects(of)).toEqual(await alive(of));
  expect(await verify(of)).toMatchObject({ ok: true, findings: [], garbageObjects: 0, leftOvers: 0, unknownObjects: [] });
}
