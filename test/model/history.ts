/**
 * Whether what clients saw of one stream can have happened one after the other (linearizability), for any number of clients at once and lost answers.
 *
 * An append-only log makes this easy to decide. What an append or an observation says about the stream is a place in the log, so the one order that all operations must have is known: by that place. They
 * can have happened in it exactly if nothing that was over before something else began has a later place. Appends without an answer may have happened at any time since, once, or never.
 *
 * Every append writes whole lines, and no line is written twice.
 */

export interface AppendOp {
  readonly kind: 'append';
  readonly invoked: number;
  /** Infinity: no answer came. */
  returned: number;
  readonly stored: string;
  /** `lost`: nothing is known; `refused`: a 4xx, so nothing was applied. */
  outcome: 'applied' | 'refused' | 'lost';
  /** Where the answer said that it ends. */
  end: number | null;
}

/** A range that was read. */
export interface ReadOp {
  readonly kind: 'read';
  readonly invoked: number;
  readonly returned: number;
  readonly from: number;
  readonly body: string;
  readonly next: number;
  /** `next` was the tail. */
  readonly upToDate: boolean;
  readonly closed: boolean;
}

/** The tail as an answer told it: of HEAD, of a refused append, of a close. */
export interface TailOp {
  readonly kind: 'tail';
  readonly invoked: number;
  readonly returned: number;
  readonly tail: number;
  readonly closed: boolean;
}

/** Somebody asked for the end, answered or not. */
export interface CloseOp {
  readonly kind: 'close';
  readonly invoked: number;
}

export type Op = AppendOp | ReadOp | TailOp | CloseOp;

export interface Final {
  readonly content: string;
  readonly closed: boolean;
}

/** A place in the one order: behind so many bytes, before or after the end of the stream. */
function place(tail: number, closed: boolean): number {
  return 2 * tail + (closed ? 1 : 0);
}

interface Placed {
  readonly what: string;
  readonly invoked: number;
  readonly returned: number;
  /** It happened not before this place; null: it says nothing about that. */
  readonly before: number | null;
  /** When it was over the log had reached this place. */
  readonly after: number;
}

/** Everything that cannot have been; empty: the history is linearizable. */
export function faultsOf(history: readonly Op[], final: Final): string[] {
  const faults: string[] = [];
  const appends = placeAppends(history, final, faults);
  const borders = new Set([0, ...appends.map(({ after }) => after / 2)]);
  const placed = [...appends, ...placeObservations(history, final, borders, faults)];
  faults.push(...outOfOrder(placed));
  const closedAt = Math.min(...history.flatMap((op) => ((op.kind === 'read' && op.closed) || (op.kind === 'tail' && op.closed) ? [op.returned] : [])));
  if (closedAt < Infinity && !final.closed) faults.push('a client saw the end of the stream, which is open');
  if ((closedAt < Infinity || final.closed) && !history.some((op) => op.kind === 'close' && op.invoked <= closedAt)) faults.push('the stream ended before anybody asked for that');
  return faults;
}

/** Finds each append in the final content: once where it must be, at most once where it may be, whole, and nothing besides. */
function placeAppends(history: readonly Op[], { content }: Final, faults: string[]): Placed[] {
  const byFirstLine = new Map<string, AppendOp>();
  for (const op of history) if (op.kind === 'append') byFirstLine.set(firstLine(op.stored, 0), op);
  const starts = new Map<AppendOp, number>();
  for (let at = 0; at < content.length; ) {
    const op = byFirstLine.get(firstLine(content, at));
    if (op === undefined || !content.startsWith(op.stored, at)) {
      faults.push(`at ${at} lies what nobody wrote, or a part of it: ${firstLine(content, at).slice(0, 60)}`);
      at += firstLine(content, at).length;
      continue;
    }
    if (starts.has(op)) faults.push(`${name(op)} is there twice, at ${starts.get(op)} and ${at}`);
    else starts.set(op, at);
    at += op.stored.length;
  }
  const placed: Placed[] = [];
  for (const op of byFirstLine.values()) {
    const start = starts.get(op);
    if (start === undefined) {
      if (op.outcome === 'applied') faults.push(`${name(op)} was acknowledged and is not there`);
      continue;
    }
    if (op.outcome === 'refused') faults.push(`${name(op)} was refused and is there`);
    const end = start + op.stored.length;
    if (op.outcome === 'applied' && op.end !== null && op.end !== end) faults.push(`${name(op)} ends at ${end}, its answer said ${op.end}`);
    placed.push({ what: name(op), invoked: op.invoked, returned: op.outcome === 'applied' ? op.returned : Infinity, before: place(start, false), after: place(end, false) });
  }
  return placed;
}

/** `borders`: where appends end, so where a tail can be: all of a request is there or nothing (I2). */
function placeObservations(history: readonly Op[], { content }: Final, borders: ReadonlySet<number>, faults: string[]): Placed[] {
  const placed: Placed[] = [];
  for (const op of history) {
    const tail = op.kind === 'tail' ? op.tail : op.kind === 'read' && op.upToDate ? op.next : 0;
    if (!borders.has(tail)) faults.push(`a tail of ${tail} was told, where no append ends`);
    if (op.kind === 'tail') {
      placed.push({ what: `a tail of ${op.tail}`, invoked: op.invoked, returned: op.returned, before: place(op.tail, op.closed), after: place(op.tail, op.closed) });
    }
    if (op.kind !== 'read') continue;
    const { from, next, body, upToDate, closed } = op;
    if (body !== content.slice(from, next)) faults.push(`a read of [${from}, ${next}) brought other bytes than those that are there`);
    // One that stops before the tail says only how far the log had come at least.
    placed.push({ what: `a read of [${from}, ${next})`, invoked: op.invoked, returned: op.returned, before: upToDate ? place(next, closed) : null, after: place(next, closed) });
  }
  return placed;
}

/** What began when the log had come further than its own place. */
function outOfOrder(placed: readonly Placed[]): string[] {
  const faults: string[] = [];
  const byEnd = [...placed].sort((a, b) => a.returned - b.returned);
  let reached = 0;
  let by = 'nothing';
  let next = 0;
  for (const op of [...placed].sort((a, b) => a.invoked - b.invoked)) {
    for (; next < byEnd.length && byEnd[next]!.returned < op.invoked; next += 1) {
      const over = byEnd[next]!;
      if (over.after > reached) [reached, by] = [over.after, over.what];
    }
    if (op.before !== null && op.before < reached) faults.push(`${op.what} belongs before ${by}, which was over before it began`);
  }
  return faults;
}

function firstLine(text: string, at: number): string {
  const end = text.indexOf('\n', at);
  return text.slice(at, end < 0 ? undefined : end + 1);
}

function name(op: AppendOp): string {
  return `the append ${JSON.stringify(firstLine(op.stored, 0).slice(0, 40))}`;
}
