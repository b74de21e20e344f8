/** Where things are, seen from the tests. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the project. */
export const PROJECT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const manifest = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')) as { bin: { firn: string } };

/** The program under test. */
export const FIRN = join(PROJECT, manifest.bin.firn);
