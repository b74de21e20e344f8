/**
 * The input of the demonstration: real flight records, one stream for each airport of origin.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export interface Airport {
  /** `flights/{origin}`. */
  readonly key: string;
  /** Each flight as JSON text, in the order of the file. */
  readonly messages: readonly string[];
  /** The stream's bytes as they must come back: each message and an LF. */
  readonly stored: Buffer;
}

/** The flights of `flights-20k.json` by origin, the busiest airport first. */
export function loadAirports(): Airport[] {
  const folder = dirname(createRequire(import.meta.url).resolve('vega-datasets'));
  const flights = JSON.parse(readFileSync(join(folder, '..', 'data', 'flights-20k.json'), 'utf8')) as { origin: string }[];
  const byOrigin = new Map<string, string[]>();
  for (const flight of flights) {
    const messages = byOrigin.get(flight.origin) ?? [];
    messages.push(JSON.stringify(flight));
    byOrigin.set(flight.origin, messages);
  }
  return [...byOrigin]
    .map(([origin, messages]) => ({ key: `flights/${origin}`, messages, stored: Buffer.from(messages.map((message) => `${message}\n`).join('')) }))
    .sort((a, b) => b.messages.length - a.messages.length || (a.key < b.key ? -1 : 1));
}

/** The array form of the base surface for the same bytes. */
export function asArray(stored: Buffer): Buffer {
  return Buffer.from(`[${stored.toString('utf8').trimEnd().replaceAll('\n', ',')}]`);
}
