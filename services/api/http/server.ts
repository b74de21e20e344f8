/**
 * The HTTP server around an application: time-outs, bounds, shutdown (architecture section 8).
 *
 * Owns: the sockets. Promises: a slow head is cut, a body has its own minimum rate, a client that takes nothing is cut; more connections than the process can hold are
 * refused with 503 before anything else fails (R093); shutdown ends live reads at an offset that resumes, lets requests finish, and
 * is over within its grace time (R083).
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '../../../shared/observability/index.js';
import { errorBody, FirnError } from '../../../shared/protocol/errors.js';
import { ANSWER_STALL_MS, CONNECTIONS_CHECK_MS, CONNECTIONS_MAX, DESCRIPTORS_RESERVED, HEADERS_TIMEOUT_MS, IDLE_CHECK_MS, KEEP_ALIVE_MS, STALL_CHECK_MS } from './limits.js';
import { IdleConnections } from './idle-connections.js';
import { TakenRequest } from './taken-request.js';
import { WriteStalls } from './write-stalls.js';

/** What answers each request. */
export type Handler = (req: TakenRequest, res: ServerResponse) => void;

export interface ListenOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly handler: Handler;
  readonly logger: Logger;
  /** Ends what would otherwise stay open, at the start of a shutdown. */
  readonly endLongAnswers?: () => void;
  /** Stops timers, at the end of a shutdown. */
  readonly close?: () => void;
  readonly connectionsMax?: number;
  readonly answerStallMs?: number;
  readonly keepAliveMs?: number;
}

export interface Listener {
  readonly server: Server;
  readonly host: string;
  readonly port: number;
  /** Resolves when every connection is closed, at the latest after `graceMs`. */
  shutdown(graceMs: number): Promise<void>;
}

/** How often a shutdown closes connections that became idle, ms. */
const SWEEP_MS = 25;

/** Resolves when the server listens. Rejects when the address cannot be used. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const server = createServer({
    IncomingMessage: TakenRequest, keepAliveTimeout: 0, headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: 0, requireHostHeader: false, connectionsCheckingInterval: CONNECTIONS_CHECK_MS, noDelay: true,
  });
  const state = new ServerState(server, options);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, 4096, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.on('error', (error) => options.logger.error({ event: 'listener-error', err: error }, 'a listener failed'));
  const address = server.address() as AddressInfo;
  return { server, host: address.address, port: address.port, shutdown: (graceMs) => state.shutdown(graceMs) };
}

class ServerState {
  #connections = 0;
  #ending = false;
  readonly #stalls: WriteStalls;
  readonly #idle: IdleConnections;

  constructor(readonly server: Server, readonly options: ListenOptions) {
    this.#stalls = new WriteStalls(() => performance.now(), options.answerStallMs ?? ANSWER_STALL_MS, STALL_CHECK_MS);
    this.#idle = new IdleConnections(() => performance.now(), options.keepAliveMs ?? KEEP_ALIVE_MS, IDLE_CHECK_MS);
    const max = options.connectionsMax ?? connectionsOfProcess();
    server.on('connection', (socket: Socket) => this.#admit(socket, max));
    const { handler } = options;
    const serve: Handler = (req, res) => {
      // The connection of a server that is going away is not used again.
      if (this.#ending) res.setHeader('Connection', 'close');
      handler(req, res);
    };
    server.on('request', serve);
    // The handler says `100 Continue` once it wants the body.
    server.on('checkContinue', serve);
    // ... and refuses what else a client may expect, as it refuses a request without a host: with the body of every error.
    server.on('checkExpectation', serve);
    server.on('connect', refuseTunnel);
    server.on('clientError', refuseBrokenRequest);
  }

  #admit(socket: Socket, max: number): void {
    if (this.#connections >= max) {
      refuseConnection(socket);
      return;
    }
    this.#connections++;
    this.#stalls.add(socket);
    this.#idle.add(socket);
    socket.once('close', () => {
      this.#connections--;
      this.#stalls.delete(socket);
      this.#idle.delete(socket);
    });
  }

  async shutdown(graceMs: number): Promise<void> {
    this.#ending = true;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.options.endLongAnswers?.();
    const sweep = setInterval(() => this.server.closeIdleConnections(), SWEEP_MS);
    sweep.unref();
    const force = setTimeout(() => this.server.closeAllConnections(), graceMs);
    this.server.closeIdleConnections();
    await closed;
    clearInterval(sweep);
    clearTimeout(force);
    this.#stalls.close();
    this.#idle.close();
    this.options.close?.();
  }
}

/** What Node's parser could not read: no request, so no request handler. */
function refuseBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const slow = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const refusal = slow
    ? new FirnError('BODY_TOO_SLOW', { detail: 'the head of the request arrived too slowly' })
    : new FirnError('INVALID_REQUEST', { detail: error.code === 'HPE_HEADER_OVERFLOW' ? 'the head of the request is too long' : 'this is no HTTP request' });
  // An answer that has begun cannot be followed by another one.
  const answering = (socket as Socket & { _httpMessage?: { headersSent: boolean } })._httpMessage?.headersSent === true;
  if (answering) socket.destroy();
  else socket.end(rawAnswer(refusal, statusText(refusal.status)));
}

function refuseTunnel(_req: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => socket.destroy());
  socket.end(rawAnswer(new FirnError('INVALID_REQUEST', { detail: 'this is no proxy' }), statusText(400)));
}

function refuseConnection(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  // A code that proves to a writer that nothing was applied.
  socket.end(rawAnswer(new FirnError('INGRESS_BODY_BYTES_LIMIT_REACHED'), statusText(503)), () => socket.destroy());
}

function statusText(status: number): string {
  return { 400: 'Bad Request', 408: 'Request Timeout', 503: 'Service Unavailable' }[status] ?? 'Error';
}

/** An answer for a connection that has no response object. */
function rawAnswer(error: FirnError, reason: string): Buffer {
  const body = errorBody(error);
  const retry = Object.entries(error.headers).map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = `HTTP/1.1 ${error.status} ${reason}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nCache-Control: no-store\r\n`
    + `X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: cross-origin\r\n${retry}Connection: close\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), body]);
}

/** Connections that leave enough descriptors to the stores. Where the limit cannot be read, a number that every system has room for. */
function connectionsOfProcess(): number {
  let descriptors = CONNECTIONS_MAX;
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    if (line !== null) descriptors = Number(line[1]);
  } catch {
    descriptors = 4096;
  }
  return Math.min(CONNECTIONS_MAX, Math.max(descriptors - DESCRIPTORS_RESERVED, 64));
}
