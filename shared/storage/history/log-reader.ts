/**
 * The linear log of a partition, read from the object store alone (I10).
 *
 * Owns: the order of log records over sessions. Promises: records come in the one order that there is, none is skipped; a hole in a session's numbers,
 * or an earlier session without its fence, is an error and never the end (I9).
 */
import { ObjectDamaged, type ObjectStore } from '../object-store.js';
import { logKey, logPrefix, parseLogKey } from '../keys.js';
import type { LogEntry, LogRecord } from '../records/types.js';
import { logEntryOf } from './log-entries.js';

/** Log entries fetched ahead of the one that is worked on, and their stored bytes; one is fetched whatever its length. */
const LOG_READ_AHEAD = 8;
const LOG_READ_AHEAD_BYTES = 8_388_608;

/** A place in the log: everything up to and with `seq` of `session` lies before it. Session 0: the beginning. */
export interface LogPosition {
  readonly session: number;
  readonly seq: number;
}

export const LOG_START: LogPosition = { session: 0, seq: 0 };

/** Negative, zero or positive, as `a` lies before, at or behind `b`. */
export function comparePositions(a: LogPosition, b: LogPosition): number {
  return a.session - b.session || a.seq - b.seq;
}

export interface LogWalk {
  readonly store: ObjectStore;
  readonly partition: number;
  readonly after: LogPosition;
  /** Last session to read. */
  readonly until: number;
  /** The last session still runs: its log may end without a fence. */
  readonly live: boolean;
  readonly signal?: AbortSignal;
}

export interface ReadRecord {
  readonly record: LogRecord;
  /** Stored length. */
  readonly bytes: number;
}

/** Every record after a position, in order. */
export async function* readLog(walk: LogWalk): AsyncGenerator<ReadRecord> {
  const first = Math.max(1, walk.after.session);
  for (let session = first; session <= walk.until; session++) {
    const after = session === walk.after.session ? walk.after.seq : 0;
    let fenced = false;
    for await (const { entry, bytes } of entriesOf(walk, session, after)) {
      if (fenced) throw new ObjectDamaged(logKey(walk.partition, session, entry.seq), 'lies behind the fence of its session');
      if (entry.kind === 'fence') fenced = true;
      else yield { record: entry, bytes };
    }
    const mayBeOpen = walk.live && session === walk.until;
    if (!fenced && !mayBeOpen) throw new ObjectDamaged(logPrefix(walk.partition, session), 'the log of this session ends without its fence');
  }
}

interface Read {
  readonly entry: LogEntry;
  readonly bytes: number;
}

interface Fetched {
  readonly seq: number;
  readonly bytes: number;
  readonly stored: Promise<Buffer>;
}

/** Entries of one session from after `after`, in order, a few fetched ahead: as they are stored, for one of them unpacked may be 16,384 streams. */
async function* entriesOf(walk: LogWalk, session: number, after: number): AsyncGenerator<Read> {
  const { store, partition, signal } = walk;
  const ahead: Fetched[] = [];
  let aheadBytes = 0;
  let expected = after + 1;
  const next = async (): Promise<Read> => {
    const { seq, bytes, stored } = ahead.shift() as Fetched;
    aheadBytes -= bytes;
    return { entry: logEntryOf(await stored, partition, session, seq), bytes };
  };
  const from = after === 0 ? undefined : logKey(partition, session, after);
  for await (const { key, bytes } of store.list(logPrefix(partition, session), from)) {
    signal?.throwIfAborted();
    const listed = parseLogKey(key);
    if (listed === null) continue;
    if (listed.seq !== expected) throw new ObjectDamaged(logKey(partition, session, expected), 'this log entry is missing');
    while (ahead.length > 0 && (ahead.length >= LOG_READ_AHEAD || aheadBytes + bytes > LOG_READ_AHEAD_BYTES)) yield await next();
    const stored = store.get(key);
    // Thrown where that entry is asked for.
    stored.catch(() => undefined);
    ahead.push({ seq: expected++, bytes, stored });
    aheadBytes += bytes;
  }
  while (ahead.length > 0) yield await next();
}
