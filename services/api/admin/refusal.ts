/**
 * Refusals of the admin listener that the client surface does not know, and how all of its failures are rendered.
 */
import type { Context, Middleware } from 'koa';
import type { Logger } from '../../../shared/observability/index.js';
import { FirnError } from '../../../shared/protocol/errors.js';

export class AdminRefusal extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'AdminRefusal';
  }
}

/** Renders what the routes throw as `{"error":{"code","message"}}`; operators are told what went wrong. */
export function renderFailures(logger: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next();
      refuseUnanswered(ctx);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal.status >= 500) logger.error({ event: 'admin-failed', err: error, method: ctx.method, path: ctx.path }, 'an admin request failed');
      ctx.set(refusal.headers);
      ctx.status = refusal.status;
      ctx.body = { error: { code: refusal.code, message: refusal.message } };
    }
    ctx.set('Cache-Control', 'no-store');
    ctx.set('X-Content-Type-Options', 'nosniff');
  };
}

/** What the router left: no route, or none for the method (its `Allow` is set). */
function refuseUnanswered(ctx: Context): void {
  if (ctx.body !== undefined && ctx.body !== null) return;
  if (ctx.status === 404) throw new AdminRefusal(404, 'NOT_FOUND', 'there is no such route');
  if (ctx.status === 405 || ctx.status === 501) throw new AdminRefusal(405, 'METHOD_NOT_ALLOWED', 'this route does not take this method');
}

function refusalOf(error: unknown): AdminRefusal {
  if (error instanceof AdminRefusal) return error;
  if (error instanceof FirnError) return new AdminRefusal(error.status, error.code, error.detail ?? error.message, error.headers);
  return new AdminRefusal(500, 'INTERNAL', error instanceof Error ? error.message : 'the request failed');
}
