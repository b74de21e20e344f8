/**
 * The verbs of the protocol on one stream, so that a test reads as a story. Nothing is checked here: each verb shows its answer.
 */
import { randomBytes } from 'node:crypto';
import { describe } from 'vitest';
import type { Answer, Body, Headers, Http } from './http.js';
import type { FirnNode } from './node.js';
import { Sse } from './sse.js';

export const OCTETS = 'application/octet-stream';
export const JSON_TYPE = 'application/json';
export const TEXT = 'text/plain';

export interface CreateOptions {
  readonly type?: string | null;
  readonly body?: Body;
  readonly ttl?: string | number;
  readonly expiresAt?: string;
  readonly closed?: boolean | string;
  readonly headers?: Headers;
}

export interface AppendOptions {
  /** null: send no `Content-Type`. Default: the type that the stream was created with. */
  readonly type?: string | null;
  /** `Producer-Id`, `Producer-Epoch`, `Producer-Seq`. */
  readonly producer?: readonly [id: string, epoch: number | string, seq: number | string];
  readonly digest?: string;
  readonly seq?: string;
  readonly close?: boolean | string;
  readonly incarnation?: string;
  readonly headers?: Headers;
}

export type Query = Readonly<Record<string, string | number | undefined>> | string;

export function queryText(query: Query): string {
  if (typeof query === 'string') return query === '' || query.startsWith('?') ? query : `?${query}`;
  const pairs = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]));
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

export class Stream {
  #type: string | null = null;

  constructor(
    readonly http: Http,
    /** Path as sent, percent-encoded. */
    readonly path: string,
  ) {}

  /** PUT. Without a type none is sent. */
  create(options: CreateOptions = {}): Promise<Answer> {
    this.#type = options.type ?? null;
    return this.put(options);
  }

  /** PUT that does not change which type `append` sends. */
  put(options: CreateOptions = {}): Promise<Answer> {
    const headers: Record<string, string | readonly string[]> = { ...options.headers };
    if (options.type !== undefined && options.type !== null) headers['content-type'] = options.type;
    if (options.ttl !== undefined) headers['stream-ttl'] = String(options.ttl);
    if (options.expiresAt !== undefined) headers['stream-expires-at'] = options.expiresAt;
    if (options.closed !== undefined) headers['stream-closed'] = String(options.closed);
    return this.http.send('PUT', this.path, { headers, body: options.body });
  }

  /** POST with a body. */
  append(body: Body, options: AppendOptions = {}): Promise<Answer> {
    const headers: Record<string, string | readonly string[]> = { ...options.headers };
    const type = options.type === undefined ? (this.#type ?? OCTETS) : options.type;
    if (type !== null) headers['content-type'] = type;
    if (options.producer !== undefined) {
      const [id, epoch, seq] = options.producer;
      headers['producer-id'] = id;
      headers['producer-epoch'] = String(epoch);
      headers['producer-seq'] = String(seq);
    }
    if (options.digest !== undefined) headers['producer-digest'] = options.digest;
    if (options.seq !== undefined) headers['stream-seq'] = options.seq;
    if (options.close !== undefined) headers['stream-closed'] = String(options.close);
    if (options.incarnation !== undefined) headers['stream-incarnation'] = options.incarnation;
    return this.http.send('POST', this.path, { headers, body });
  }

  /** POST without a body that closes. */
  close(options: AppendOptions = {}): Promise<Answer> {
    return this.append(null, { type: null, close: true, ...options });
  }

  /** GET, from the beginning by default. */
  async read(query: Query = { offset: '-1' }, headers: Headers = {}): Promise<Answer> {
    const text = queryText(query);
    if (!text.includes('live=')) await this.http.beforeRead?.(this.path);
    return this.http.send('GET', `${this.path}${text}`, { headers });
  }

  /** GET with `live=long-poll`. */
  poll(offset: string, query: Readonly<Record<string, string | number>> = {}, headers: Headers = {}): Promise<Answer> {
    return this.read({ offset, live: 'long-poll', ...query }, headers);
  }

  /** GET with `live=sse`. */
  sse(offset: string, query: Readonly<Record<string, string | number>> = {}, headers: Headers = {}): Promise<Sse> {
    return Sse.open(this.http, `${this.path}${queryText({ offset, live: 'sse', ...query })}`, headers);
  }

  head(headers: Headers = {}, query: Query = ''): Promise<Answer> {
    return this.http.send('HEAD', `${this.path}${queryText(query)}`, { headers });
  }

  delete(headers: Headers = {}): Promise<Answer> {
    return this.http.send('DELETE', this.path, { headers });
  }

  /** Any method on a subresource, such as `snapshot/00000000000000000005`. */
  sub(method: string, resource: string, headers: Headers = {}, body: Body = null): Promise<Answer> {
    return this.http.send(method, `${this.path}/${resource}`, { headers, body });
  }

  publish(offset: string, body: Body, type: string | null = OCTETS, headers: Headers = {}): Promise<Answer> {
    return this.sub('PUT', `snapshot/${offset}`, type === null ? headers : { 'content-type': type, ...headers }, body);
  }

  retain(offset: string, headers: Headers = {}): Promise<Answer> {
    return this.sub('PUT', `retention/${offset}`, headers);
  }

  async bootstrap(query = '', headers: Headers = {}): Promise<Answer> {
    await this.http.beforeRead?.(this.path);
    return this.sub('GET', `bootstrap${query}`, headers);
  }

  /** The tail, by HEAD. */
  async tail(): Promise<string> {
    return (await this.head()).next;
  }

  /** The incarnation token, by HEAD. */
  async token(): Promise<string> {
    return (await this.head()).incarnation;
  }

  /** Everything from an offset to the tail by chained reads. */
  async all(from = '-1', query: Readonly<Record<string, string | number>> = {}): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let offset = from;
    for (;;) {
      const answer = await this.read({ offset, ...query });
      if (answer.status !== 200) throw new Error(`read at ${offset}: ${answer.status} ${answer.text}`);
      pieces.push(answer.body);
      if (answer.upToDate) return Buffer.concat(pieces);
      if (answer.next === offset) throw new Error(`no progress at ${offset}`);
      offset = answer.next;
    }
  }
}

export interface Surface {
  readonly name: 'bucketed' | 'base';
  /** A JSON read's content type. */
  readonly jsonReadType: string;
  /** Body of a JSON read that holds these stored message texts. */
  jsonRead(...messages: readonly string[]): string;
  path(id: string): string;
}

export const BUCKETED: Surface = {
  name: 'bucketed',
  jsonReadType: 'application/x-ndjson',
  jsonRead: (...messages) => messages.map((message) => `${message}\n`).join(''),
  path: (id) => `/rows/${id}`,
};

export const BASE: Surface = {
  name: 'base',
  jsonReadType: JSON_TYPE,
  jsonRead: (...messages) => `[${messages.join(',')}]`,
  path: (id) => `/v1/stream/rows/${id}`,
};

/** An id that no other test uses. */
export function uniqueId(): string {
  return `s-${randomBytes(6).toString('hex')}`;
}

/** A stream of its own on a surface. */
export function fresh(node: FirnNode, on: Surface = BUCKETED): Stream {
  return new Stream(node.http, on.path(uniqueId()));
}

/** The same stream as seen on the other surface. */
export function twin(stream: Stream): Stream {
  return new Stream(stream.http, stream.path.startsWith('/v1/stream/') ? stream.path.slice('/v1/stream'.length) : `/v1/stream${stream.path}`);
}

/** Runs a group of tests once on each surface. */
export function onBoth(title: string, body: (on: Surface) => void): void {
  for (const on of [BUCKETED, BASE]) describe(`${title} (${on.name})`, () => body(on));
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
