/**
 * Waiting of long-polls (requirements section 8).
 *
 * Owns: what ends a wait. Promises: a wait lasts at most its time, whatever else happens to the stream (R055); it ends at once for new
 * bytes, closing, deletion, recreation, a client that leaves, and shutdown; nothing of it is left behind.
 */
import type { ServerResponse } from 'node:http';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { LiveHandle, StreamEvent } from '../log/types.js';
import { onceOver } from './over.js';

export type Wake =
  /** `changed`: there are bytes, or the stream is closed. */
  | { readonly kind: 'changed' | 'timeout' | 'gone' | 'left' | 'shutdown' }
  /** Another stream is at the URL now. */
  | { readonly kind: 'recreated'; readonly incarnation: Incarnation };

const CHANGED: Wake = { kind: 'changed' };
const TIMEOUT: Wake = { kind: 'timeout' };
const GONE: Wake = { kind: 'gone' };
const LEFT: Wake = { kind: 'left' };
const SHUTDOWN: Wake = { kind: 'shutdown' };

export class LongPolls {
  readonly #waiting = new Set<(wake: Wake) => void>();
  #ending = false;

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Waits at `start`, the tail of an open stream, for at most `timeoutMs`. */
  wait(handle: LiveHandle, start: Offset, timeoutMs: number, res: ServerResponse): Promise<Wake> {
    if (this.#ending) return Promise.resolve(SHUTDOWN);
    return new Promise((resolve) => {
      const finish = (wake: Wake): void => {
        clearTimeout(timer);
        unsubscribe();
        forget();
        this.#waiting.delete(finish);
        resolve(wake);
      };
      const timer = setTimeout(finish, timeoutMs, TIMEOUT);
      const unsubscribe = handle.subscribe((event) => {
        const wake = wakeOf(event, handle, start);
        if (wake !== null) finish(wake);
      });
      const forget = onceOver(res, () => finish(LEFT));
      this.#waiting.add(finish);
    });
  }

  /** Ends every wait; later ones end at once. */
  shutdown(): void {
    this.#ending = true;
    for (const finish of this.#waiting) finish(SHUTDOWN);
  }
}

function wakeOf(event: StreamEvent, handle: LiveHandle, start: Offset): Wake | null {
  const { record } = event;
  if (record === null) return GONE;
  if (record.incarnation !== handle.incarnation) return { kind: 'recreated', incarnation: record.incarnation };
  return record.tail > start || record.closed ? CHANGED : null;
}
