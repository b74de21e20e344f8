/**
 * What the tests of the hot store share: a data directory, copies of it as a crash leaves them, and streams to write into it. For tests.
 */
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { packAppends } from '../../../shared/storage/block.js';
import { sampleStreamRecord } from '../../../shared/storage/records/arbitrary.contract.js';
import { slotOf } from '../../../shared/storage/slots.js';
import type { DurableStore } from './durable.js';
import { openDurableStore, type DurableOptions } from './durable-store.js';
import { dataRow } from './keys/data.js';
import { streamRow } from './keys/stream.js';
import type { HotEntry, HotOp, HotStore, ScanRange } from './store.js';

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: string;
  readonly fields: object;
}

/** A data directory in the temporary folder, with what was logged about it. */
export class HotBed {
  readonly lines: LogLine[] = [];
  readonly logger = { info: this.note('info'), warn: this.note('warn'), error: this.note('error') };

  readonly #copies: HotBed[] = [];

  private constructor(readonly root: string) {}

  static async make(): Promise<HotBed> {
    return new HotBed(await mkdtemp(join(tmpdir(), 'firn-durable-')));
  }

  get dir(): string {
    return join(this.root, 'hot');
  }

  get ackedFile(): string {
    return join(this.root, 'acked');
  }

  open(options: Partial<DurableOptions> = {}): Promise<DurableStore> {
    return openDurableStore({ dir: this.dir, ackedFile: this.ackedFile, logger: this.logger, ...options });
  }

  /** The directory as it would be found after the process was killed right now. */
  async crashCopy(): Promise<HotBed> {
    const copy = await HotBed.make();
    this.#copies.push(copy);
    await cp(this.root, copy.root, { recursive: true });
    return copy;
  }

  /** Paths of files with this ending, by name; the write-ahead log ends in `.log`. */
  async files(ending: string): Promise<string[]> {
    const names = await readdir(this.dir);
    return names.filter((name) => name.endsWith(ending)).sort().map((name) => join(this.dir, name));
  }

  events(level: LogLine['level']): string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.event);
  }

  /** With all copies of it. */
  async remove(): Promise<void> {
    await Promise.all([rm(this.root, { recursive: true, force: true }), ...this.#copies.map((copy) => copy.remove())]);
  }

  private note(level: LogLine['level']) {
    return (fields: object): void => {
      this.lines.push({ level, event: 'event' in fields ? String(fields.event) : '', fields });
    };
  }
}

/** Makes directories that go when their test is over. */
export function useBeds(): () => Promise<HotBed> {
  const beds: HotBed[] = [];
  afterEach(async () => {
    await Promise.all(beds.splice(0).map((bed) => bed.remove()));
  });
  return async () => {
    const bed = await HotBed.make();
    beds.push(bed);
    return bed;
  };
}

/** Changes one byte of a file. */
export async function flip(path: string, at: number, mask = 0x10): Promise<void> {
  const content = await readFile(path);
  expect(at).toBeLessThan(content.length);
  content[at] = (content[at] as number) ^ mask;
  await writeFile(path, content);
}

/** A stream written append by append, and its state after the last one. */
export class TestStream {
  readonly slot: number;
  tail: Offset = ZERO;

  constructor(readonly key: StreamKey, readonly incarnation: Incarnation) {
    this.slot = slotOf(key);
  }

  /** The operations of one batch that appends `payloads`. */
  append(...payloads: Buffer[]): HotOp[] {
    const packed = packAppends(this.tail, payloads.map((payload, index) => ({ payload, atMs: 1_700_000_000_000 + this.tail + index })));
    for (const payload of payloads) this.tail = advance(this.tail, payload.length);
    return [...packed.map(({ end, value }): HotOp => ({ type: 'put', key: dataRow.key(this.slot, this.incarnation, end), value })), this.state()];
  }

  state(): HotOp {
    const record = sampleStreamRecord({ incarnation: this.incarnation, tail: this.tail, retained: ZERO, sealed: ZERO, hotStart: ZERO, snapshot: null, change: 1, loggedChange: 0 });
    return { type: 'put', key: streamRow.key(this.slot, this.key), value: streamRow.encode(record) };
  }
}

export async function entriesOf(store: Pick<HotStore, 'scan'>, range: ScanRange): Promise<HotEntry[]> {
  const entries: HotEntry[] = [];
  for await (const page of store.scan(range)) entries.push(...page);
  return entries;
}

/** A row that no part of Firn looks into: 0x7f is no kind. */
export function put(name: string, value: string): HotOp {
  return { type: 'put', key: Buffer.from(`\x7f${name}`), value: Buffer.from(value) };
}

export async function valueOf(store: DurableStore, name: string): Promise<string | undefined> {
  return (await store.get(Buffer.from(`\x7f${name}`)))?.toString();
}

/** What a promise was rejected with. */
export async function failure(run: Promise<unknown>): Promise<unknown> {
  return run.then(() => 'no failure', (error: unknown) => error);
}

/** Every row of every kind. */
export const EVERYTHING: ScanRange = { from: Buffer.from([0]), to: Buffer.alloc(32, 0xff) };
