import { describe, expect, it } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import { WebhookTargets } from './targets.js';

const DEVELOPMENT = ['127.0.0.0/8', '::1/128'];

function takes(url: string, allow: readonly string[]): boolean {
  try {
    new WebhookTargets({ allow }).check(url);
    return true;
  } catch (error) {
    if (error instanceof FirnError && error.code === 'WEBHOOK_URL_REJECTED') return false;
    throw error;
  }
}

/** What a connection to a name is given. */
function looked(name: string, allow: readonly string[], all: boolean): Promise<unknown> {
  return new Promise((resolve) => new WebhookTargets({ allow }).lookup(name, { all }, (error, address) => resolve(error ?? address)));
}

describe('targets of webhooks', () => {
  it('SUB-09 SUB-11 takes https to public hosts alone', () => {
    for (const url of ['https://worker.example/h', 'https://8.8.8.8/h', 'https://[2606:4700::1111]/h', 'https://worker.example:8443/h?x=1']) expect(takes(url, []), url).toBe(true);
    const refused = [
      'http://worker.example/h', 'http://8.8.8.8/h', 'ftp://worker.example', 'nonsense', '', 'https://user:secret@worker.example/', `https://worker.example/${'x'.repeat(2_048)}`,
      'http://10.0.0.1', 'https://10.0.0.1', 'https://192.168.0.1', 'https://172.16.9.9', 'https://169.254.169.254', 'https://100.64.0.1', 'https://0.0.0.0', 'https://224.0.0.1', 'https://255.255.255.255',
      'https://127.0.0.1', 'https://127.1', 'https://2130706433', 'https://0x7f.0.0.1', 'https://017700000001', 'https://localhost', 'https://localhost.', 'https://x.localhost',
      'https://[::1]', 'https://[::]', 'https://[fe80::1]', 'https://[fd00::1]', 'https://[ff02::1]', 'https://[::ffff:10.0.0.1]', 'https://[::ffff:a00:1]', 'https://[64:ff9b::a00:1]', 'https://[2002:a00:1::]', 'https://[2001:db8::1]',
    ];
    for (const allow of [[], DEVELOPMENT]) for (const url of refused) expect(takes(url, allow), url).toBe(false);
  });

  it('SUB-10 takes http to localhost and 127.x while loopback is allowed', () => {
    for (const url of ['http://localhost:8080/h', 'http://127.0.0.1/h', 'http://127.0.0.9:1/h']) {
      expect(takes(url, DEVELOPMENT), url).toBe(true);
      expect(takes(url, []), url).toBe(false);
    }
    expect(takes('http://[::1]/h', DEVELOPMENT)).toBe(false);
  });

  it('takes private addresses that the operator lists', () => {
    for (const url of ['http://10.1.2.3/h', 'https://10.1.2.3/h']) expect(takes(url, ['10.0.0.0/8'])).toBe(true);
    expect(takes('https://[fd00::7]/h', ['fd00::7'])).toBe(true);
    expect(takes('https://11.0.0.1:1/h', ['10.0.0.0/8'])).toBe(true);
    expect(takes('https://192.168.0.1/h', ['10.0.0.0/8'])).toBe(false);
  });

  it('SUB-12 takes the domains alone that the operator lists, where he lists some', () => {
    const refused = (url: string): boolean => {
      try {
        new WebhookTargets({ allow: DEVELOPMENT, domains: ['hooks.example', '*.team.example', '127.0.0.1', '10.0.0.1'] }).check(url);
        return false;
      } catch {
        return true;
      }
    };
    for (const url of ['https://hooks.example/h', 'https://HOOKS.example./h', 'https://a.team.example', 'https://a.b.team.example', 'http://127.0.0.1:1/h']) expect(refused(url), url).toBe(false);
    for (const url of ['https://x.hooks.example', 'https://team.example', 'https://evilteam.example', 'https://a.team.example.evil', 'https://worker.example', 'https://8.8.8.8', 'http://127.0.0.2/h', 'http://localhost/h']) expect(refused(url), url).toBe(true);
    // A list makes nothing reachable that is not.
    for (const url of ['http://hooks.example/h', 'https://10.0.0.1/h']) expect(refused(url), url).toBe(true);
  });

  it('SUB-56 judges the addresses of a name where it connects', async () => {
    expect(await looked('localhost', DEVELOPMENT, false)).toBe('127.0.0.1');
    expect(await looked('localhost', DEVELOPMENT, true)).toEqual([{ address: '127.0.0.1', family: 4 }]);
    for (const name of ['localhost', 'LOCALHOST']) expect(await looked(name, [], false)).toMatchObject({ name: 'TargetRefused' });
    // A literal address comes back as itself, so it stands for a name that leads there.
    for (const address of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1']) expect(await looked(address, DEVELOPMENT, true), address).toMatchObject({ name: 'TargetRefused' });
    expect(await looked('8.8.8.8', [], false)).toBe('8.8.8.8');
    expect(await looked('10.0.0.1', ['10.0.0.1'], false)).toBe('10.0.0.1');
  });
});
