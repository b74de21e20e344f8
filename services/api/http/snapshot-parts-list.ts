/**
 * The body of a commit of snapshot parts: ids of staged parts in the order of the snapshot, each ended by LF.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { PART_ID_CHARS_MAX } from './limits.js';

const PART_ID = new RegExp(`^[\\x21-\\x7e]{1,${PART_ID_CHARS_MAX}}$`);

/** The ids of a list that announced `count` of them. Throws INVALID_PARTS_COMMIT: another number, a repeat, or anything that is no id. */
export function parsePartsList(body: Buffer, count: number): readonly string[] {
  const lines = body.toString('latin1').split('\n');
  // Behind the last LF there is nothing.
  if (lines.pop() !== '') throw invalid('the list ends with an LF behind its last id');
  if (lines.length !== count) throw invalid(`stream-snapshot-parts says ${count}, and the list has another number of lines`);
  if (!lines.every((line) => PART_ID.test(line))) throw invalid(`an id has 1 to ${PART_ID_CHARS_MAX} visible ascii characters`);
  if (new Set(lines).size !== count) throw invalid('the list names a part twice');
  return lines;
}

function invalid(detail: string): FirnError {
  return new FirnError('INVALID_PARTS_COMMIT', { detail });
}
