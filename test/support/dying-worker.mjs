/**
 * A worker that kills itself (SIGKILL) at the n-th time that it comes to a step: `dying-worker.mjs {step} {n}`, or freezes there (SIGSTOP): `… freeze`. Settings as for
 * `firn worker`. The step `none` never comes: then it is a worker with a short lock. With `… lasting` its lock is that of `firn worker`.
 */
import { writeSync } from 'node:fs';
import process from 'node:process';

const [, , step = 'none', nth = '1', how] = process.argv;
const dist = new URL('../../dist/', import.meta.url);
const load = (path) => import(new URL(path, dist).href);
const [{ startWorker }, { loadConfig }, { createLogger }, { S3ObjectStore }, { StoreTally }] = await Promise.all([
  load('services/worker/main.js'), load('shared/config/index.js'), load('shared/observability/index.js'), load('shared/storage/s3-store/index.js'),
  load('shared/storage/measured-store.js'),
]);

let left = Number(nth);
function at(name) {
  if (name !== step || --left !== 0) return;
  // Written at once: nothing of this process goes on behind it.
  writeSync(1, `${how === 'freeze' ? 'frozen' : 'dying'} at ${name}\n`);
  process.kill(process.pid, how === 'freeze' ? 'SIGSTOP' : 'SIGKILL');
}

async function* each(source, name) {
  for await (const piece of source) {
    at(name);
    yield piece;
  }
}

/** The same object with some methods replaced. */
function over(target, methods) {
  return new Proxy(target, {
    get(of, name) {
      if (name in methods) return methods[name];
      const value = Reflect.get(of, name, of);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
}

const config = loadConfig({ env: process.env, role: 'client' });
const store = await S3ObjectStore.open(config.s3);
const objects = over(store, {
  putOnce: async (...args) => {
    const merged = args[0].includes('/merged/') ? 'merged' : 'put';
    at(`${merged}:before`);
    const outcome = await store.putOnce(...args);
    at(`${merged}:after`);
    return outcome;
  },
  putUnique: async (...args) => {
    await store.putUnique(...args);
    at('unique:after');
  },
});

/** Dies before a message is sent, while its answer is awaited, or when it is there. */
function told(port, method, name) {
  return async (...args) => {
    at(`${name}:before`);
    const answer = port[method](...args);
    const timer = setTimeout(() => at(`${name}:sent`), 2);
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
      at(`${name}:sent`);
      at(`${name}:after`);
    }
  };
}

const wrap = (port) => over(port, {
  plan: async (job) => {
    const head = await port.plan(job);
    at('taken');
    return head;
  },
  planItems: (...args) => each(port.planItems(...args), 'item'),
  snapshot: async (...args) => {
    const snapshot = await port.snapshot(...args);
    return { ...snapshot, body: each(snapshot.body, 'snapshot:piece') };
  },
  commitSeal: told(port, 'commitSeal', 'commit'),
  planSources: (...args) => each(port.planSources(...args), 'source'),
  commitCompact: told(port, 'commitCompact', 'compact'),
  commitOffload: told(port, 'commitOffload', 'offload'),
  delivery: async (job) => {
    const found = await port.delivery(job);
    if (found !== null) at('delivery:taken');
    return found;
  },
  delivered: told(port, 'delivered', 'delivered'),
});

const stop = new AbortController();
const worker = await startWorker({
  nodeUrl: config.nodeAdminUrl, token: config.adminToken, redisUrl: config.redisUrl, objects, traffic: new StoreTally(), webhooks: { allow: config.webhookAllow, domains: config.webhookDomains }, logger: createLogger(config.log), now: Date.now, lockMs: how === 'lasting' ? undefined : 2_000, wrap,
}, stop.signal);
process.stdout.write('{"event":"working"}\n');
process.on('SIGTERM', () => void worker.close(5_000).then(() => process.exit(0)));
