/**
 * The other side of subscriptions: a receiver of webhooks, and the routes below `__ds` as verbs.
 */
import { createPublicKey, verify } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll } from 'vitest';
import type { Answer, Headers, Http } from './http.js';
import type { FirnNode } from './node.js';
import { uniqueId } from './stream.js';

export interface WireLink {
  readonly path: string;
  readonly link_type: string;
  readonly acked_offset: string;
  readonly tail_offset: string;
  readonly has_pending: boolean;
}

/** What a webhook is told. */
export interface WakeBody {
  readonly subscription_id: string;
  readonly wake_id: string;
  readonly generation: number;
  readonly streams: readonly WireLink[];
  readonly callback_url: string;
  readonly callback_token: string;
}

export interface Received {
  readonly atMs: number;
  readonly path: string;
  readonly type: string | undefined;
  readonly signature: string;
  readonly raw: string;
  readonly body: WakeBody;
}

/** Answers one delivery. */
export type Reply = (res: ServerResponse, received: Received) => void;

export function reply(status: number, body = '', headers: Record<string, string> = {}): Reply {
  return (res) => {
    res.writeHead(status, headers);
    res.end(body);
  };
}

/** The receiver has finished at once. */
export const DONE = reply(200, '{"done":true}', { 'content-type': 'application/json' });
export const ACCEPTED = reply(202);

export class Receiver {
  /** How deliveries are answered from now on. */
  reply: Reply = DONE;
  readonly received: Received[] = [];
  #taken = 0;
  #wake: (() => void)[] = [];

  private constructor(private readonly server: Server) {}

  static async start(host = '127.0.0.1'): Promise<Receiver> {
    const server = createServer((req, res) => void receiver.#take(req, res));
    const receiver: Receiver = new Receiver(server);
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    return receiver;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const atMs = Date.now();
    const pieces: Buffer[] = [];
    try {
      for await (const piece of req) pieces.push(piece as Buffer);
    } catch {
      // The node gave up.
      return;
    }
    const raw = Buffer.concat(pieces).toString('utf8');
    const received = { atMs, path: req.url ?? '', type: req.headers['content-type'], signature: String(req.headers['webhook-signature']), raw, body: JSON.parse(raw) as WakeBody };
    this.received.push(received);
    this.reply(res, received);
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** The next delivery that was not taken yet. */
  async next(waitMs = 10_000): Promise<Received> {
    const deadline = Date.now() + waitMs;
    while (this.received.length <= this.#taken) {
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`no delivery within ${waitMs} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return this.received[this.#taken++]!;
  }

  /** Nothing more came within the time. */
  async silence(ms: number): Promise<boolean> {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return this.received.length === this.#taken;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }
}

/** A receiver of its own for each call, closed after the file's last test. */
export function receivers(): () => Promise<Receiver> {
  const open: Receiver[] = [];
  afterAll(async () => {
    for (const receiver of open) await receiver.close();
  });
  return async () => {
    const receiver = await Receiver.start();
    open.push(receiver);
    return receiver;
  };
}

export interface Jwk {
  readonly kty: string;
  readonly crv: string;
  readonly kid: string;
  readonly use: string;
  readonly alg: string;
  readonly x: string;
}

export const JWKS = '/v1/stream/__ds/jwks.json';

export async function jwksOf(http: Http): Promise<readonly Jwk[]> {
  return ((await http.send('GET', JWKS)).json() as { keys: Jwk[] }).keys;
}

/** Whether a signature is that of one of the keys over the raw body, and how old it says it is, s. */
export function checkSignature({ signature, raw }: Received, keys: readonly Jwk[]): { readonly valid: boolean; readonly atS: number } {
  const parts = /^t=(\d+),kid=([^,]+),ed25519=([A-Za-z0-9_-]+)$/.exec(signature);
  const key = keys.find(({ kid }) => kid === parts?.[2]);
  if (parts === null || key === undefined) return { valid: false, atS: 0 };
  const publicKey = createPublicKey({ key: { kty: key.kty, crv: key.crv, x: key.x }, format: 'jwk' });
  return { valid: verify(null, Buffer.from(`${parts[1]}.${raw}`), publicKey, Buffer.from(parts[3]!, 'base64url')), atS: Number(parts[1]) };
}

export interface Shown {
  readonly id: string;
  readonly subscription_id: string;
  readonly type: string;
  readonly pattern: string | null;
  readonly streams: readonly Pick<WireLink, 'path' | 'link_type' | 'acked_offset'>[];
  readonly webhook: { readonly url: string; readonly signing: { readonly alg: string; readonly kid: string; readonly jwks_url: string } } | null;
  readonly wake_stream: string | null;
  readonly lease_ttl_ms: number;
  readonly created_at: string;
  readonly status: string;
  readonly description: string | null;
}

/** What a claim answers. */
export interface Claimed {
  readonly wake_id: string;
  readonly generation: number;
  readonly token: string;
  readonly streams: readonly WireLink[];
  readonly lease_ttl_ms: number;
}

/** A wake as callbacks, acks and releases name it. */
export interface Ticket {
  readonly token?: string | null;
  readonly wake_id?: unknown;
  readonly generation?: unknown;
  readonly acks?: unknown;
  readonly done?: unknown;
}

export class Sub {
  constructor(readonly node: FirnNode, readonly id = uniqueId()) {}

  get path(): string {
    return `/v1/stream/__ds/subscriptions/${encodeURIComponent(this.id)}`;
  }

  put(body: unknown, headers: Headers = {}): Promise<Answer> {
    return this.send('PUT', '', body, headers);
  }

  /** A webhook; fails unless it was created. */
  async webhook(receiver: Receiver, pattern: string | null, more: object = {}): Promise<Shown> {
    return this.#created({ type: 'webhook', webhook: { url: receiver.url }, ...(pattern === null ? {} : { pattern }), ...more });
  }

  /** A pull-wake subscription with a wake stream of its own. */
  async pull(pattern: string | null, more: object = {}): Promise<Shown> {
    const made = await this.node.http.send('PUT', `/v1/stream/${this.wakeStream}`, { headers: { 'content-type': 'application/json' } });
    if (made.status !== 201) throw new Error(`no wake stream: ${made.status}`);
    return this.#created({ type: 'pull-wake', wake_stream: this.wakeStream, ...(pattern === null ? {} : { pattern }), ...more });
  }

  get wakeStream(): string {
    return `wakes/${this.id}`;
  }

  async #created(body: object): Promise<Shown> {
    const answer = await this.put(body);
    if (answer.status !== 201) throw new Error(`not created: ${answer.status} ${answer.text}`);
    return answer.json() as Shown;
  }

  async shown(): Promise<Shown> {
    const answer = await this.send('GET');
    if (answer.status !== 200) throw new Error(`GET: ${answer.status} ${answer.text}`);
    return answer.json() as Shown;
  }

  /** `acked_offset` of a link; undefined: not linked. */
  async acked(path: string): Promise<string | undefined> {
    return (await this.shown()).streams.find((link) => link.path === path)?.acked_offset;
  }

  delete(): Promise<Answer> {
    return this.send('DELETE');
  }

  link(...streams: string[]): Promise<Answer> {
    return this.send('POST', '/streams', { streams });
  }

  unlink(rawPath: string): Promise<Answer> {
    return this.send('DELETE', `/streams/${rawPath}`);
  }

  claim(worker = 'w1'): Promise<Answer> {
    return this.send('POST', '/claim', { worker });
  }

  async claimed(worker = 'w1'): Promise<Claimed> {
    const answer = await this.claim(worker);
    if (answer.status !== 200) throw new Error(`claim: ${answer.status} ${answer.text}`);
    return answer.json() as Claimed;
  }

  tell(action: 'callback' | 'ack' | 'release', { token, ...body }: Ticket): Promise<Answer> {
    return this.send('POST', `/${action}`, body, token === undefined || token === null ? {} : { authorization: `Bearer ${token}` });
  }

  /** Messages of the wake stream. */
  async events(): Promise<readonly Record<string, unknown>[]> {
    return (await this.node.http.send('GET', `/v1/stream/${this.wakeStream}?offset=-1`)).json() as Record<string, unknown>[];
  }

  send(method: string, rest = '', body?: unknown, headers: Headers = {}): Promise<Answer> {
    if (body === undefined) return this.node.http.send(method, this.path + rest, { headers });
    return this.node.http.send(method, this.path + rest, { headers: { 'content-type': 'application/json', ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body) });
  }
}

/** Waits until a condition holds. */
export async function until(holds: () => Promise<boolean> | boolean, waitMs = 10_000): Promise<void> {
  const deadline = Date.now() + waitMs;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within ${waitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
