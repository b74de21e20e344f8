/**
 * `@durable-streams/state`, unmodified, on a stream of a running node: a database that follows it.
 */
import { DurableStream } from '@durable-streams/client';
import { createStateSchema, MaterializedState } from '@durable-streams/state';
import { createStreamDB } from '@durable-streams/state/db';
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { until } from '../workers/rig.js';

const node = useNode();

interface User {
  readonly id: string;
  readonly name: string;
}

/** A schema of the standard form that takes what it is given. */
const users = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value: value as User }) } } as const;

const event = (operation: 'insert' | 'update' | 'delete', key: string, value?: User): string => JSON.stringify({ type: 'user', key, ...(value === undefined ? {} : { value }), headers: { operation } });

for (const live of ['long-poll', 'sse'] as const) {
  it(`a database follows its stream by ${live}`, async () => {
    const handle = await DurableStream.create({ url: `${node.url}/v1/stream/clients/state-${live}`, contentType: 'application/json' });
    await handle.append(event('insert', '1', { id: '1', name: 'Ada' }));
    await handle.append(event('insert', '2', { id: '2', name: 'Bob' }));
    const db = createStreamDB({
      streamOptions: { url: handle.url, contentType: 'application/json' },
      live,
      state: createStateSchema({ users: { schema: users, type: 'user', primaryKey: 'id' } }),
    });
    try {
      await db.preload();
      const names = (): (string | undefined)[] => ['1', '2', '3'].map((id) => (db.collections.users.get(id) as User | undefined)?.name);
      expect(names()).toEqual(['Ada', 'Bob', undefined]);
      await handle.append(event('update', '1', { id: '1', name: 'Ada L.' }));
      await handle.append(event('delete', '2'));
      await handle.append(event('insert', '3', { id: '3', name: 'Cy' }));
      await until('the third user is there', () => names()[2] === 'Cy');
      expect(names()).toEqual(['Ada L.', undefined, 'Cy']);
    } finally {
      db.close();
    }
  });
}

it('events read back from a stream make the state that they describe', async () => {
  const handle = await DurableStream.create({ url: `${node.url}/v1/stream/clients/materialized`, contentType: 'application/json' });
  for (const one of [event('insert', '1', { id: '1', name: 'Ada' }), event('update', '1', { id: '1', name: 'Ada L.' }), event('insert', '2', { id: '2', name: 'Bob' }), event('delete', '2')]) await handle.append(one);
  const state = new MaterializedState();
  const read = await handle.stream<Parameters<MaterializedState['apply']>[0]>({ live: false });
  for (const one of await read.json()) state.apply(one);
  expect(state.get('user', '1')).toEqual({ id: '1', name: 'Ada L.' });
  expect(state.get('user', '2')).toBeUndefined();
});
