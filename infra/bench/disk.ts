/**
 * The disk between two runs.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** What servers wrote and did not sync goes to the disk now, and not while the next one is measured: a server that syncs would wait for the pages of one that does not. */
export async function settleDisk(): Promise<void> {
  await promisify(execFile)('sync');
}
