/** The end of running jobs: they may finish, are told to give up when the time is nearly over, and are left behind when it is. */

/** Share of the grace after which running jobs are told to give up. */
const ABORT_AFTER_SHARE = 0.8;

/** Resolves when `work` has ended, at the latest after `graceMs`. */
export async function withinGrace(work: Promise<unknown>, graceMs: number, giveUp: AbortController): Promise<void> {
  const reason = new Error('the process is stopping');
  const abort = setTimeout(() => giveUp.abort(reason), graceMs * ABORT_AFTER_SHARE);
  let limit: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    limit = setTimeout(resolve, graceMs);
  });
  await Promise.race([work, late]);
  clearTimeout(abort);
  clearTimeout(limit);
  giveUp.abort(reason);
}
