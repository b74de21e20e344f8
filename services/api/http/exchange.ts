/**
 * One request and its answer.
 *
 * Owns: writing an answer's head and body in one go, the headers that every answer carries (SEC-01, SEC-02), CORS headers, and the
 * count of requests. Promises: the head is written once; an answer without a body has none.
 */
import type { ServerResponse } from 'node:http';
import type { RouteClass } from '../../../shared/observability/metrics.js';
import type { HttpDeps } from './deps.js';
import { corsHeaders } from './cors.js';
import type { TakenRequest } from './taken-request.js';

/** Version 0.11 of the extension profile: major times 1,000 plus minor. */
const PROTOCOL = '11';
/** A node is a cluster of its own. */
const CLUSTER_ID = 'firn';

export class Exchange {
  /** What the request is about, for the metrics. */
  routeClass: RouteClass = 'other';
  /** Bytes of the budget for bodies that this request holds. */
  heldBytes = 0;
  readonly isHead: boolean;
  readonly deps: HttpDeps;
  readonly req: TakenRequest;
  readonly res: ServerResponse;

  constructor(deps: HttpDeps, req: TakenRequest, res: ServerResponse) {
    this.deps = deps;
    this.req = req;
    this.res = res;
    this.isHead = req.method === 'HEAD';
  }

  /** Writes the head. `headers`: names and values in turn, without those that every answer has. */
  head(status: number, headers: string[]): void {
    headers.push('X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'cross-origin');
    if (this.deps.config.corsOrigins.length > 0) corsHeaders(this.deps.config.corsOrigins, this.req.headers.origin, headers);
    // Clients of the extension profile read these from any HEAD.
    if (this.isHead) headers.push('Ursula-Protocol', PROTOCOL, 'Ursula-Cluster-Id', CLUSTER_ID);
    // A client that waits for `100 Continue` may leave out the body that it announced: what comes next on the connection is anybody's guess.
    if (this.req.headers.expect !== undefined && !this.req.complete && !headers.includes('Connection')) headers.push('Connection', 'close');
    this.deps.metrics.requests.count(this.routeClass, status);
    this.res.writeHead(status, headers);
  }

  /** An answer without a body. */
  empty(status: number, headers: string[]): void {
    this.head(status, headers);
    this.res.end();
  }

  /** A whole answer; its length is stated, and for HEAD the body left out. */
  whole(status: number, headers: string[], body: Buffer): void {
    headers.push('Content-Length', String(body.length));
    this.head(status, headers);
    if (this.isHead) this.res.end();
    else this.res.end(body);
  }

  /** The client is gone, or the answer was cut. */
  get gone(): boolean {
    return this.res.destroyed || this.req.socket.destroyed;
  }
}
