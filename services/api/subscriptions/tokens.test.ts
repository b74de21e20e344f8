import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { TOKEN_MS } from './limits.js';
import { makeToken, readToken } from './tokens.js';

const secret = randomBytes(32);
const claims = { subscription: 's/ü', number: 7, generation: 3, use: 'claim' } as const;

function code(run: () => unknown): string {
  try {
    run();
    return 'none';
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe('tokens', () => {
  it('SUB-48 say what they were made with, to the node that made them', () => {
    const token = makeToken(secret, claims, 1_000);
    expect(token).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/);
    expect(readToken(secret, token, 's/ü', 'claim', 2_000)).toEqual(claims);
    expect(code(() => readToken(randomBytes(32), token, 's/ü', 'claim', 2_000))).toBe('TOKEN_INVALID');
  });

  it('SUB-48 no altered one is taken', () => {
    const token = makeToken(secret, claims, 1_000);
    for (let at = 0; at < token.length; at++) {
      const altered = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      expect(code(() => readToken(secret, altered, 's/ü', 'claim', 2_000)), String(at)).toBe('TOKEN_INVALID');
    }
    for (const bad of [null, '', '.', 'x', `${token}=`, `${token}.`, `${token}A`, 'x'.repeat(5_000)]) expect(code(() => readToken(secret, bad, 's/ü', 'claim', 2_000))).toBe('TOKEN_INVALID');
  });

  it('SUB-33 hold for one subscription, one use and their time', () => {
    const token = makeToken(secret, claims, 1_000);
    expect(code(() => readToken(secret, token, 'other', 'claim', 2_000))).toBe('TOKEN_INVALID');
    expect(code(() => readToken(secret, token, 's/ü', 'callback', 2_000))).toBe('TOKEN_INVALID');
    expect(code(() => readToken(secret, token, 's/ü', 'claim', 1_000 + TOKEN_MS))).toBe('TOKEN_EXPIRED');
    expect(code(() => readToken(secret, token, 's/ü', 'claim', 999 + TOKEN_MS))).toBe('none');
  });
});
