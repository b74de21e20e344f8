/**
 * What the configuration has to know about addresses: which hosts are loopback, and how a host and port read in a URL.
 */
import { BlockList, isIP } from 'node:net';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Address ranges that mean this machine, as `FIRN_WEBHOOK_ALLOW` writes them. */
export const LOOPBACK_RANGES: readonly string[] = ['127.0.0.0/8', '::1/128'];

const LISTEN_EVERYWHERE: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** A host as the socket calls want it: IPv6 without its brackets. */
export function bare(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

/** true: a listener on `host` can be reached from this machine alone. A name other than `localhost` counts as beyond it. */
export function isLoopback(host: string): boolean {
  const name = bare(host);
  const family = isIP(name);
  if (family === 0) return name.toLowerCase() === 'localhost';
  return loopback.check(name, family === 6 ? 'ipv6' : 'ipv4');
}

/** `http://host:port`, with brackets around IPv6; a listener on all addresses is named by loopback. */
export function httpUrl(host: string, port: number): string {
  const name = bare(host);
  const reachable = LISTEN_EVERYWHERE[name] ?? name;
  return `http://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
}

/** true for an IP address or a range `address/bits`. */
export function isAddressRange(text: string): boolean {
  const slash = text.indexOf('/');
  const family = isIP(slash < 0 ? text : text.slice(0, slash));
  if (family === 0) return false;
  if (slash < 0) return true;
  const bits = text.slice(slash + 1);
  return /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32);
}
