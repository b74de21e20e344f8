/** Cuts the changes of a log record into slices that are applied one batch row after another (architecture section 6, step 5). */
import type { LogDelta } from '../../../shared/storage/records/types.js';
import { SLICE_BYTES_MAX, SLICE_STREAMS_MAX } from './limits.js';

/** About what the rows of a reference, of a stream and of a small change take, bytes. */
const REF_BYTES = 100;
const STREAM_BYTES = 400;
const SMALL_BYTES = 100;

function bytesOf(delta: LogDelta): number {
  if (delta.kind === 'seal') return STREAM_BYTES + delta.refs.length * REF_BYTES;
  if (delta.kind === 'compact') return STREAM_BYTES + delta.ranges.reduce((sum, { refs, was }) => sum + (refs.length + was.refs) * REF_BYTES, 0);
  if (delta.kind === 'collect') return delta.objects.length * SMALL_BYTES;
  return SMALL_BYTES;
}

/** The same cut every time, so that a count of slices says what was done. A single large change is a slice of its own. */
export function slicesOf(deltas: readonly LogDelta[]): (readonly LogDelta[])[] {
  const slices: LogDelta[][] = [];
  let slice: LogDelta[] = [];
  let bytes = 0;
  for (const delta of deltas) {
    const more = bytesOf(delta);
    if (slice.length > 0 && (slice.length >= SLICE_STREAMS_MAX || bytes + more > SLICE_BYTES_MAX)) {
      slices.push(slice);
      slice = [];
      bytes = 0;
    }
    slice.push(delta);
    bytes += more;
  }
  if (slice.length > 0) slices.push(slice);
  return slices;
}
