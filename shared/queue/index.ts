/** Background jobs: see `types.ts` for the seam. */
export { EmbeddedRunner, type EmbeddedRunnerOptions } from './embedded-runner.js';
export { QueueRunner, type QueueRunnerOptions } from './queue-runner.js';
export { JOB_KINDS, type Job, type JobHandler, type JobHandlers, type JobKind, type JobRun, type JobRunner, type JobStats } from './types.js';
