/** The Yjs server of `@durable-streams/y-durable-streams` before the node at the URL given, in a process of its own as in life; prints its own URL. */
import { YjsServer } from '@durable-streams/y-durable-streams/server';

// A document is put together when its updates have grown to so many bytes.
const server = new YjsServer({ port: 0, host: '127.0.0.1', dsServerUrl: process.argv[2], compactionThreshold: 2_000 });
await server.start();
process.stdout.write(`${server.url}\n`);
