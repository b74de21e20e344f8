/**
 * `@durable-streams/y-durable-streams`, unmodified: its server for Yjs documents on a running node, its provider in front.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { YjsProvider } from '@durable-streams/y-durable-streams';
import { afterAll, beforeAll, it } from 'vitest';
import { Awareness } from 'y-protocols/awareness';
import { Doc } from 'yjs';
import { useNode } from '../support/node.js';
import { until } from '../workers/rig.js';

const node = useNode();

let server: ChildProcessByStdio<null, Readable, null>;
let url = '';

beforeAll(async () => {
  server = spawn(process.execPath, [fileURLToPath(new URL('yjs-server.mjs', import.meta.url)), node.url], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(server.stdout, 'data')) as [Buffer];
  url = String(line).trim();
});

afterAll(async () => {
  const ended = once(server, 'exit');
  server.kill();
  await ended;
});

interface Open {
  readonly doc: Doc;
  readonly provider: YjsProvider;
  readonly awareness: Awareness;
}

async function open(docId: string, liveMode: 'sse' | 'long-poll'): Promise<Open> {
  const doc = new Doc();
  const awareness = new Awareness(doc);
  const provider = new YjsProvider({ doc, awareness, baseUrl: `${url}/v1/yjs/clients`, docId, liveMode });
  await until('the document is there', () => provider.synced);
  return { doc, provider, awareness };
}

const text = ({ doc }: Open): string => doc.getText('text').toString();

for (const live of ['sse', 'long-poll'] as const) {
  it(`documents follow each other by ${live}, and one that comes late is whole`, async () => {
    const docId = `notes/${live}`;
    const ada = await open(docId, live);
    const bob = await open(docId, live);
    const all = [ada, bob];
    try {
      ada.awareness.setLocalStateField('user', 'Ada');
      for (let n = 0; n < 60; n++) {
        const { doc } = n % 2 === 0 ? ada : bob;
        doc.getText('text').insert(doc.getText('text').length, `line ${n} of a text that grows beyond what is put together\n`);
      }
      await until('both have all lines', () => text(ada) === text(bob) && text(ada).split('\n').length === 61);
      await until('Bob sees Ada', () => [...bob.awareness.getStates().values()].some((state) => state['user'] === 'Ada'));
      const late = await open(docId, live);
      all.push(late);
      await until('the late one has all lines', () => text(late) === text(ada));
      late.doc.getText('text').insert(0, 'first\n');
      await until('all have the first line', () => all.every((each) => text(each).startsWith('first\n') && text(each) === text(late)));
    } finally {
      for (const { provider, awareness } of all) {
        awareness.destroy();
        provider.destroy();
      }
    }
  });
}
