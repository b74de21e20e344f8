/**
 * What a failing store means to a client (I9): damage is a 5xx with a metric and a log line, never absence; a store that is busy or being opened
 * again is a 503.
 */
import { BadBytes } from '../../../shared/storage/codec.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { HotDamaged, HotStoreBusy, HotStoreCorrupt, HotStorePoisoned } from '../hot/errors.js';
import { StoreClosed } from '../hot/store.js';
import type { LogContext } from './context.js';

/** The refusal for an error that came up from the stores; refusals, and errors that are none of theirs, pass as they are. */
export function refusalOf(ctx: Pick<LogContext, 'metrics' | 'logger'>, key: StreamKey, error: unknown): unknown {
  if (error instanceof FirnError) return error;
  if (error instanceof StoreClosed || error instanceof HotStorePoisoned) return new FirnError('GROUP_RESTARTING', { cause: error });
  if (error instanceof HotStoreBusy) return new FirnError('LIVE_READ_BACKPRESSURE', { cause: error });
  if (error instanceof HotDamaged || error instanceof HotStoreCorrupt || error instanceof BadBytes) {
    ctx.metrics.damage.hot.add();
    ctx.logger.error({ err: error, event: 'damage', tier: 'hot', stream: key }, 'stored bytes are missing or damaged');
    return new FirnError('INTERNAL', { cause: error });
  }
  // The disk filled up before the next look at it (R008).
  if (isNoSpace(error)) return new FirnError('WAL_DISK_PRESSURE', { cause: error });
  return error;
}

function isNoSpace(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT';
}
