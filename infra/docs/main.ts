/** `npm run docs`: writes the pages that are made from tables in the code. */
import { writeFileSync } from 'node:fs';
import { pages } from './pages.js';

for (const page of pages()) {
  writeFileSync(page.path, page.text);
  process.stdout.write(`${page.path}\n`);
}
