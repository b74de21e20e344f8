/**
 * `docs/conformance.md`: which test stands for which requirement row.
 *
 * Owns: the count of rows of each section, and the rows without a test with the reason. Promises: the page is made from the names of the tests alone; a row that has
 * neither a test nor a reason, a reason for a row that has a test, and a name with a row that does not exist are errors.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Sections of the requirements for a server, with their prefixes and the number of rows of each. */
const SECTIONS: readonly (readonly [title: string, rows: Readonly<Record<string, number>>])[] = [
  ['Identifiers, buckets, paths', { ID: 18, BKT: 10, PATH: 9 }],
  ['Create', { CRE: 23 }],
  ['Append', { APP: 19 }],
  ['Close', { CLO: 19 }],
  ['Delete', { DEL: 8 }],
  ['Head', { HD: 13 }],
  ['Catch-up read', { READ: 24 }],
  ['Long-poll', { LP: 16 }],
  ['SSE', { SSE: 25 }],
  ['Binary SSE', { BIN: 10 }],
  ['JSON message text', { JSON: 24 }],
  ['Offsets and sentinels', { OFF: 18 }],
  ['Idempotent producers', { PROD: 25 }],
  ['Stream-Seq', { SEQ: 9 }],
  ['TTL and expiry', { TTL: 12 }],
  ['Caching, ETag, cursor', { CACHE: 18 }],
  ['Security headers and transport', { SEC: 8 }],
  ['Snapshots', { SNAP: 35 }],
  ['Retention', { RET: 19 }],
  ['Incarnation', { INC: 25 }],
  ['Bootstrap', { BOOT: 28 }],
  ['Response size', { SIZE: 12 }],
  ['Leader consistency', { LEAD: 9 }],
  ['Cacheable incarnation routes', { CINC: 10 }],
  ['Errors', { ERR: 14 }],
  ['Write outcomes', { WO: 8 }],
];

const FORKS = 'needs forks, which this version does not have';
const FAULT = 'needs a fault that no client can cause; to come with the fault proxy before the object store';
const CLUSTER = 'needs several nodes';
const DEPLOYMENT = 'a property of a deployment, not of the server';

const WITHOUT_TEST: Readonly<Record<string, string>> = {
  'DEL-05': FORKS,
  'DEL-06': FORKS,
  'SNAP-09': FAULT,
  'SNAP-10': FAULT,
  'RET-07': FAULT,
  'WO-02': FAULT,
  'LEAD-06': CLUSTER,
  'LEAD-08': CLUSTER,
  'ERR-08': CLUSTER,
  'SEC-04': DEPLOYMENT,
  'SEC-05': DEPLOYMENT,
  'SEC-07': 'this version limits no rates',
  'JSON-22': 'about data older than the rule: there is none',
  'TTL-08': 'allows either outcome',
  'ERR-10': 'about the operator routes of another server',
  'ERR-11': 'about servers that lack an operation: this one has them all',
};

const TEST_NAME = /\bit(?:\.each\([\s\S]*?\)|\.runIf\([^)]*\))?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g;
const ROW = /\b[A-Z]{2,5}-[0-9]{2}\b/g;

/** Paths of the test files below a folder of the project, in order. */
function testFiles(project: string, folder: string): string[] {
  return readdirSync(join(project, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : testFiles(project, path);
      return entry.name.endsWith('.test.ts') ? [path] : [];
    })
    .sort();
}

/** Row -> files with a test of that name. */
function testsByRow(project: string, known: ReadonlySet<string>): Map<string, string[]> {
  const prefixes = new Set([...known].map((row) => row.split('-')[0]));
  const found = new Map<string, string[]>();
  for (const path of ['services', 'shared', 'test'].flatMap((folder) => testFiles(project, folder))) {
    for (const [, , name = ''] of readFileSync(join(project, path), 'utf8').matchAll(TEST_NAME)) {
      for (const [row] of name.matchAll(ROW)) {
        if (!known.has(row)) {
          if (prefixes.has(row.split('-')[0] as string)) throw new Error(`${path}: a test names ${row}, which is no row`);
          continue;
        }
        const files = found.get(row) ?? [];
        if (!files.includes(path)) files.push(path);
        found.set(row, files);
      }
    }
  }
  return found;
}

/** The page. Throws when rows, tests and reasons do not fit together. */
export function conformancePage(project: string): string {
  const rowsOf = (rows: Readonly<Record<string, number>>): string[] =>
    Object.entries(rows).flatMap(([prefix, count]) => Array.from({ length: count }, (_, i) => `${prefix}-${String(i + 1).padStart(2, '0')}`));
  const all = SECTIONS.flatMap(([, rows]) => rowsOf(rows));
  const tests = testsByRow(project, new Set(all));
  const state = (row: string): string => {
    const reason = WITHOUT_TEST[row];
    const files = tests.get(row);
    if (files === undefined && reason === undefined) throw new Error(`${row} has no test and no reason`);
    if (files !== undefined && reason !== undefined) throw new Error(`${row} has a test and a reason for having none`);
    return `| ${row} | ${files === undefined ? `none: ${reason}` : files.map((path) => `\`${path}\``).join(' ')} |`;
  };
  const sections = SECTIONS.map(([title, rows], i) => `## ${i + 1}. ${title}\n\n| row | tests |\n| --- | --- |\n${rowsOf(rows).map(state).join('\n')}\n`);
  return `# Conformance

Which tests stand for which requirement row; a row's id is in the name of its tests. Made by \`npm run docs\` from those names; \`npm test\` fails when this page differs,
when a row has neither a test nor a reason, and when a test named here fails. ${tests.size} of ${all.length} rows are tested, over HTTP on a running node for everything in \`test/\`.
The public suite \`@durable-streams/server-conformance-tests\` runs unmodified beside them (\`test/conformance.test.ts\`).

${sections.join('\n')}`;
}
