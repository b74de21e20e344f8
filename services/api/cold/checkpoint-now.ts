/**
 * Checkpoints that somebody asked for.
 *
 * Owns: the empty record that makes room for one. Promises: when the newest is damaged, one that is whole lies behind it afterwards.
 */
import type { CheckpointReport } from '../../worker/node-port.js';
import type { PartitionCold } from './partition-cold.js';
import type { PartitionRuns } from './partition-runs.js';

/** Rejects with what went wrong, or with the signal's reason. */
export async function checkpointOf(partition: PartitionCold, runs: PartitionRuns<CheckpointReport>, signal: AbortSignal): Promise<CheckpointReport> {
  const report = await runs.run(partition, signal);
  const isWritten = report.damaged === 0 || report.bytes > 0;
  return isWritten ? report : checkpointFurtherOn(partition, runs, signal);
}

/** Two checkpoints cannot lie at one place of the log: an empty record parts them. */
export async function checkpointFurtherOn(partition: PartitionCold, runs: PartitionRuns<CheckpointReport>, signal: AbortSignal): Promise<CheckpointReport> {
  await partition.commit({ plan: null, objects: [], deltas: [{ kind: 'collect', objects: [] }] }, null);
  return runs.run(partition, signal);
}
