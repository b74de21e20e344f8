/**
 * How much of what was written to a connection the other side has made room for.
 */
import type { Socket } from 'node:net';

/** The part of libuv's handle that says what of a large write is already gone; Node's own time-out of sockets looks at it too. */
interface WriteHandle {
  readonly bytesWritten: number;
  readonly writeQueueSize: number;
}

/** Bytes that the system has taken off the process. Grows also within one large write. */
export function bytesTaken(socket: Socket): number {
  const handle = (socket as Socket & { _handle?: WriteHandle | null })._handle;
  return handle?.writeQueueSize === undefined ? socket.bytesWritten - socket.writableLength : handle.bytesWritten - handle.writeQueueSize;
}
