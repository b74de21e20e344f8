import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { COUNTER_LIMIT, incarnationSource } from '../../../shared/protocol/incarnation.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { DurableStore } from '../hot/durable.js';
import { readTokenReserve, rowsOfStore, tokenReserveRow } from './directory.js';
import { TOKEN_BLOCK } from './limits.js';
import { TokenIssuer } from './tokens.js';

const KEY = Buffer.alloc(32, 7);
let dir: string;
let store: DurableStore;
let session: number;
let claims: number;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-tokens-'));
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger: createLogger('silent') });
  session = 1;
  claims = 0;
});
afterEach(async () => {
  await store.close();
  await rm(dir, { recursive: true, force: true });
});

function issuer(): TokenIssuer {
  return new TokenIssuer(3, KEY, rowsOfStore(store), {
    session: () => session,
    next: async () => {
      claims++;
      session++;
    },
  });
}

describe('incarnation tokens (I7)', () => {
  it('are never issued twice, over restarts and sessions, by many callers at once', async () => {
    const seen = new Set<number>();
    let issued = 0;
    for (let run = 0; run < 4; run++) {
      const tokens = issuer();
      const batch = await Promise.all(Array.from({ length: TOKEN_BLOCK + 10 }, () => tokens.issue()));
      for (const token of batch) seen.add(token);
      issued += batch.length;
      if (run === 1) session++;
      if (run === 2) {
        // A session that begins while the issuer runs.
        session++;
        seen.add(await tokens.issue());
        issued++;
      }
    }
    expect(seen.size).toBe(issued);
  });

  it('rest on a counter that is durable before it is used', async () => {
    const token = await issuer().issue();
    const source = incarnationSource(KEY, token);
    expect(source).toMatchObject({ partition: 3, session: 1 });
    const reserve = await readTokenReserve(store, 3);
    expect(reserve?.reserved).toBeGreaterThan(source?.counter as number);
  });

  it('go on in the next session when the counter is used up', async () => {
    await store.commit([tokenReserveRow(3, { session: 1, reserved: COUNTER_LIMIT - 2 })]);
    const tokens = issuer();
    const sources = [];
    for (let n = 0; n < 4; n++) sources.push(incarnationSource(KEY, await tokens.issue()));
    expect(sources).toEqual([
      { partition: 3, session: 1, counter: COUNTER_LIMIT - 2 },
      { partition: 3, session: 1, counter: COUNTER_LIMIT - 1 },
      { partition: 3, session: 2, counter: 0 },
      { partition: 3, session: 2, counter: 1 },
    ]);
    expect(claims).toBe(1);
  });
});
