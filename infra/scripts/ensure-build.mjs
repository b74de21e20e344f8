/**
 * Compiles the TypeScript sources into `dist` when they are not what `dist` was made from.
 *
 * Promises: `dist/.made-from` lists path, size and time of every source of a build that went through; a build that failed leaves none.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exclusively, fail, isMain, PROJECT, run } from './lib.mjs';

const ROOTS = ['services', 'shared', 'infra'];
const CONFIGS = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'];
const DIST = join(PROJECT, 'dist');
const STAMP = join(DIST, '.made-from');

function isSource(name) {
  return name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.endsWith('.contract.ts');
}

function* sources(folder) {
  for (const entry of readdirSync(join(PROJECT, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* sources(path);
    else if (isSource(entry.name)) yield path;
  }
}

function describe(path) {
  const { size, mtimeMs } = statSync(join(PROJECT, path));
  return `${path} ${size} ${Math.trunc(mtimeMs)}`;
}

function signature() {
  const paths = [...CONFIGS, ...ROOTS.flatMap((root) => [...sources(root)])].sort();
  return `${process.version}\n${paths.map(describe).join('\n')}\n`;
}

function pathsOf(text) {
  return text.split('\n').map((line) => line.split(' ')[0]).join('\n');
}

function madeFrom() {
  return existsSync(STAMP) ? readFileSync(STAMP, 'utf8') : '';
}

export async function ensureBuild() {
  if (madeFrom() === signature()) return;
  await exclusively(async () => {
    const wanted = signature();
    const before = madeFrom();
    if (before === wanted) return;
    process.stderr.write('firn: building\n');
    // A source that was moved or deleted must not live on in `dist`.
    if (pathsOf(before) !== pathsOf(wanted)) rmSync(DIST, { recursive: true, force: true });
    else rmSync(STAMP, { force: true });
    const compiler = join(PROJECT, 'node_modules', 'typescript', 'bin', 'tsc');
    const code = await run(process.execPath, [compiler, '-p', 'tsconfig.build.json']);
    if (code !== 0) fail('the build failed');
    mkdirSync(DIST, { recursive: true });
    writeFileSync(STAMP, wanted);
  });
}

if (isMain(import.meta.url)) await ensureBuild();
