import { defineConfig } from 'vitest/config';

/**
 * Units beside their modules; then tests that start whole processes, in `test/`; then those of the protocol once more with all data cold (`test/support/cold-pass.ts`).
 */
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
      {
        test: {
          name: 'cold',
          // What tests the protocol on a node. The names of tests are the same as in the pass before: a report tells them apart by the project.
          include: ['test/rows/**/*.test.ts', 'test/conformance.test.ts'],
          // All of its nodes seal when their tests say so: it would be the same once more.
          exclude: ['test/rows/98-store-faults.test.ts'],
          env: { FIRN_TEST_PASS: 'cold' },
          globalSetup: ['test/support/build.ts'],
          pool: 'forks',
          maxWorkers: 4,
          testTimeout: 60_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
