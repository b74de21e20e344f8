/**
 * One stream in memory with its live handles, for the unit tests of this folder: durable at once, told to subscribers synchronously.
 */
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { LiveHandle, ReadWindow, StreamEvent } from '../log/types.js';

export class MemoryStream {
  readonly incarnation = (2 ** 52 + 7) as Incarnation;
  bytes: Buffer = Buffer.alloc(0);
  record: StreamRecord | null;
  /** Open handles, and reads so far. */
  handles = 0;
  reads = 0;
  /** Thrown by the next read. */
  failure: Error | null = null;
  /** Awaited by every read. */
  gate: Promise<void> = Promise.resolve();
  /** Awaited by every body, when its window is decided. */
  bodyGate: Promise<void> = Promise.resolve();
  readonly #listeners = new Set<(event: StreamEvent) => void>();

  constructor(contentType: string, content: string | Buffer = '') {
    this.bytes = Buffer.from(content);
    this.record = {
      incarnation: this.incarnation, contentType, createdAtMs: 0, tail: this.bytes.length as Offset, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
      ttl: null, expiresAtMs: null, touchedAtMs: 0, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
    };
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  append(content: string | Buffer, close = false): void {
    const data = Buffer.from(content);
    const start = this.record!.tail;
    this.bytes = Buffer.concat([this.bytes, data]);
    this.record = { ...this.record!, tail: advance(start, data.length), closed: close };
    this.tell({ record: this.record, start, end: this.record.tail, data: data.length === 0 ? [] : [data] });
  }

  /** Bytes that become visible without having been handed over, as after a store was opened again. */
  appendUnseen(content: string): void {
    this.bytes = Buffer.concat([this.bytes, Buffer.from(content)]);
    this.record = { ...this.record!, tail: this.bytes.length as Offset };
    this.tell({ record: this.record, start: this.record.tail, end: this.record.tail, data: [] });
  }

  delete(): void {
    const { tail } = this.record!;
    this.record = null;
    this.tell({ record: null, start: tail, end: tail, data: [] });
  }

  recreate(): void {
    const record = { ...this.record!, incarnation: (this.incarnation + 1) as Incarnation, tail: ZERO };
    this.record = null;
    this.tell({ record, start: ZERO, end: ZERO, data: [] });
  }

  /** Something that no reader sees, such as a snapshot. */
  touch(): void {
    const { tail } = this.record!;
    this.tell({ record: this.record, start: tail, end: tail, data: [] });
  }

  tell(event: StreamEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  open(): LiveHandle {
    this.handles++;
    let open = true;
    const current = (): StreamRecord | null => this.record;
    return {
      key: 'demo/s' as StreamKey,
      incarnation: this.incarnation,
      get record() {
        return current();
      },
      subscribe: (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
      },
      read: (from, maxBytes, cut) => this.#read(from, maxBytes, cut),
      close: () => {
        if (!open) throw new Error('a handle is closed once');
        open = false;
        this.handles--;
      },
    };
  }

  async #read(from: Offset, maxBytes: number, cut: 'bytes' | 'messages'): Promise<ReadWindow> {
    this.reads++;
    await this.gate;
    if (this.failure !== null) throw this.failure;
    const record = this.record!;
    let end = Math.min(from + maxBytes, record.tail) as Offset;
    if (cut === 'messages' && end < record.tail) {
      const last = this.bytes.lastIndexOf(10, end - 1);
      end = (last >= from ? last + 1 : this.bytes.indexOf(10, end) + 1) as Offset;
    }
    const bytes = this.bytes.subarray(from, end);
    const { bodyGate } = this;
    return {
      record, start: from, end, upToDate: end === record.tail, closed: end === record.tail && record.closed, session: null,
      body: async function* () {
        await bodyGate;
        if (bytes.length > 1) yield bytes.subarray(0, 1);
        if (bytes.length > 0) yield bytes.subarray(bytes.length > 1 ? 1 : 0);
      },
    };
  }
}
