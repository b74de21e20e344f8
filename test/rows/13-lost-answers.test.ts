/** Keyed writes whose answers are lost, or that are cut on their way, while everything is sealed and evicted between the attempts (section 26, R068). */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import type { Random } from '../support/random.js';
import { RawConnection } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, sleep } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const WRITES = 120;

const node = useNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '20', FIRN_SEAL_BYTES: '2000' });
const random = seeded('lost answers');

/** Sends a keyed write and goes away: before its body is complete, or before its answer. */
async function lose(s: Stream, type: string, producer: readonly [string, number, number], body: string, luck: Random): Promise<void> {
  const connection = await RawConnection.open(node.url);
  const half = luck.chance(0.3);
  const head = [`POST ${s.path} HTTP/1.1`, 'Host: x', `Content-Type: ${type}`, `Producer-Id: ${producer[0]}`, `Producer-Epoch: ${producer[1]}`, `Producer-Seq: ${producer[2]}`, `Content-Length: ${body.length}`, '', ''];
  connection.write(head.join('\r\n') + (half ? body.slice(0, -1) : body));
  await sleep(luck.int(0, 12));
  connection.socket.resetAndDestroy();
}

onBoth('lost answers', (on) => {
  it('WO-03 WO-04 R068 a repeat with the same key answers 200 or 204, and the data is there once', { timeout: 120_000 }, async () => {
    for (const type of [OCTETS, JSON_TYPE]) {
      const s = fresh(node, on);
      await s.create({ type });
      const written = await Promise.all(
        ['one', 'two', 'three'].map(async (id) => {
          const luck = random.fork();
          const bodies: string[] = [];
          const seen = new Set<number>();
          let lost = 0;
          for (let seq = 0; seq < WRITES; seq += 1) {
            const body = JSON.stringify(`${id}.${seq};${'x'.repeat(luck.int(0, 200))}`);
            bodies.push(body);
            const producer = [id, 0, seq] as const;
            for (let tries = luck.pick([0, 0, 0, 1, 1, 3]); tries > 0; tries -= 1) {
              await lose(s, type, producer, body, luck);
              lost += 1;
            }
            const answer = await s.append(body, { producer });
            seen.add(answer.status);
            expect([id, seq, [200, 204]]).toEqual([id, seq, expect.arrayContaining([answer.status])]);
            if (luck.chance(0.1)) expect((await s.append(body, { producer })).status).toBe(204);
          }
          // Some of the lost ones had been applied, some had not.
          expect([...seen].sort()).toEqual([200, 204]);
          expect(lost).toBeGreaterThan(WRITES / 4);
          return [id, bodies] as const;
        }),
      );
      await node.seal();
      const text = type === JSON_TYPE && on.name === 'base' ? (JSON.parse((await s.read()).text) as string[]).map((one) => JSON.stringify(one)) : ((await s.all()).toString().match(/"[^"]*"/g) ?? []);
      expect(text).toHaveLength(3 * WRITES);
      for (const [id, bodies] of written) expect(text.filter((one) => one.startsWith(`"${id}.`))).toEqual(bodies);
    }
  });
});
