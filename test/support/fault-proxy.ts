/**
 * A proxy before an S3 server that does what networks and servers do on bad days.
 *
 * Requests pass with their Host unchanged, since the signature covers it. Which fault a request meets is asked of `faultOf`; `seededFaults` draws it from the seed, the request's
 * name and how often it came, so that a run is replayed by its seed whatever the order of its requests.
 */
import { createServer, request as forward, Agent, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32c } from '../../shared/storage/crc.js';
import { Random } from './random.js';

/** `at`: share of the body, 0 to 1. */
export type Fault =
  | { readonly kind: 'latency'; readonly ms: number }
  /** Answered by the proxy; the server never sees the request. */
  | { readonly kind: 'status'; readonly status: number; readonly code: string }
  /** The same, with any body and headers. */
  | { readonly kind: 'odd'; readonly status: number; readonly body: string; readonly headers?: Readonly<Record<string, string>> }
  /** The server did it, the answer is lost. */
  | { readonly kind: 'lost-answer' }
  /** The connection breaks while the request's body is sent. */
  | { readonly kind: 'reset-upload' }
  | { readonly kind: 'reset-body'; readonly at: number }
  /** Good status, a body that ends early as if it were whole. */
  | { readonly kind: 'truncated'; readonly at: number }
  /** Good status, part of the body, then nothing and no end. */
  | { readonly kind: 'stalled'; readonly at: number }
  /** One byte of the request's body changes on the way. */
  | { readonly kind: 'altered-upload' }
  /** Accepted, never answered. */
  | { readonly kind: 'black-hole' };

export const SLOW_DOWN: Fault = { kind: 'status', status: 503, code: 'SlowDown' };
export const INTERNAL_ERROR: Fault = { kind: 'status', status: 500, code: 'InternalError' };
export const CONFLICT: Fault = { kind: 'status', status: 409, code: 'ConditionalRequestConflict' };
export const PRECONDITION: Fault = { kind: 'status', status: 412, code: 'PreconditionFailed' };

export interface Seen {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** How many requests of this method and path came before. */
  readonly nth: number;
  readonly fault: Fault | null;
}

type Asked = Omit<Seen, 'fault'>;

export class FaultProxy {
  readonly seen: Seen[] = [];
  /** Asked for each request. */
  faultOf: (request: Asked) => Fault | null = () => null;
  /** Bytes per second of all bodies in one direction together; null: as fast as it goes. */
  bytesPerSecond: number | null = null;
  readonly #target: URL;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #counts = new Map<string, number>();
  readonly #sockets = new Set<Socket>();
  #server: Server;
  #port = 0;
  #accepted = 0;
  /** When the line is free again, ms, by direction. */
  readonly #line = { up: 0, down: 0 };

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = this.#newServer();
  }

  static async before(target: string): Promise<FaultProxy> {
    const proxy = new FaultProxy(target);
    await proxy.up();
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Connections that there ever were. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Requests of a method that met no fault, or one of a kind. */
  count(method: string, kind?: Fault['kind']): number {
    return this.seen.filter((request) => request.method === method && request.fault?.kind === kind).length;
  }

  /** Listens (again), on the same port. */
  async up(): Promise<void> {
    this.#server = this.#newServer();
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Refuses connections, and cuts those there are. */
  async down(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  async close(): Promise<void> {
    await this.down();
    this.#agent.destroy();
  }

  #newServer(): Server {
    const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (request, response) => {
      this.#serve(request, response).catch(() => request.socket.destroy());
    });
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      this.#accepted += 1;
      socket.on('error', () => undefined);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    return server;
  }

  #note(request: IncomingMessage): Fault | null {
    const { method = '', url: path = '', headers } = request;
    const name = `${method} ${path}`;
    const nth = this.#counts.get(name) ?? 0;
    this.#counts.set(name, nth + 1);
    const asked: Asked = { method, path, headers, nth };
    const fault = this.faultOf(asked);
    this.seen.push({ ...asked, fault });
    return fault;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = this.#note(request);
    if (fault?.kind === 'black-hole') {
      request.resume();
      return;
    }
    if (fault?.kind === 'reset-upload') {
      await new Promise<void>((resolve) => request.once('data', resolve).once('end', resolve));
      return void request.socket.resetAndDestroy();
    }
    if (fault?.kind === 'latency') await sleep(fault.ms);
    if (fault?.kind === 'status') return this.#answerItself(request, response, { ...fault, kind: 'odd', body: fault.status < 300 ? '' : errorBody(fault.code) });
    if (fault?.kind === 'odd') return this.#answerItself(request, response, fault);
    const answer = await this.#pass(request, response, fault?.kind === 'altered-upload');
    if (fault?.kind === 'lost-answer') {
      await wholeBody(answer);
      return void request.socket.resetAndDestroy();
    }
    const bodyFault = fault !== null && (fault.kind === 'reset-body' || fault.kind === 'truncated' || fault.kind === 'stalled') ? fault : null;
    if (bodyFault !== null && (answer.statusCode ?? 0) < 300) return this.#spoil(request, response, answer, bodyFault);
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    for await (const piece of answer as AsyncIterable<Buffer>) {
      await this.#pace('down', piece.length);
      if (response.destroyed) return;
      if (!response.write(piece)) await drained(response);
    }
    response.end();
  }

  async #answerItself(request: IncomingMessage, response: ServerResponse, { status, body, headers }: Extract<Fault, { kind: 'odd' }>): Promise<void> {
    await wholeBody(request);
    response.writeHead(status, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body), ...headers }).end(body);
  }

  /** Hands the request to the server; resolves with the head of its answer. */
  #pass(request: IncomingMessage, response: ServerResponse, altered: boolean): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const out = forward({ host: this.#target.hostname, port: this.#target.port, method: request.method, path: request.url, headers: request.rawHeaders as unknown as NodeJS.Dict<string>, agent: this.#agent }, resolve);
      out.on('error', reject);
      // The one who asked has gone: the server learns of it.
      response.once('close', () => response.writableFinished || out.destroy());
      void this.#send(request, out, altered).catch(reject);
    });
  }

  async #send(request: IncomingMessage, out: ReturnType<typeof forward>, altered: boolean): Promise<void> {
    let flip = altered;
    for await (const piece of request as AsyncIterable<Buffer>) {
      if (flip && piece.length > 0) {
        piece[piece.length >> 1] = (piece[piece.length >> 1] as number) ^ 1;
        flip = false;
      }
      await this.#pace('up', piece.length);
      if (!out.write(piece)) await drained(out);
    }
    out.end();
  }

  async #spoil(request: IncomingMessage, response: ServerResponse, answer: IncomingMessage, fault: Extract<Fault, { at: number }>): Promise<void> {
    const body = await wholeBody(answer);
    const part = body.subarray(0, Math.min(Math.floor(body.length * fault.at), body.length - 1));
    const headers = { ...answer.headers };
    delete headers['transfer-encoding'];
    headers['content-length'] = String(fault.kind === 'truncated' ? part.length : body.length);
    response.writeHead(answer.statusCode ?? 502, headers);
    response.write(part);
    if (fault.kind === 'truncated') response.end();
    if (fault.kind !== 'reset-body') return;
    await sleep(5);
    request.socket.resetAndDestroy();
  }

  /** Waits until the line has carried so many bytes. */
  async #pace(direction: 'up' | 'down', bytes: number): Promise<void> {
    if (this.bytesPerSecond === null) return;
    const now = performance.now();
    this.#line[direction] = Math.max(now, this.#line[direction]) + (bytes / this.bytesPerSecond) * 1_000;
    await sleep(this.#line[direction] - now);
  }
}

/** As S3 says what went wrong. */
export function errorBody(code: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>by the fault proxy</Message></Error>`;
}

/** Until it takes more, or is gone. */
function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

async function wholeBody(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of message as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}

/**
 * Faults of all kinds for a share of all requests; `prefix` is that of the store's keys. No request meets more than two in a row, as the store's deadline is for faults that pass; `stalled` and
 * `black-hole`, which each cost a try its whole time, are rare.
 */
export function seededFaults(seed: number, share: number, prefix: string): (request: Asked) => Fault | null {
  return ({ method, path, nth }) => {
    // The prefix is another one in each run.
    const draw = new Random(crc32c(Buffer.from(`${seed} ${method} ${path.replaceAll(prefix, '').replaceAll(encodeURIComponent(prefix), '')} ${nth}`)));
    if (nth % 3 === 2 || !draw.chance(share)) return null;
    if (draw.chance(0.01)) return draw.pick<Fault>([{ kind: 'black-hole' }, { kind: 'stalled', at: draw.next() }]);
    const always: Fault[] = [SLOW_DOWN, INTERNAL_ERROR, { kind: 'status', status: 429, code: 'TooManyRequests' }, { kind: 'latency', ms: draw.int(1, 200) }, { kind: 'lost-answer' }];
    const writes: Fault[] = [CONFLICT, PRECONDITION, { kind: 'reset-upload' }, { kind: 'altered-upload' }];
    const reads: Fault[] = [{ kind: 'reset-body', at: draw.next() }, { kind: 'truncated', at: draw.next() }];
    return draw.pick([...always, ...(method === 'PUT' ? writes : method === 'GET' ? reads : [])]);
  };
}
