/**
 * The settings as people read them: rows for `--help`, and the table of `docs/configuration.md`.
 */
import { flagOf, VARIABLES, type Variable } from './variables.js';

export interface SettingDescription {
  /** Key in `Config` flags: `sealAgeMs`. */
  readonly key: string;
  readonly variable: string;
  /** With its dashes: `--seal-age-ms`. */
  readonly flag: string;
  readonly defaultText: string;
  readonly allowed: string;
  readonly meaning: string;
  readonly boolean: boolean;
}

/** Every setting, in the order of the table. */
export function describeConfig(): SettingDescription[] {
  return (Object.entries(VARIABLES) as [string, Variable<unknown>][]).map(([key, variable]) => ({
    key,
    variable: variable.name,
    flag: `--${flagOf(variable.name)}`,
    defaultText: variable.defaultText,
    allowed: variable.allowed,
    meaning: variable.meaning,
    boolean: variable.boolean,
  }));
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('*', '\\*');
}

/** The whole text of `docs/configuration.md`. */
export function configurationPage(): string {
  const rows = describeConfig().map((row) => {
    const value = /^[\w./]+$/.test(row.defaultText) && row.defaultText !== 'none' ? `\`${row.defaultText}\`` : row.defaultText;
    return `| \`${row.variable}\` | ${cell(value)} | ${cell(row.allowed)} | ${cell(row.meaning)} |`;
  });
  return `# Configuration

Made from the settings table in \`shared/config/variables.ts\` by \`npm run docs\`; a test keeps the two equal.

Every setting is an environment variable, and a flag of the same name: \`FIRN_SEAL_AGE_MS=5000 npx firn serve\` and
\`npx firn serve --seal-age-ms 5000\` are the same. A flag wins over the variable. An empty variable counts as not set.
Sizes are in bytes and periods in milliseconds, as plain numbers. Everything is checked at start: a wrong value ends the process with
exit code 2 and a line that names the setting, its value (secrets are hidden) and what is allowed. A \`FIRN_…\` variable that is not in
this table is reported in the log and has no effect.

| variable | default | allowed | meaning |
| --- | --- | --- | --- |
${rows.join('\n')}

Rules between settings:

- Without \`FIRN_AUTH\` the client listener stays on loopback, unless \`FIRN_ALLOW_OPEN=1\`.
- The admin listener needs \`FIRN_ADMIN_TOKEN\` when it listens beyond loopback.
- \`FIRN_COLD=s3\` needs \`FIRN_S3_BUCKET\`; \`FIRN_JOBS=queue\` and \`both\` need \`FIRN_REDIS_URL\`.
- \`FIRN_S3_SSE_KMS_KEY_ID\` needs \`FIRN_S3_SSE=aws:kms\`.
- With \`FIRN_COLD=none\` a snapshot has at most 33554432 bytes.
- \`FIRN_COLD\` and \`FIRN_PARTITIONS\` are fixed when a store is created: a directory that was made with another cold tier is refused, one with other partitions keeps its own.
- Not in this version, and refused at start: \`FIRN_AUTH\`. \`FIRN_WEBHOOK_ALLOW\` has no effect yet.

\`UV_THREADPOOL_SIZE\` (threads for RocksDB, files and compression) is set to 16 by \`npm start\` and \`npx firn\` unless it is set already.
`;
}
