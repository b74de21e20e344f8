/**
 * `docs/conformance.md`: which test stands for which requirement row, and the rule in the words of that test.
 *
 * Owns: the count of rows of each section, and the rows without a test with the reason. Promises: the page is made from the names of the tests alone; a row that has
 * neither a test nor a reason, a reason for a row that has a test, and a name with a row that does not exist are errors.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Sections of the requirements for a server, with their prefixes and the number of rows of each. */
const SECTIONS: readonly (readonly [section: number, title: string, rows: Readonly<Record<string, number>>])[] = [
  [1, 'Identifiers, buckets, paths', { ID: 18, BKT: 10, PATH: 9 }],
  [2, 'Create', { CRE: 23 }],
  [3, 'Append', { APP: 19 }],
  [4, 'Close', { CLO: 19 }],
  [5, 'Delete', { DEL: 8 }],
  [6, 'Head', { HD: 13 }],
  [7, 'Catch-up read', { READ: 24 }],
  [8, 'Long-poll', { LP: 16 }],
  [9, 'SSE', { SSE: 25 }],
  [10, 'Binary SSE', { BIN: 10 }],
  [11, 'JSON message text', { JSON: 24 }],
  [12, 'Offsets and sentinels', { OFF: 18 }],
  [13, 'Idempotent producers', { PROD: 25 }],
  [14, 'Stream-Seq', { SEQ: 9 }],
  [15, 'TTL and expiry', { TTL: 12 }],
  [16, 'Caching, ETag, cursor', { CACHE: 18 }],
  [17, 'Security headers and transport', { SEC: 8 }],
  [18, 'Snapshots', { SNAP: 35 }],
  [19, 'Retention', { RET: 19 }],
  [20, 'Incarnation', { INC: 25 }],
  [21, 'Bootstrap', { BOOT: 28 }],
  [22, 'Response size', { SIZE: 12 }],
  [23, 'Leader consistency', { LEAD: 9 }],
  [24, 'Cacheable incarnation routes', { CINC: 10 }],
  [25, 'Errors', { ERR: 14 }],
  [26, 'Write outcomes', { WO: 8 }],
  [27, 'Redirects and gateway', { RDR: 14 }],
  [28, 'Forks', { FORK: 40 }],
  [29, 'Subscriptions', { SUB: 57 }],
];

const CLUSTER = 'needs several nodes';

const WITHOUT_TEST: Readonly<Record<string, string>> = {
  'LEAD-06': CLUSTER,
  'LEAD-08': CLUSTER,
  ...Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`RDR-${String(i + 1).padStart(2, '0')}`, CLUSTER])),
  'SEC-05': 'TLS ends in front of the node, as `docs/operations.md` says; links follow `FIRN_PUBLIC_URL` then (CRE-10 in `services/api/http/app.test.ts`)',
  'SEC-07': 'a rate is for what stands in front of the node; it limits what it holds itself (`test/bad-input/limits.test.ts`)',
};

const TEST_NAME = /\bit(?:\.each\([\s\S]*?\)|\.runIf\([^)]*\))?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g;
const ROW = /\b[A-Z]{2,5}-[0-9]{2}\b/g;
/** Ids at the beginning of a test's name: of rows, reported faults and invariants. */
const IDS = /^(?:(?:[A-Z]{2,5}-[0-9]{2}|R[0-9]{3}|I[0-9]{1,2}) )+/;

/** What stands for a row. */
interface Tested {
  readonly files: string[];
  /** The rule, in the words of the test that is nearest to it. */
  rule: string;
  /** How far from the row that test is: smaller is nearer. */
  distance: number;
}

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

/** Row -> the tests of that name. */
function testsByRow(project: string, known: ReadonlySet<string>): Map<string, Tested> {
  const prefixes = new Set([...known].map((row) => row.split('-')[0]));
  const found = new Map<string, Tested>();
  for (const path of ['services', 'shared', 'test'].flatMap((folder) => testFiles(project, folder))) {
    for (const [, , name = ''] of readFileSync(join(project, path), 'utf8').matchAll(TEST_NAME)) {
      for (const { 0: row, index } of name.matchAll(ROW)) {
        if (!known.has(row)) {
          if (prefixes.has(row.split('-')[0] as string)) throw new Error(`${path}: a test names ${row}, which is no row`);
          continue;
        }
        const tested = found.get(row) ?? { files: [], rule: '', distance: Infinity };
        found.set(row, tested);
        if (!tested.files.includes(path)) tested.files.push(path);
        // Tests over HTTP first, and of these one that names the row first.
        const distance = (path.startsWith('test/rows/') ? 0 : path.startsWith('test/') ? 1_000 : 2_000) + index;
        if (distance < tested.distance) Object.assign(tested, { distance, rule: sentence(name) });
      }
    }
  }
  return found;
}

/** A test's name without its ids, fit for a table. */
function sentence(name: string): string {
  return name.replace(IDS, '').replaceAll(/\$\{[^}]*\}/g, '…').replaceAll('\\', '').replaceAll('|', '\\|');
}

/** The page. Throws when rows, tests and reasons do not fit together. */
export function conformancePage(project: string): string {
  const rowsOf = (rows: Readonly<Record<string, number>>): string[] =>
    Object.entries(rows).flatMap(([prefix, count]) => Array.from({ length: count }, (_, i) => `${prefix}-${String(i + 1).padStart(2, '0')}`));
  const all = SECTIONS.flatMap(([, , rows]) => rowsOf(rows));
  const tests = testsByRow(project, new Set(all));
  const state = (row: string): string => {
    const reason = WITHOUT_TEST[row];
    const tested = tests.get(row);
    if (tested === undefined) {
      if (reason === undefined) throw new Error(`${row} has no test and no reason`);
      return `| ${row} | ${reason} | not tested | |`;
    }
    if (reason !== undefined) throw new Error(`${row} has a test and a reason for having none`);
    const overHttp = tested.files.some((path) => path.startsWith('test/'));
    return `| ${row} | ${tested.rule} | ${overHttp ? 'tested' : 'unit tests'} | ${tested.files.map((path) => `\`${path}\``).join(' ')} |`;
  };
  const sections = SECTIONS.map(([section, title, rows]) => `## ${section}. ${title}\n\n| row | rule, or why it is not tested | state | tests |\n| --- | --- | --- | --- |\n${rowsOf(rows).map(state).join('\n')}\n`);
  return `# Conformance

Which tests stand for which requirement row, and the rule in the words of one of them; a row's id is in the name of its tests. Made by \`npm run docs\` from those names;
\`npm test\` fails when this page differs, when a row has neither a test nor a reason, and when a test named here fails. ${tests.size} of ${all.length} rows are tested: over HTTP on a
running node, or by unit tests alone where the page says so.
The public suite \`@durable-streams/server-conformance-tests\` runs unmodified beside them (\`test/conformance.test.ts\`). It and the tests in \`test/rows\` run twice, under the same names: on hot data, and
(\`npx vitest run --project cold\`) with data that is sealed and evicted within milliseconds, while compaction, checkpoints and collection never rest (\`test/support/cold-pass.ts\`).

${sections.join('\n')}`;
}
