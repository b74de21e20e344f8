/**
 * The application of the client listener: both surfaces, nothing else (architecture sections 1 and 3).
 *
 * Owns: which handler answers what. Promises: every route is matched by hand, every failure rendered in one place, a head written once.
 *
 * Koa served here too until nothing of it was left in use but its context, which each small append paid for; operators' routes have it.
 */
import type { HubTimes } from '../live/hub.js';
import { append } from './append.js';
import { Bodies, type BodyLimit } from './body.js';
import { getBootstrap } from './bootstrap.js';
import { getChunk } from './chunk.js';
import { preflightHeaders } from './cors.js';
import { create, createBucket } from './create.js';
import type { HttpDeps } from './deps.js';
import { renderError } from './errors.js';
import { Exchange } from './exchange.js';
import { head, remove } from './head-delete.js';
import { LiveReads } from './live-read.js';
import { read } from './read.js';
import { checkHead } from './request-headers.js';
import { retain } from './retention.js';
import { parseRoute, refuseMethod, type Route } from './routes.js';
import { control } from './subscriptions/control.js';
import type { Handler } from './server.js';
import { getIncarnationSnapshot, getSnapshot, publishSnapshot } from './snapshot.js';
import { commitParts, discardParts, listsParts, uploadPart } from './snapshot-parts.js';

/** Limits and periods that tests make smaller. */
export interface ClientAppOptions {
  readonly sse?: Partial<HubTimes>;
  readonly bodyWindowMs?: number;
  readonly ingressBytesMax?: number;
  readonly liveReadersMax?: number;
}

export interface ClientApp {
  readonly handler: Handler;
  readonly live: LiveReads;
  readonly bodies: Bodies;
  /** Ends live reads, with what tells their clients where to go on; later ones end at once. */
  endLongAnswers(): void;
  /** Stops the timers. */
  close(): void;
}

/** `deps.now` and `deps.random` are used wherever an answer depends on them. */
export function createClientApp(deps: HttpDeps, options: ClientAppOptions = {}): ClientApp {
  const bodies = new Bodies(() => performance.now(), options.bodyWindowMs, options.ingressBytesMax);
  const live = new LiveReads(deps, { times: options.sse, readersMax: options.liveReadersMax });
  const surface = new Surface(deps, bodies, live);
  const handler: Handler = (req, res) => surface.answer(new Exchange(deps, req, res));
  const close = (): void => {
    live.close();
    bodies.close();
  };
  return { handler, live, bodies, endLongAnswers: () => live.shutdown(), close };
}

class Surface {
  readonly #bodies: Bodies;
  readonly #live: LiveReads;
  readonly #requestLimit: BodyLimit;
  readonly #snapshotLimit: BodyLimit;

  constructor({ config }: HttpDeps, bodies: Bodies, live: LiveReads) {
    this.#bodies = bodies;
    this.#live = live;
    this.#requestLimit = { bytes: config.requestBytesMax, code: 'REQUEST_TOO_LARGE', header: 'Ursula-Max-Request-Bytes' };
    this.#snapshotLimit = { bytes: config.snapshotBytesMax, code: 'SNAPSHOT_TOO_LARGE', header: 'Ursula-Max-Snapshot-Bytes' };
  }

  answer(exchange: Exchange): void {
    try {
      const { method } = exchange.req;
      checkHead(exchange.req);
      if (method === 'OPTIONS') preflight(exchange);
      else this.#dispatch(exchange, parseRoute(exchange.req.url ?? '/'), method ?? '')?.catch((error: unknown) => refuse(exchange, error));
    } catch (error) {
      refuse(exchange, error);
    }
  }

  #dispatch(exchange: Exchange, route: Route, method: string): Promise<void> | undefined {
    switch (route.kind) {
      case 'stream':
        return this.#stream(exchange, route, method);
      case 'control':
        return control(exchange, route, method, this.#bodies);
      case 'bucket':
        if (method !== 'PUT') refuseMethod(route.kind);
        createBucket(exchange);
        return undefined;
      case 'bootstrap':
        return reads(method) ? getBootstrap(exchange, route) : refuseMethod(route.kind);
      case 'snapshot':
        if (method === 'PUT') return listsParts(exchange.req) ? commitParts(exchange, route, this.#bodies) : publishSnapshot(exchange, route, this.#bodies, this.#snapshotLimit);
        return reads(method) ? getSnapshot(exchange, route) : refuseMethod(route.kind);
      case 'snapshot-parts':
        return method === 'POST' ? uploadPart(exchange, route, this.#bodies, this.#requestLimit) : refuseMethod(route.kind);
      case 'staged-parts':
        return method === 'DELETE' ? discardParts(exchange, route) : refuseMethod(route.kind);
      case 'retention':
        return method === 'PUT' ? retain(exchange, route) : refuseMethod(route.kind);
      case 'chunk':
        return reads(method) ? getChunk(exchange, route) : refuseMethod(route.kind);
      case 'incarnation-snapshot':
        return reads(method) ? getIncarnationSnapshot(exchange, route) : refuseMethod(route.kind);
    }
  }

  #stream(exchange: Exchange, route: Route, method: string): Promise<void> {
    switch (method) {
      case 'POST':
        return append(exchange, route, this.#bodies, this.#requestLimit);
      case 'GET':
        return read(exchange, route, this.#live);
      case 'HEAD':
        return head(exchange, route);
      case 'PUT':
        return create(exchange, route, this.#bodies, this.#requestLimit);
      case 'DELETE':
        return remove(exchange, route);
      default:
        return refuseMethod('stream');
    }
  }
}

function refuse(exchange: Exchange, error: unknown): void {
  try {
    renderError(exchange, error);
  } catch (fault) {
    exchange.deps.logger.error({ event: 'request-failed', err: fault }, 'a request could not even be refused');
    exchange.res.destroy();
  }
}

function reads(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Asked by browsers before a request of another origin; answered whether or not that origin may read the answer. */
function preflight(exchange: Exchange): void {
  exchange.routeClass = 'preflight';
  exchange.empty(204, preflightHeaders());
}
