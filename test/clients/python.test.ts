/** The Python client from PyPI, unmodified, against a running node. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { PythonEnvironment } from '../../infra/services/python.js';
import { useNode } from '../support/node.js';
import { PROJECT } from '../support/paths.js';

const node = useNode();
let environment: PythonEnvironment | null = null;

beforeAll(async () => {
  environment = await PythonEnvironment.with(['durable-streams==0.1.0']).catch(isOffline);
}, 600_000);
afterAll(() => environment?.dispose());

/** A machine that reaches no PyPI cannot have this client. */
function isOffline(error: unknown): null {
  const text = String((error as { stderr?: unknown }).stderr ?? '');
  if (!/No matching distribution|Connection|Temporary failure in name resolution|Network is unreachable/i.test(text)) throw error;
  process.stdout.write(`skipped: the Python client cannot be had here\n${text.trim().split('\n').at(-1) ?? ''}\n`);
  return null;
}

it('appends, joins concurrent appends, reads, follows by long-poll and by SSE, and deletes', { timeout: 60_000 }, async ({ skip }) => {
  if (environment === null) return skip('PyPI cannot be reached');
  const { stdout } = await promisify(execFile)(environment.python, [join(PROJECT, 'test', 'clients', 'python_client.py'), `${node.url}/v1/stream/clients`]);
  const text = Array.from({ length: 20 }, (_, n) => `tökén ${n};`).join('');
  expect(JSON.parse(stdout)).toEqual({
    text, offset: String(Buffer.byteLength(text)).padStart(20, '0'), type: 'text/plain', items: Array.from({ length: 50 }, (_, n) => n),
    'long-poll': Array.from({ length: 5 }, (_, n) => `long-poll ${n}`), sse: Array.from({ length: 5 }, (_, n) => `sse ${n}`), gone: 404,
  });
});
