/**
 * Where this node is for a client, for the absolute URLs in its answers.
 */
import type { Exchange } from './exchange.js';

const HOST = /^[A-Za-z0-9.:[\]_-]{1,255}$/;

/** As the operator says, else as the client itself wrote it; without a slash at its end. null: neither tells. */
export function originOf({ deps, req }: Exchange): string | null {
  const { publicUrl } = deps.config;
  if (publicUrl !== null) return publicUrl.endsWith('/') ? publicUrl.slice(0, -1) : publicUrl;
  const { host } = req.headers;
  return host !== undefined && HOST.test(host) ? `http://${host}` : null;
}
