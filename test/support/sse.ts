/**
 * A reader of server-sent events as a test wants it: by a standard parser, event after event, with time limits.
 */
import { createParser } from 'eventsource-parser';
import type { EventSourceMessage } from 'eventsource-parser';
import type { Http, Headers, OpenAnswer } from './http.js';

export interface Control {
  readonly streamNextOffset: string;
  readonly streamCursor?: string;
  readonly upToDate?: true;
  readonly streamClosed?: true;
}

export class Sse {
  readonly events: EventSourceMessage[] = [];
  /** Bytes as they came. */
  wire = '';
  comments = 0;
  /** The connection ended: cleanly or cut. */
  ended: 'clean' | 'cut' | null = null;
  #taken = 0;
  #wake: (() => void) | null = null;

  private constructor(readonly answer: OpenAnswer) {
    const parser = createParser({
      onEvent: (event) => this.events.push(event),
      onComment: () => {
        this.comments += 1;
      },
    });
    const decoder = new TextDecoder();
    answer.stream.on('data', (piece: Buffer) => {
      const text = decoder.decode(piece, { stream: true });
      this.wire += text;
      parser.feed(text);
      this.#wake?.();
    });
    answer.stream.on('end', () => this.#over('clean'));
    answer.stream.on('error', () => this.#over('cut'));
    answer.stream.on('close', () => this.#over('cut'));
  }

  /** Opens a path that names `live=sse`. A refusal can be seen in `answer.status`. */
  static async open(http: Http, path: string, headers: Headers = {}): Promise<Sse> {
    return new Sse(await http.open('GET', path, { headers }));
  }

  #over(how: 'clean' | 'cut'): void {
    this.ended ??= how;
    this.#wake?.();
  }

  /** The next event not taken yet; fails when none comes in time. */
  async next(timeoutMs = 5_000): Promise<EventSourceMessage> {
    await this.#waitFor(() => this.events.length > this.#taken || this.ended !== null, timeoutMs);
    const event = this.events[this.#taken];
    if (event === undefined) throw new Error(`no event (${this.ended ?? 'still open'}) after ${JSON.stringify(this.wire.slice(-300))}`);
    this.#taken += 1;
    return event;
  }

  /** The next event, which must be a control event. */
  async control(timeoutMs = 5_000): Promise<Control> {
    const event = await this.next(timeoutMs);
    if (event.event !== 'control') throw new Error(`expected a control event, got ${JSON.stringify(event)}`);
    return JSON.parse(event.data) as Control;
  }

  /** Takes events up to and with the first control event that satisfies the predicate; returns them. */
  async through(satisfied: (control: Control) => boolean = (control) => control.upToDate === true, timeoutMs = 10_000): Promise<EventSourceMessage[]> {
    const deadline = Date.now() + timeoutMs;
    const out: EventSourceMessage[] = [];
    for (;;) {
      const event = await this.next(Math.max(1, deadline - Date.now()));
      out.push(event);
      if (event.event === 'error') throw new Error(`error event: ${event.data}`);
      if (event.event === 'control' && satisfied(JSON.parse(event.data) as Control)) return out;
    }
  }

  /** Waits for the end of the connection. */
  async end(timeoutMs = 10_000): Promise<'clean' | 'cut'> {
    await this.#waitFor(() => this.ended !== null, timeoutMs);
    if (this.ended === null) throw new Error('the connection is still open');
    return this.ended;
  }

  close(): void {
    this.answer.stream.destroy();
  }

  async #waitFor(satisfied: () => boolean, timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!satisfied() && Date.now() < deadline) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.max(1, deadline - Date.now()));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
    }
  }
}

/** Payloads of the data events, joined. */
export function dataOf(events: readonly EventSourceMessage[]): string {
  return events
    .filter((event) => event.event === 'data')
    .map((event) => event.data)
    .join('');
}

/** Bytes of base64 data events, joined; checks each payload's form (BIN-05). */
export function bytesOf(events: readonly EventSourceMessage[]): Buffer {
  return Buffer.concat(
    events
      .filter((event) => event.event === 'data')
      .map((event) => {
        const text = event.data.replaceAll(/[\r\n]/g, '');
        if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new Error(`not standard base64: ${text.slice(0, 80)}`);
        return Buffer.from(text, 'base64');
      }),
  );
}

/** The control events, parsed. */
export function controlsOf(events: readonly EventSourceMessage[]): Control[] {
  return events.filter((event) => event.event === 'control').map((event) => JSON.parse(event.data) as Control);
}
