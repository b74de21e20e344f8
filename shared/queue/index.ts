/** Background jobs: see `types.ts` for the seam. `queue-runner.ts` is not in here: it loads BullMQ, 20 MB that a node without Redis has no use for. */
export { EmbeddedRunner, type EmbeddedRunnerOptions } from './embedded-runner.js';
export { JOB_KINDS, type Job, type JobHandler, type JobHandlers, type JobKind, type JobRun, type JobRunner, type JobStats } from './types.js';
