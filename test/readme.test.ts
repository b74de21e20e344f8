/** Pastes the `curl` examples of the README, one after the other, against a running node. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { useNode } from './support/node.js';
import { PROJECT } from './support/paths.js';

const node = useNode();

/** The `bash` blocks that use `curl`, in their order. */
function examples(): string[] {
  const text = readFileSync(join(PROJECT, 'README.md'), 'utf8');
  return [...text.matchAll(/^```bash\n([\s\S]*?)^```/gm)].map((match) => match[1] ?? '').filter((block) => block.includes('curl'));
}

async function paste(block: string): Promise<string> {
  const script = block.replaceAll('http://127.0.0.1:4437', node.url).replaceAll('http://127.0.0.1:4438', node.adminUrl);
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { timeout: 30_000 });
  return stdout;
}

it('the curl examples of the README work as pasted', { timeout: 120_000 }, async () => {
  const blocks = examples();
  expect(blocks.length).toBeGreaterThanOrEqual(5);
  const outputs: string[] = [];
  for (const block of blocks) {
    const output = await paste(block);
    outputs.push(output);
    // Each answer that shows its head is a success.
    const statuses = [...output.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((match) => Number(match[1]));
    expect(statuses.filter((status) => status >= 300), `${block}\n${output}`).toEqual([]);
    if (block.includes('curl -i')) expect(statuses.length, block).toBe((block.includes('for try in 1 2') ? 2 : 1) * (block.match(/curl -i /g) ?? []).length);
    else expect(output.trim(), block).not.toBe('');
    expect(output).not.toContain('"error"');
  }
  const all = outputs.join('\n');
  expect(all).toContain('{"say":"hello"}\n{"say":"world"}\n');
  expect(all).toContain('[{"say":"hello"},{"say":"world"}]');
  expect(all).toContain('event: control');
  expect(all).toMatch(/multipart\/mixed/);
  expect(all).toMatch(/"segments":\s*[1-9]/);
});
