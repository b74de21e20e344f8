import { defineConfig } from 'vitest/config';

/** Two kinds of tests: units beside their modules, and tests that start whole processes, in `test/`, after the units. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['services/**/*.test.ts', 'shared/**/*.test.ts', 'infra/**/*.test.ts'],
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 20_000,
          hookTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          // The public conformance suite wants a running node and has a runner of its own.
          exclude: ['test/conformance/**'],
          // Compiles the project once, so that tests start the very program that `npm start` starts.
          globalSetup: ['test/support/build.ts'],
          pool: 'forks',
          // Each file starts nodes of its own: two at a time is what two cores carry without making deadlines meaningless.
          maxWorkers: 2,
          testTimeout: 60_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
