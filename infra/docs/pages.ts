/**
 * The pages of `docs/` that are made from tables in the code.
 *
 * Owns: which pages these are. Promises: a page depends on the code alone, so that a test can compare it with the file.
 */
import { configurationPage } from '../../shared/config/index.js';
import { conformancePage } from './conformance.js';
import { PROJECT } from '../lib/firn-process.js';
import { ERRORS } from '../../shared/protocol/errors.js';

export interface Page {
  /** Below the project. */
  readonly path: string;
  readonly text: string;
}

function errorsPage(): string {
  const rows = Object.entries(ERRORS)
    .sort(([, a], [, b]) => a.status - b.status)
    .map(([code, { status, sentence, retryAfter }]) => `| ${status} | \`${code}\` | ${sentence}${retryAfter === undefined ? '' : ` (\`Retry-After: ${retryAfter}\`)`} |`);
  return `# Errors

Made from the table in \`shared/protocol/errors.ts\` by \`npm run docs\`; a test keeps the two equal.

A refusal has the status below and the body \`{"error":{"code":"…","message":"…"}}\`. The code is stable and is what programs should look at; the message
of a 4xx may say more about the request. In a live read that has begun a refusal comes as an \`error\` event with the same object.

Nothing was stored after a 4xx other than 408. After a 5xx a write may have been applied, unless the code says that it was refused beforehand;
with producer headers the same write can safely be sent again.

| status | code | meaning |
| --- | --- | --- |
${rows.join('\n')}
`;
}

/** Every generated page. */
export function pages(): Page[] {
  return [
    { path: 'docs/configuration.md', text: configurationPage() },
    { path: 'docs/errors.md', text: errorsPage() },
    { path: 'docs/conformance.md', text: conformancePage(PROJECT) },
  ];
}
