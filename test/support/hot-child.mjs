/**
 * A process that works on a hot directory until it is killed (`write`) or until its rounds are over (`churn`).
 *
 * write <root> <memtable bytes>: commits batch after batch, and prints the number of each once it is acknowledged.
 * churn <root> <seed>: closes the store at odd moments while reads, scans and commits run, and in the end leaves without closing.
 */
import { join } from 'node:path';
import { openDurableStore } from '../../dist/services/api/hot/durable-store.js';

const [mode, root, argument] = process.argv.slice(2);
const logger = { info() {}, warn() {}, error() {} };
const open = (rocks) => openDurableStore({ dir: join(root, 'hot'), ackedFile: join(root, 'acked'), logger, rocks });
const put = (name, value) => ({ type: 'put', key: Buffer.from(`\x7f${name}`), value: Buffer.from(value) });

if (mode === 'write') {
  const store = await open({ writeBufferBytes: Number(argument) });
  for (;;) {
    const n = store.nextBatch;
    await store.commit([put(`k${n % 200}`, `${n} `.padEnd(500 + (n % 3_000), '.')), put('newest', `${n}`)]);
    process.stdout.write(`${n}\n`);
  }
} else {
  let state = Number(argument) >>> 0;
  const below = (limit) => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) % limit;
  const allowed = new Set(['StoreClosed', 'HotStorePoisoned', 'HotStoreBusy']);
  const quietly = (work) => work.catch((error) => {
    if (!allowed.has(error.name)) throw error;
  });
  const scan = async (store) => {
    for await (const page of store.scan({ from: Buffer.from([0x7f]), to: Buffer.from([0x80]), pageBytes: 1 + below(20_000) })) {
      if (page.length === 0) throw new Error('an empty page');
    }
  };
  for (let round = 0; round < 20; round++) {
    const store = await open({});
    const work = [quietly(store.commit(Array.from({ length: 500 }, (_, index) => put(`k${index}`, 'x'.repeat(300)))))];
    for (let index = 0; index < 50; index++) work.push(quietly(scan(store)), quietly(store.get(Buffer.from(`\x7fk${index}`))), quietly(store.getMany([Buffer.from('\x7fk1'), Buffer.from('\x7fk2')])));
    for (let turns = below(30); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    // The last round is left in the middle of it.
    if (round === 19) process.exit(0);
    if (below(3) === 0 && store.poisoned === null) await Promise.all(work.splice(0, 1)).then(() => quietly(store.reopen()));
    await store.close();
    await Promise.all(work);
  }
}
