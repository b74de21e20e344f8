/** Settings of the process that runs the public suite. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/conformance/suite.ts'],
    // The default of the suite's own runner.
    testTimeout: 30_000,
    pool: 'forks',
  },
});
