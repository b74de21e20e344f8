/** Tables and sizes as text. */

/** Rows under headings, columns aligned; numbers to the right. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) => Math.max(heading.length, ...rows.map((row) => (row[column] ?? '').length)));
  const numeric = headings.map((_, column) => rows.every((row) => /^[-\d.,:]/.test(row[column] ?? '')));
  const line = (cells: readonly string[]): string => cells.map((cell, column) => (numeric[column] === true ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join('  ').trimEnd();
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

/** 1,234,567 */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Bytes with a unit of 1,024. */
export function bytes(value: number): string {
  if (value < 1_024) return `${value} B`;
  if (value < 1_048_576) return `${(value / 1_024).toFixed(1)} KiB`;
  return `${(value / 1_048_576).toFixed(1)} MiB`;
}

/** Milliseconds, as seconds from one second on. */
export function duration(millis: number): string {
  return millis < 1_000 ? `${millis.toFixed(millis < 10 ? 1 : 0)} ms` : `${(millis / 1_000).toFixed(2)} s`;
}

/** Value at a share (0 to 1) of a list; NaN for an empty one. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
