/**
 * House rules that no compiler checks. What oxlint can check stands in `.oxlintrc.json` (lengths, import cycles, banned calls, leftovers, focused tests);
 * the first test here proves that those rules bite.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pages } from '../infra/docs/pages.js';
import { ERRORS } from '../shared/protocol/errors.js';
import { PROJECT } from './support/paths.js';

const LEFT_OUT = new Set(['node_modules', 'dist', '.git', 'data', '.test-run', 'bench-results']);

function* walk(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (LEFT_OUT.has(entry.name)) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (entry.isFile()) yield relative(PROJECT, path);
  }
}

const FILES = [...walk(PROJECT)];
const text = new Map(FILES.filter((path) => /\.(ts|mjs|cjs|json|md|yml|yaml|sh|lua)$|^\.ci\//.test(path)).map((path) => [path, readFileSync(join(PROJECT, path), 'utf8')]));
const isTest = (path: string): boolean => path.endsWith('.test.ts') || path.endsWith('.contract.ts') || path.startsWith('test/');
const SOURCES = [...text.keys()].filter((path) => path.endsWith('.ts') && /^(services|shared|infra)\//.test(path) && !isTest(path));

interface Import {
  readonly from: string;
  readonly to: string;
}

const IMPORT = /(?:^|\n)\s*(?:import|export)\s[^'"\n;]*?(?:\{[^}]*\}\s*)?from\s*'([^']+)'|import\(\s*'([^']+)'\s*\)|(?:^|\n)\s*import\s+'([^']+)'/g;

function importsOf(path: string): Import[] {
  return [...(text.get(path) ?? '').matchAll(IMPORT)].map((match) => {
    const target = match[1] ?? match[2] ?? match[3] ?? '';
    return { from: path, to: target.startsWith('.') ? join(dirname(path), target).replace(/\.js$/, '.ts') : target };
  });
}

const IMPORTS = SOURCES.flatMap(importsOf);

describe('lint', () => {
  it('has rules that bite', () => {
    const folder = mkdtempSync(join(tmpdir(), 'firn-tidy-'));
    try {
      mkdirSync(join(folder, 'services'));
      const long = Array.from({ length: 80 }, (_, n) => `  total += ${n};`).join('\n');
      const bad = [
        'import { b } from \'./b.js\';', 'import { Later } from \'./b.js\';', `// ${'FIX'}ME later`, 'export const a = Date.now() + Math.random() + b;',
        'console.log(a, process.env.HOME);', 'process.exit(1);', 'export const anything: any = 1;', 'export let later: Later;',
        `export function long(): number {\n  let total = 0;\n${long}\n  return total;\n}`, '\n'.repeat(400),
      ];
      writeFileSync(join(folder, 'services', 'a.ts'), bad.join('\n'));
      writeFileSync(join(folder, 'services', 'b.ts'), 'import { a } from \'./a.js\';\nexport const b = Number(typeof a);\nexport interface Later { x: 1 }\n');
      writeFileSync(join(folder, 'services', 'a.test.ts'), 'import { it } from \'vitest\';\nit.only(\'x\', () => undefined);\nit.skip(\'y\', () => undefined);\n');
      const run = spawnSync(process.execPath, [join(PROJECT, 'node_modules/oxlint/bin/oxlint'), '-c', join(PROJECT, '.oxlintrc.json'), '--deny-warnings', '-f', 'unix', folder], { encoding: 'utf8' });
      expect(run.status).not.toBe(0);
      for (const rule of ['max-lines)', 'max-lines-per-function', 'no-cycle', 'no-console', 'no-warning-comments', 'no-explicit-any', 'no-focused-tests', 'no-disabled-tests', 'consistent-type-imports', 'expect-expect']) {
        expect(run.stdout, rule).toContain(rule);
      }
      for (const banned of ['Date.now', 'Math.random', 'process.env', 'process.exit']) expect(run.stdout, banned).toContain(`'${banned}' is restricted`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** Who may import whom, below `services/api`: the arrow http -> log -> hot | cold; live listens to the log. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  hot: [],
  cold: ['hot'],
  log: ['hot', 'cold'],
  live: ['log'],
  subscriptions: ['log', 'hot'],
  http: ['log', 'live', 'subscriptions'],
  admin: ['log', 'live', 'hot', 'cold', 'http'],
};
/** Interfaces of an upper layer that a lower one may see: how cold work is told to the log. The hot tier sees none. */
const SEAMS = new Set(['services/api/log/core.ts', 'services/api/log/types.ts', 'services/api/cold/types.ts']);
/** What other services may see of the node, and of the worker. */
const NODE_FACES = new Set(['services/api/node.ts', 'services/api/offline.ts', 'services/worker/main.ts']);

function layerOf(path: string): string | null {
  return /^services\/api\/([^/]+)\//.exec(path)?.[1] ?? null;
}

describe('folders', () => {
  it('finds the imports it judges', () => {
    expect(SOURCES.length).toBeGreaterThan(50);
    expect(IMPORTS.filter((edge) => edge.to.startsWith('shared/')).length).toBeGreaterThan(100);
    const missing = IMPORTS.filter((edge) => /^(services|shared|infra)\//.test(edge.to) && !text.has(edge.to));
    expect(missing).toEqual([]);
  });

  it('lets arrows point one way', () => {
    const wrong = IMPORTS.filter(({ from, to }) => {
      if (SEAMS.has(to) && layerOf(from) !== 'hot') return false;
      if (from.startsWith('shared/')) return /^(services|infra|test)\//.test(to);
      const [here, there] = [layerOf(from), layerOf(to)];
      if (here === null || there === null || here === there) return false;
      return !(LAYERS[here] ?? []).includes(there);
    });
    expect(wrong).toEqual([]);
    const unknown = new Set(SOURCES.map(layerOf).filter((layer) => layer !== null && LAYERS[layer] === undefined));
    expect([...unknown]).toEqual([]);
  });

  it('lets nothing of a service know its tests, and nothing but the benchmark and the demo know infra', () => {
    expect(IMPORTS.filter(({ to }) => /^test\/|\.(test|contract)\.ts$/.test(to))).toEqual([]);
    expect(IMPORTS.filter(({ from, to }) => to.startsWith('infra/') && !from.startsWith('infra/'))).toEqual([]);
  });

  it('keeps services apart: the command line and the worker see the node through its faces alone', () => {
    const wrong = IMPORTS.filter(({ from, to }) => {
      const [here, there] = [/^services\/([^/]+)/.exec(from)?.[1], /^services\/([^/]+)/.exec(to)?.[1]];
      if (there === undefined || here === there) return false;
      // The cold tier and subscriptions run the worker's handlers, and the admin listener speaks with workers elsewhere.
      if (from.startsWith('services/api/') || from.startsWith('infra/')) return !(there === 'worker' && ['cold', 'subscriptions', 'admin'].includes(layerOf(from) ?? ''));
      return !NODE_FACES.has(to) && !SEAMS.has(to);
    });
    expect(wrong).toEqual([]);
  });

  it('uses only packages that package.json names', () => {
    const manifest = JSON.parse(text.get('package.json') ?? '{}') as { dependencies: Record<string, string>; devDependencies: Record<string, string> };
    const wrong = IMPORTS.filter(({ from, to }) => {
      if (to.startsWith('node:') || /^(services|shared|infra)\//.test(to)) return false;
      const name = to.startsWith('@') ? to.split('/').slice(0, 2).join('/') : (to.split('/')[0] ?? '');
      return !(name in manifest.dependencies || (from.startsWith('infra/') && name in manifest.devDependencies));
    });
    expect(wrong).toEqual([]);
  });
});

describe('sources', () => {
  it('open with what the module owns', () => {
    const bare = SOURCES.filter((path) => !/^(#!.*\n)?\/\*\*/.test(text.get(path) ?? ''));
    expect(bare).toEqual([]);
  });

  it('cite sections and paragraphs of docs/architecture.md that are there', () => {
    const page = text.get('docs/architecture.md') ?? '';
    const sections = new Map(page.split(/^## (?=\d)/m).slice(1).map((section) => [Number.parseInt(section, 10), section]));
    // A citation may be broken by the end of a comment's line.
    const cited = [...text].filter(([path]) => /\.[cm]?[tj]s$/.test(path)).flatMap(([path, content]) => [...content.matchAll(/architecture(?:\s|\*)+sections? (\d+)(?: and (\d+))?(?:,? "([^"]+)")?/g)].map(([, one, two, paragraph]) => ({ path, one, two, paragraph })));
    expect(cited.length).toBeGreaterThan(50);
    const wrong = cited.filter(({ one, two, paragraph }) => [one, two].some((number) => number !== undefined && !sections.has(Number(number))) || (paragraph !== undefined && sections.get(Number(one))?.includes(`**${paragraph}`) !== true));
    expect(wrong).toEqual([]);
  });

  it('export nothing that is used nowhere, not even beside its definition', () => {
    const uses = new Map<string, number>();
    for (const [path, content] of text) {
      if (!/\.(ts|mjs|cjs)$/.test(path)) continue;
      for (const [word] of content.replace(/^ *(\*|\/\/|\/\*\*).*$/gm, '').matchAll(/[A-Za-z_$][\w$]*/g)) uses.set(word, (uses.get(word) ?? 0) + 1);
    }
    const exported = SOURCES.flatMap((path) => [...(text.get(path) ?? '').matchAll(/(?:^|\n)export (?:async )?(?:abstract )?(?:function\*?|class|const|interface|type) ([A-Za-z_$][\w$]*)/g)]
      .map((match) => ({ path, name: match[1] ?? '' })));
    expect(exported.length).toBeGreaterThan(300);
    expect(exported.filter(({ name }) => uses.get(name) === 1)).toEqual([]);
  });

  it('answer every code that the table of errors has', () => {
    const elsewhere = SOURCES.filter((path) => path !== 'shared/protocol/errors.ts').map((path) => text.get(path) ?? '');
    expect(Object.keys(ERRORS).filter((code) => !elsewhere.some((content) => content.includes(`'${code}'`)))).toEqual([]);
  });

  it('keep no timer that would hold the process', () => {
    const held = SOURCES.filter((path) => !path.startsWith('infra/')).filter((path) => {
      const content = text.get(path) ?? '';
      return (content.match(/\bsetInterval\(/g) ?? []).length > (content.match(/\.unref\(\)/g) ?? []).length;
    });
    expect(held).toEqual([]);
  });

  it('have no leftovers and no test that is switched off, in any kind of file', () => {
    const leftover = new RegExp(['TO', 'DO\\b|FIX', 'ME\\b|\\bX', 'XX\\b'].join(''));
    const off = new RegExp(`\\b(?:it|test|describe)\\.(?:${['skip', 'only', 'todo', 'fails'].join('|')})\\b`);
    const found = [...text].filter(([path]) => path !== 'test/tidy.test.ts' && path !== 'package-lock.json' && path !== '.oxlintrc.json').filter(([, content]) => leftover.test(content) || off.test(content));
    expect(found.map(([path]) => path)).toEqual([]);
  });

  it('name no folder of a machine', () => {
    const roots = new Set([PROJECT, homedir(), ...['home', 'Users', 'work', 'root'].map((name) => `/${name}`)].filter((path) => path.length > 1).map((path) => `${path}/`));
    const found = [...text].flatMap(([path, content]) => [...roots].filter((root) => new RegExp(`(?:^|[\\s'"\`(=:])${root.replaceAll('.', '\\.')}`, 'm').test(content)).map((root) => `${path}: ${root}`));
    expect(found).toEqual([]);
  });
});

describe('project', () => {
  it('has a lockfile without download addresses, in step with package.json', () => {
    const lock = JSON.parse(text.get('package-lock.json') ?? '{}') as { packages: Record<string, { resolved?: string; dependencies?: object; devDependencies?: object }> };
    expect(Object.values(lock.packages).filter((entry) => entry.resolved?.startsWith('http'))).toEqual([]);
    const manifest = JSON.parse(text.get('package.json') ?? '{}') as { dependencies: object; devDependencies: object };
    expect(lock.packages['']?.dependencies).toEqual(manifest.dependencies);
    expect(lock.packages['']?.devDependencies).toEqual(manifest.devDependencies);
  });

  it('has a lockfile that a clean installation accepts: each package that one asks for is in it', () => {
    const { packages } = JSON.parse(text.get('package-lock.json') ?? '{}') as { packages: Record<string, { dependencies?: object; optionalDependencies?: object }> };
    const found = (from: string, name: string): boolean => {
      for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules/') - 1))) {
        if (`${at === '' ? '' : `${at}/`}node_modules/${name}` in packages) return true;
        if (at === '') return false;
      }
    };
    const wanted = Object.entries(packages).flatMap(([path, entry]) => Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }).map((name) => ({ path, name })));
    expect(wanted.length).toBeGreaterThan(200);
    expect(wanted.filter(({ path, name }) => !found(path, name))).toEqual([]);
  });

  it('has generated pages that are what the code says (npm run docs)', () => {
    expect(pages().length).toBeGreaterThanOrEqual(2);
    for (const page of pages()) expect(text.get(page.path), page.path).toBe(page.text);
  });

  it('has scripts that parse, and a check that can be run', () => {
    for (const path of text.keys()) if (/\.(mjs|cjs)$/.test(path)) execFileSync(process.execPath, ['--check', join(PROJECT, path)]);
    for (const path of ['.ci/run', 'services/cli/firn.cjs']) expect(spawnSync('test', ['-x', join(PROJECT, path)]).status, path).toBe(0);
    expect(text.get('.ci/run')).toContain('npm test');
  });

  it('has pages whose links lead somewhere', () => {
    const dead = [...text].filter(([path]) => path.endsWith('.md')).flatMap(([path, content]) => [...content.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
      .map((match) => join(dirname(path), match[1] ?? ''))
      .filter((target) => !FILES.includes(target) && !FILES.some((file) => file.startsWith(`${target.replace(/\/$/, '')}/`)))
      .map((target) => `${path} -> ${target}`));
    expect(dead).toEqual([]);
  });
});
