/**
 * The linear log of a partition, read from the object store alone (I10).
 *
 * Owns: the order of log records over sessions. Promises: records come in the one order that there is, none is skipped; a hole in a session's numbers,
 * or an earlier session without its fence, is an error and never the end (I9).
 */
import { ObjectDamaged, type ObjectStore } from '../object-store.js';
import { logKey, logPrefix, parseLogKey } from '../keys.js';
import type { LogEntry, LogRecord } from '../records/types.js';
import { readLogEntry } from './log-entries.js';

/** Log entries fetched ahead of the one that is worked on. */
const LOG_READ_AHEAD = 8;

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

interface Fetched {
  readonly entry: LogEntry;
  readonly bytes: number;
}

/** Entries of one session from after `after`, in order, a few fetched ahead. */
async function* entriesOf(walk: LogWalk, session: number, after: number): AsyncGenerator<Fetched> {
  const { store, partition, signal } = walk;
  const ahead: Promise<Fetched>[] = [];
  let expected = after + 1;
  const from = after === 0 ? undefined : logKey(partition, session, after);
  for await (const { key, bytes } of store.list(logPrefix(partition, session), from)) {
    signal?.throwIfAborted();
    const listed = parseLogKey(key);
    if (listed === null) continue;
    if (listed.seq !== expected) throw new ObjectDamaged(logKey(partition, session, expected), 'this log entry is missing');
    const seq = expected;
    const fetched = readLogEntry(store, partition, session, seq).then((entry) => ({ entry, bytes }));
    fetched.catch(() => undefined);
    ahead.push(fetched);
    expected++;
    if (ahead.length >= LOG_READ_AHEAD) yield await (ahead.shift() as Promise<Fetched>);
  }
  for (const fetched of ahead) yield await fetched;
}
