/** How the damage of one stream's rows is told where the others go on: a count and a line of the log (I9, R123). */
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import type { ColdMetrics } from './cold-metrics.js';

export interface DamageTold {
  /** A row that a record would have taken away. */
  unneeded(key: StreamKey, error: Error): void;
  /** The state that a log record changes. */
  behind(key: StreamKey, error: Error): void;
  /** A row of a deleted life; null: which stream's is damaged, too. */
  doomed(key: StreamKey | null, error: Error): void;
}

export function damageTold(partition: number, logger: Logger, metrics: Pick<ColdMetrics, 'damage'>): DamageTold {
  const tell = (stream: StreamKey | null, err: Error, event: string, what: string): void => {
    metrics.damage('hot');
    logger.error({ err, event, partition, stream }, what);
  };
  return {
    unneeded: (key, error) => tell(key, error, 'row-damaged', 'a row that is not needed any more is damaged: it stays, and what it names is kept'),
    behind: (key, error) => tell(key, error, 'stream-behind', 'a stream could not be read when a log record was applied: it is sealed no more, and everything of it is kept'),
    doomed: (key, error) => tell(key, error, 'doomed-damaged', 'a row of a deleted stream is damaged: what is left of it stays, and what it names is kept'),
  };
}
