/**
 * Multipart uploads that killed processes left: they cost money, and no listing of objects shows them (R041).
 *
 * Owns: finding them and aborting them. Promises: by the server's own clock, whatever the one here says; one that somebody ends or aborts meanwhile is no failure.
 */
import { ListMultipartUploadsCommand, type ListMultipartUploadsCommandOutput } from '@aws-sdk/client-s3';
import { StoreRefused, type UploadSweep } from '../object-store.js';
import { TryFailed } from './failures.js';
import { abortUpload } from './multipart.js';
import type { Requests } from './requests.js';

interface Page extends ListMultipartUploadsCommandOutput {
  /** When the server made it, ms since 1970. */
  readonly madeMs: number;
}

/** Answers how many were aborted. */
export async function abortLeftovers(requests: Requests, { isOwn, olderThanMs, signal }: UploadSweep): Promise<number> {
  const inBucket = requests.nameOf('');
  let aborted = 0;
  for (let page: Page | null = null; page === null || page.IsTruncated === true; ) {
    const next: Page = await pageOf(requests, page, signal);
    if (page !== null && next.NextKeyMarker === page.NextKeyMarker && next.NextUploadIdMarker === page.NextUploadIdMarker) throw new StoreRefused(`the server lists the same uploads again behind ${page.NextKeyMarker}`);
    page = next;
    for (const { Key: name = '', UploadId: id, Initiated: begun } of page.Uploads ?? []) {
      const old = begun !== undefined && page.madeMs - begun.getTime() >= olderThanMs;
      if (id === undefined || !old || !name.startsWith(inBucket) || !isOwn(name.slice(inBucket.length))) continue;
      if (await abortUpload(requests, { Bucket: requests.bucket, Key: name, UploadId: id }, signal)) aborted++;
    }
  }
  return aborted;
}

/** Of all uploads in the bucket: MinIO lists none under a prefix that is not a whole name. */
function pageOf(requests: Requests, before: Page | null, signal: AbortSignal | undefined): Promise<Page> {
  const input = { Bucket: requests.bucket, KeyMarker: before?.NextKeyMarker, UploadIdMarker: before?.NextUploadIdMarker };
  return requests.run('list of uploads', signal, async ({ watch }) => {
    let madeMs = NaN;
    const listing = new ListMultipartUploadsCommand(input);
    listing.middlewareStack.add((next) => async (args) => {
      const result = await next(args);
      madeMs = Date.parse((result.response as { headers: Record<string, string> }).headers['date'] ?? '');
      return result;
    }, { step: 'deserialize', priority: 'low', name: 'dateOfAnswer' });
    const page = await requests.client.send(listing, { abortSignal: watch.signal });
    if (page.IsTruncated === undefined || Number.isNaN(madeMs)) throw new TryFailed('the page is not whole, or has no date');
    return { ...page, madeMs };
  });
}
