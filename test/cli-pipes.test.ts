/** The command line in a pipe whose other side ends first. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { settingsFor } from './support/cli.js';
import { cleanEnv, ownNode } from './support/node.js';
import { FIRN, PROJECT } from './support/paths.js';
import { sleep, Stream, TEXT } from './support/stream.js';

describe('a reader that has enough', () => {
  const node = ownNode();

  it('ends tail and streams quietly, as any other program in a pipe', async () => {
    await node.start();
    const s = new Stream(node.http, '/pipes/a');
    await s.create({ type: TEXT, body: 'first line\n' });
    await Promise.all(Array.from({ length: 2_000 }, (_, n) => new Stream(node.http, `/pipes/s${n}`).create({ type: TEXT })));
    for (const args of [['tail', 'pipes/a'], ['streams']]) {
      const child = spawn(process.execPath, [FIRN, ...args], { cwd: PROJECT, env: cleanEnv(settingsFor(node)), stdio: ['ignore', 'pipe', 'pipe'] });
      let said = '';
      child.stderr.setEncoding('utf8').on('data', (piece: string) => (said += piece));
      const closed = once(child, 'close');
      await once(child.stdout, 'data');
      child.stdout.destroy();
      let over = false;
      void closed.then(() => {
        over = true;
      });
      while (!over) {
        await s.append('more\n');
        await sleep(10);
      }
      const [code] = (await closed) as [number | null];
      expect([args, code, said]).toEqual([args, 0, '']);
    }
  });
});
