/**
 * What a benchmark says: figures beside each other, a ratio, and the floor it has to keep.
 */
import { quantile, table } from '../lib/table.js';

export interface Row {
  readonly work: string;
  readonly firn: string;
  readonly other: string;
  /** Firn's figure against the other's; null: no comparison. */
  readonly ratio: number | null;
  /** `min`: the ratio has to reach it; `max`: it may not exceed it. null: only shown. */
  readonly bound: { readonly kind: 'min' | 'max'; readonly value: number } | null;
  /** Something went wrong beyond the ratio (lost events, errors): the row fails. */
  readonly fault?: string;
}

export interface Options {
  readonly rounds: number;
  readonly seconds: number;
}

/**
 * Number of the round that warms a server up and is thrown away, and its length: half of the servers are JavaScript, whose compiler works beside the load for about as long, on one of two
 * cores, and a log service runs for months.
 */
export const WARM_UP = -1;
export const WARM_UP_SECONDS = 10;

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export function passes(row: Row): boolean {
  if (row.fault !== undefined) return false;
  if (row.bound === null || row.ratio === null) return true;
  return row.bound.kind === 'min' ? row.ratio >= row.bound.value : row.ratio <= row.bound.value;
}

function verdict(row: Row): string {
  if (row.fault !== undefined) return `FAIL: ${row.fault}`;
  if (row.bound === null) return '';
  return passes(row) ? 'pass' : 'FAIL';
}

export function resultTable(rows: readonly Row[]): string {
  return table(['work', 'firn', 'other', 'ratio', 'bound', ''], rows.map((row) => [
    row.work, row.firn, row.other, row.ratio === null ? '' : row.ratio.toFixed(2),
    row.bound === null ? '' : `${row.bound.kind === 'min' ? '>=' : '<='} ${row.bound.value}`, verdict(row),
  ]));
}
