/**
 * Where webhooks may go (SUB-09 .. SUB-12, SUB-56, P12.8).
 *
 * Owns: which URLs are taken and which addresses are connected to. Promises: `https` to public addresses only; the exceptions are `http://localhost` and `http://127.x` while the operator allows
 * loopback, and private addresses that the operator lists; to listed domains alone where he lists some. An address is judged where a connection is made, so neither a name nor a later change of its address leads around this.
 */
import { lookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { FirnError } from '../../../shared/protocol/errors.js';
import { URL_CHARS_MAX } from './limits.js';

/** Ranges that are not public: private, shared, loopback, link-local (with the metadata services of clouds), multicast, documentation, reserved. */
const PRIVATE = new BlockList();
const PRIVATE_V4 = [
  ['0.0.0.0', 8], ['10.0.0.0', 8], ['100.64.0.0', 10], ['127.0.0.0', 8], ['169.254.0.0', 16], ['172.16.0.0', 12], ['192.0.0.0', 24], ['192.0.2.0', 24], ['192.88.99.0', 24], ['192.168.0.0', 16],
  ['198.18.0.0', 15], ['198.51.100.0', 24], ['203.0.113.0', 24], ['224.0.0.0', 3],
] as const;
/** Of IPv6 only global unicast is public, without what embeds or documents something else. */
const PUBLIC_V6 = new BlockList();
PUBLIC_V6.addSubnet('2000::', 3, 'ipv6');
const PRIVATE_V6 = [['2001::', 23], ['2001:db8::', 32], ['2002::', 16], ['3fff::', 20]] as const;
for (const [net, bits] of PRIVATE_V4) PRIVATE.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of PRIVATE_V6) PRIVATE.addSubnet(net, bits, 'ipv6');
const LOOPBACK_V4 = new BlockList();
LOOPBACK_V4.addSubnet('127.0.0.0', 8, 'ipv4');
const MAPPED = /^::ffff:(?:0:)?(\d+\.\d+\.\d+\.\d+)$/i;

/** A webhook's target was refused: nothing was sent. */
export class TargetRefused extends Error {
  constructor(readonly why: string) {
    super(why);
    this.name = 'TargetRefused';
  }
}

/** What the operator says of webhooks. */
export interface WebhookLists {
  /** Addresses and ranges `address/bits` that are reached although they are not public. */
  readonly allow: readonly string[];
  /** Hosts, or `*.` and what lies below a domain, in lower case; every webhook has to go to one of them. None: to any. */
  readonly domains?: readonly string[];
}

export class WebhookTargets {
  readonly #allowed = new BlockList();
  readonly #domains: readonly string[];

  constructor({ allow, domains = [] }: WebhookLists) {
    this.#domains = domains;
    for (const entry of allow) {
      const [address = '', bits] = entry.split('/');
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
      if (bits === undefined) this.#allowed.addAddress(address, family);
      else this.#allowed.addSubnet(address, Number(bits), family);
    }
  }

  /** The URL, checked as far as it can be without a look at its name's addresses. Throws WEBHOOK_URL_REJECTED. */
  check(text: string): URL {
    const refused = (why: string): FirnError => new FirnError('WEBHOOK_URL_REJECTED', { detail: why });
    if (text.length > URL_CHARS_MAX || !URL.canParse(text)) throw refused(`webhook.url is an absolute URL of at most ${URL_CHARS_MAX} characters`);
    const url = new URL(text);
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('webhook.url is an https URL');
    if (url.username !== '' || url.password !== '') throw refused('webhook.url holds no credentials');
    try {
      this.checkHost(url);
    } catch (error) {
      throw error instanceof TargetRefused ? refused(error.why) : error;
    }
    return url;
  }

  /** The part that holds for every delivery. Throws `TargetRefused`. */
  checkHost(url: URL): void {
    const host = bareHost(url);
    if (this.#domains.length > 0 && !this.#isListed(host)) throw new TargetRefused('webhook.url leads to none of the domains that are allowed');
    const plain = url.protocol === 'http:';
    if (isIP(host) !== 0) {
      if (isPublic(host)) {
        if (plain) throw new TargetRefused('webhook.url uses https');
      } else if (!this.#reaches(host, plain)) {
        throw new TargetRefused('webhook.url leads to an address that is not public');
      }
      return;
    }
    if (isLocalName(host)) {
      if (!plain || host !== 'localhost' || !this.#allows('127.0.0.1')) throw new TargetRefused('webhook.url leads to this machine');
    } else if (plain) {
      throw new TargetRefused('webhook.url uses https');
    }
  }

  #isListed(host: string): boolean {
    const name = host.endsWith('.') ? host.slice(0, -1) : host;
    return this.#domains.some((domain) => (domain.startsWith('*.') ? name.endsWith(domain.slice(1)) : name === domain));
  }

  /** Looks a name up for a connection, and gives only addresses that may be reached; `TargetRefused` when there is none. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      const local = isLocalName(hostname.toLowerCase());
      const open = addresses.filter(({ address }) => (local ? this.#reaches(address, true) : isPublic(address) || this.#reaches(address, false)));
      const [first] = open;
      if (first === undefined) callback(new TargetRefused('the name of the webhook leads to no address that may be reached'), []);
      else if (options.all === true) callback(null, open);
      else callback(null, first.address, first.family);
    });
  };

  /** Whether an address that is not public is reached: as the operator lists it; loopback by plain http to `localhost` or 127.x alone. */
  #reaches(address: string, plain: boolean): boolean {
    const v4 = embedded(address);
    if (v4 === '::1' || (isIP(v4) === 4 && LOOPBACK_V4.check(v4))) return plain && v4 !== '::1' && this.#allows(v4);
    return this.#allows(v4);
  }

  #allows(address: string): boolean {
    return this.#allowed.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
}

/** The host as `node:net` wants it. */
function bareHost(url: URL): string {
  const host = url.hostname.toLowerCase();
  return host.startsWith('[') ? host.slice(1, -1) : host;
}

function isLocalName(host: string): boolean {
  const name = host.endsWith('.') ? host.slice(0, -1) : host;
  return name === 'localhost' || name.endsWith('.localhost');
}

function isPublic(address: string): boolean {
  const bare = embedded(address);
  if (isIP(bare) === 4) return !PRIVATE.check(bare, 'ipv4');
  return PUBLIC_V6.check(bare, 'ipv6') && !PRIVATE.check(bare, 'ipv6');
}

/** The IPv4 address in an IPv6 one that stands for it, else the address. */
function embedded(address: string): string {
  const dotted = MAPPED.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  if (isIP(address) !== 6 || !address.toLowerCase().startsWith('::ffff:')) return address;
  const words = address.slice('::ffff:'.length).split(':').map((word) => parseInt(word, 16));
  const [high, low] = words;
  if (words.length !== 2 || high === undefined || low === undefined) return address;
  return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`;
}
