/**
 * Installs the packages of the lockfile when what is in `node_modules` is not exactly that. Checks the Node version first.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exclusively, fail, isMain, PROJECT, run } from './lib.mjs';

const NODE_MIN = [20, 19];

export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return;
  fail(`Node ${NODE_MIN.join('.')} or newer is needed, this is ${process.version}`);
}

function packagesOf(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages ?? {};
}

/** Why an installation is due; null when `node_modules` holds the packages of the lockfile. */
export function depsProblem(project = PROJECT) {
  const installedFile = join(project, 'node_modules', '.package-lock.json');
  if (!existsSync(installedFile)) return 'nothing is installed yet';
  const installed = packagesOf(installedFile);
  for (const [path, wanted] of Object.entries(packagesOf(join(project, 'package-lock.json')))) {
    if (path === '') continue;
    const have = installed[path];
    // Optional packages are those of other platforms too: they may be missing, not be another version.
    if (have === undefined && wanted.optional === true) continue;
    if (have === undefined) return `${path} is missing`;
    if (have.version !== wanted.version) return `${path} is ${have.version} instead of ${wanted.version}`;
    if (!existsSync(join(project, path))) return `${path} is gone`;
  }
  return null;
}

export async function ensureDeps() {
  checkNode();
  if (depsProblem() === null) return;
  await exclusively(async () => {
    const problem = depsProblem();
    if (problem === null) return;
    process.stderr.write(`firn: installing packages (${problem})\n`);
    // Under `npm run` npm names its own program; without it the one beside this Node, then the one on the path.
    const npm = process.env.npm_execpath;
    const [command, before] = npm !== undefined && npm.endsWith('.js') ? [process.execPath, [npm]] : ['npm', []];
    const code = await run(command, [...before, 'ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
    if (code !== 0) fail(`npm ci ended with ${code}`);
    const after = depsProblem();
    if (after !== null) fail(`npm ci went through, and still ${after}`);
  });
}

if (isMain(import.meta.url)) await ensureDeps();
