/**
 * Named steps of sealing, offload, compaction, collection and claiming, for tests that stop a node at each of them.
 *
 * Owns: the hook. In production nothing is passed and a step costs one call. A hook that throws ends the work there and then, as a crash would:
 * nothing in these modules cleans up after it that a start would not clean up as well.
 */
export type Steps = (name: StepName) => void | Promise<void>;

export type StepName =
  | 'claim:intent' | 'claim:created' | 'claim:bound' | 'claim:fenced'
  | 'plan:opened'
  | 'seal:uploaded' | 'seal:checked'
  | 'offload:uploaded' | 'offload:checked'
  | 'compact:planned' | 'compact:uploaded' | 'compact:checked'
  | 'log:put'
  | 'apply:slice' | 'apply:done'
  | 'evict:slice'
  | 'collect:chosen' | 'collect:logged' | 'collect:done';

export const noSteps: Steps = () => undefined;
