/**
 * A listener over a log that does what a test says, and a raw client for it: for faults that no real log shows on demand.
 */
import { once } from 'node:events';
import { request, type IncomingHttpHeaders } from 'node:http';
import { connect, type Socket } from 'node:net';
import pino from 'pino';
import { createMetrics, type Metrics } from '../../../../shared/observability/index.js';
import { ZERO, type Incarnation, type Offset } from '../../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../../shared/storage/records/types.js';
import type { ReadWindow, StreamLog } from '../../log/types.js';
import type { SubscriptionsApi } from '../../subscriptions/types.js';
import { createClientApp, type ClientApp, type ClientAppOptions } from '../app.js';
import type { HttpConfig } from '../deps.js';
import { listen, type Listener } from '../server.js';

export const INCARNATION = (2 ** 52 + 1) as Incarnation;
export const NOW_MS = 1_800_000_000_000;

export function record(over: Partial<StreamRecord> = {}): StreamRecord {
  return {
    incarnation: INCARNATION, contentType: 'application/octet-stream', createdAtMs: 0, tail: ZERO, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 0, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false, ...over,
  };
}

/** A window of the whole of `pieces`, which may hold an error to throw at its place. */
export function windowOf(pieces: readonly (Buffer | Error)[], over: Partial<StreamRecord> = {}, bytes?: number): ReadWindow {
  const length = bytes ?? pieces.reduce((sum, piece) => sum + (piece instanceof Error ? 0 : piece.length), 0);
  const of = record({ tail: length as Offset, ...over });
  return {
    record: of, start: ZERO, end: length as Offset, upToDate: of.tail === length, closed: of.closed && of.tail === length, session: null,
    body: () => piecesOf(pieces),
  };
}

export async function* piecesOf(pieces: readonly (Buffer | Error)[]): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    if (piece instanceof Error) throw piece;
    yield piece;
  }
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export class ScriptedServer {
  readonly sockets: Socket[] = [];

  private constructor(readonly app: ClientApp, readonly listener: Listener, readonly metrics: Metrics, /** Of the server's log. */ readonly lines: readonly string[]) {}

  static async start(log: Partial<StreamLog>, config: Partial<HttpConfig> = {}, options: ClientAppOptions & { connectionsMax?: number; answerStallMs?: number; keepAliveMs?: number } = {}): Promise<ScriptedServer> {
    const lines: string[] = [];
    const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
    const metrics = createMetrics();
    const scripted = { refusingWrites: () => null, ...log } as StreamLog;
    const app = createClientApp({
      log: scripted, subscriptions: {} as SubscriptionsApi, config: { publicUrl: null, cold: 'fs', requestBytesMax: 1_000_000, snapshotBytesMax: 2_000_000, corsOrigins: [], ...config }, logger, metrics, now: () => NOW_MS, random: () => 0.5,
    }, options);
    const listener = await listen({
      host: '127.0.0.1', port: 0, handler: app.handler, logger, endLongAnswers: () => app.endLongAnswers(), close: () => app.close(), connectionsMax: options.connectionsMax, answerStallMs: options.answerStallMs, keepAliveMs: options.keepAliveMs,
    });
    return new ScriptedServer(app, listener, metrics, lines);
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await this.listener.shutdown(100);
  }

  /** Rejects when the connection ends before the answer does. */
  send(method: string, path: string, headers: Record<string, string> = {}, body: string | Buffer = ''): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request({ port: this.listener.port, method, path, headers: { connection: 'close', ...headers } }, (res) => {
        const pieces: Buffer[] = [];
        res.on('data', (piece: Buffer) => pieces.push(piece));
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(pieces) }));
        res.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }

  /** Writes text to a connection of its own and gives all that came until it was closed or `until` holds. */
  async raw(text: string, until: (received: string) => boolean = () => false): Promise<string> {
    const socket = await this.connect();
    let received = '';
    socket.setEncoding('latin1');
    const done = new Promise<void>((resolve) => {
      socket.on('data', (piece: string) => {
        received += piece;
        if (until(received)) resolve();
      });
      socket.on('close', () => resolve());
    });
    socket.write(text);
    await done;
    return received;
  }

  async connect(): Promise<Socket> {
    const socket = connect(this.listener.port, '127.0.0.1');
    socket.on('error', () => undefined);
    this.sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  }
}
