/** `docs/operations.md` against the code: settings, metrics, routes and refusals that exist, and permissions that are neither more nor less than what is used. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { describeConfig } from '../shared/config/index.js';
import { createMetrics } from '../shared/observability/index.js';
import { ERRORS } from '../shared/protocol/errors.js';
import { PROJECT } from './support/paths.js';

const page = readFileSync(join(PROJECT, 'docs', 'operations.md'), 'utf8');
const named = (pattern: RegExp): string[] => [...new Set([...page.matchAll(pattern)].map(([all, name]) => name ?? all))];

function sources(folder: string): string {
  const files = readdirSync(join(PROJECT, folder), { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts') && !/\.(test|contract)\.ts$/.test(path));
  return files.map((path) => readFileSync(join(PROJECT, folder, path), 'utf8')).join('\n');
}

it('names settings, metrics, routes and refusals that exist', async () => {
  const settings = new Set(describeConfig().map(({ variable }) => variable));
  expect(named(/\bFIRN_\w+/g).filter((name) => !settings.has(name))).toEqual([]);
  const metrics = await createMetrics().text();
  const counted = named(/`(firn_\w+)/g).filter((name) => name !== 'firn_data');
  expect(counted.length).toBeGreaterThan(5);
  expect(counted.filter((name) => !metrics.includes(`# TYPE ${name} `))).toEqual([]);
  const refusals = named(/50[23] `([A-Z_]+)`/g);
  expect(refusals.length).toBeGreaterThan(3);
  expect(refusals.filter((code) => !(code in ERRORS))).toEqual([]);
  const routes = sources('services/api/admin');
  for (const route of named(/\/__firn\/[a-z]+/g)) expect(routes, route).toContain(`'${route}'`);
});

it('asks for the permissions that the requests of the store need, and for no others', () => {
  const needs: Readonly<Record<string, string>> = {
    GetObject: 's3:GetObject', ListObjectsV2: 's3:ListBucket', PutObject: 's3:PutObject', CreateMultipartUpload: 's3:PutObject', UploadPart: 's3:PutObject', CompleteMultipartUpload: 's3:PutObject',
    AbortMultipartUpload: 's3:AbortMultipartUpload', ListMultipartUploads: 's3:ListBucketMultipartUploads', DeleteObject: 's3:DeleteObject',
  };
  const sent = [...sources('shared/storage/s3-store').matchAll(/new (\w+)Command\(/g)].map(([, name = '']) => name);
  // The store can delete; what counts is whether anybody asks it to.
  const deletes = /\b(?:objects|store)\.delete\(/.test(sources('services'));
  const needed = new Set(sent.filter((name) => deletes || name !== 'DeleteObject').map((name) => needs[name] ?? `unknown: ${name}`));
  const policy = JSON.parse(/^```json\n([\s\S]*?)^```/m.exec(page)?.[1] ?? '') as { Statement: { Effect: string; Action: string[]; Resource: string[] }[] };
  expect(policy.Statement.map(({ Effect, Resource }) => [Effect, Resource])).toEqual([['Allow', ['arn:aws:s3:::logs']], ['Allow', ['arn:aws:s3:::logs/firn/*']]]);
  expect(new Set(policy.Statement.flatMap(({ Action }) => Action))).toEqual(needed);
});
