/**
 * When an answer is over: it ended, or its connection did.
 *
 * Owns: the only listeners that wait for this. Promises: told once, also for an answer that waits behind others on its connection; Node tells
 * such an answer nothing when the connection ends. One listener a connection, however many answers it carries.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const WAITING = Symbol('answers that are not over');
type WatchedSocket = Socket & { [WAITING]?: Set<() => void> };

/**
 * Calls back when the answer is over, never during this call. When the connection is what ended, the answer is destroyed first, so that
 * `res.destroyed` says so to everybody. Returns what takes the callback away. The callback must not throw.
 */
export function onceOver(res: ServerResponse, callback: () => void): () => void {
  const socket = res.req.socket as WatchedSocket;
  const waiting = waitingOn(socket);
  const forget = (): void => {
    waiting.delete(tell);
    res.off('close', tell);
  };
  const tell = (): void => {
    if (!waiting.has(tell)) return;
    forget();
    if (socket.destroyed) res.destroy();
    callback();
  };
  waiting.add(tell);
  res.on('close', tell);
  if (socket.closed || res.closed) process.nextTick(tell);
  return forget;
}

function waitingOn(socket: WatchedSocket): Set<() => void> {
  const known = socket[WAITING];
  if (known !== undefined) return known;
  const waiting = new Set<() => void>();
  socket[WAITING] = waiting;
  socket.once('close', () => {
    for (const tell of waiting) tell();
  });
  return waiting;
}
