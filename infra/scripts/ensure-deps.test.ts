import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

interface EnsureDeps {
  depsProblem(project?: string): string | null;
}

const { depsProblem } = (await import(new URL('ensure-deps.mjs', import.meta.url).href)) as EnsureDeps;

let project: string;

function put(path: string, value: unknown): void {
  mkdirSync(dirname(join(project, path)), { recursive: true });
  writeFileSync(join(project, path), JSON.stringify(value));
}

beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'firn-deps-'));
  put('package-lock.json', { packages: { '': { name: 'x' }, 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '2.0.0', optional: true } } });
});

afterEach(() => rmSync(project, { recursive: true, force: true }));

function install(a: string | null, b: string | null): void {
  const packages: Record<string, { version: string }> = {};
  for (const [name, version] of [['a', a], ['b', b]] as const) {
    if (version === null) continue;
    packages[`node_modules/${name}`] = { version };
    put(`node_modules/${name}/package.json`, { version });
  }
  put('node_modules/.package-lock.json', { packages });
}

describe('packages of the lockfile', () => {
  it('are installed anew when nothing is there', () => {
    expect(depsProblem(project)).toBe('nothing is installed yet');
  });

  it('are fine when every one is there, whether an optional one is or not', () => {
    install('1.0.0', null);
    expect(depsProblem(project)).toBeNull();
    install('1.0.0', '2.0.0');
    expect(depsProblem(project)).toBeNull();
  });

  it('are installed anew when one is missing, another version, or gone from the disk', () => {
    install(null, null);
    expect(depsProblem(project)).toBe('node_modules/a is missing');
    install('1.0.1', null);
    expect(depsProblem(project)).toBe('node_modules/a is 1.0.1 instead of 1.0.0');
    install('1.0.0', '3.0.0');
    expect(depsProblem(project)).toBe('node_modules/b is 3.0.0 instead of 2.0.0');
    install('1.0.0', null);
    rmSync(join(project, 'node_modules/a'), { recursive: true });
    expect(depsProblem(project)).toBe('node_modules/a is gone');
  });

  it('of this clone are installed', () => {
    expect(depsProblem()).toBeNull();
  });
});
