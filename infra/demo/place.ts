/**
 * Where the demonstration takes place: a node with everything in itself, or one with S3, Redis and two workers beside it.
 *
 * Owns: what is started beside the node. Promises: all of it lies on free ports of loopback and in folders of its own, and ends with the scope.
 */
import { join } from 'node:path';
import { paginateListObjectsV2 } from '@aws-sdk/client-s3';
import { step } from '../lib/bars.js';
import { WorkerProcess, type FirnProcess, type Settings } from '../lib/firn-process.js';
import type { Scope } from '../lib/scope.js';
import { RedisServer } from '../services/redis.js';
import { startS3 } from '../services/s3.js';
import { clientOf, ensureBucket, storeSettings, type S3Server } from '../services/s3-server.js';
import { usage, type Usage } from './disk.js';

export interface Place {
  /** For people. */
  readonly title: string;
  /** What a node needs to know of it. */
  readonly settings: Settings;
  /** The node is up for the first time. */
  begin(node: FirnProcess): Promise<void>;
  /** Half of everything is written. */
  halfWay(): Promise<void>;
  /** What the object store holds. */
  objects(): Promise<Usage>;
  /** Nothing more is asked of the node; its metrics still are. */
  end(): Promise<void>;
}

/** The node alone, its objects in the data directory. */
export function embedded(dataDir: string): Place {
  const nothing = async (): Promise<void> => undefined;
  return { title: 'one node, objects in its directory', settings: {}, begin: nothing, halfWay: nothing, objects: () => usage(join(dataDir, 'objects')), end: nothing };
}

const BUCKET = 'firn-demo';
const PREFIX = 'demo';
const WORKERS = 2;
/** Small, so that workers are busy while the flights are written. */
const SEAL_BYTES = 131_072;

/** Starts an S3 server and Redis. */
export async function withServices(scope: Scope): Promise<Place> {
  let s3: S3Server | null = null;
  let redis: RedisServer | null = null;
  await step('start an S3 server', 1, async () => {
    const started = await startS3(process.env);
    s3 = started;
    await scope.defer(() => started.stop());
    await ensureBucket(started, BUCKET);
  });
  await step('start Redis', 1, async () => {
    const started = await RedisServer.start();
    redis = started;
    await scope.defer(() => started.dispose());
  });
  if (s3 === null || redis === null) throw new Error('a step did nothing');
  return new Services(scope, s3, redis);
}

class Services implements Place {
  readonly title: string;
  readonly settings: Settings;
  #workers: WorkerProcess[] = [];

  constructor(private readonly scope: Scope, private readonly s3: S3Server, redis: RedisServer) {
    this.title = `one node, ${s3.name}, Redis, ${WORKERS} workers`;
    this.settings = { ...storeSettings(s3, BUCKET, PREFIX), FIRN_REDIS_URL: redis.url, FIRN_JOBS: 'queue', FIRN_SEAL_BYTES: String(SEAL_BYTES) };
  }

  async begin(node: FirnProcess): Promise<void> {
    await step(`start ${WORKERS} workers`, 1, async () => {
      this.#workers = Array.from({ length: WORKERS }, () => new WorkerProcess(node));
      for (const worker of this.#workers) await this.scope.defer(() => worker.kill());
      await Promise.all(this.#workers.map((worker) => worker.start()));
    });
  }

  async halfWay(): Promise<void> {
    const worker = this.#workers.shift();
    if (worker === undefined) throw new Error('there is no worker to kill');
    process.stderr.write(`half-way: kill -9 of the worker ${worker.pid}\n`);
    await worker.kill();
  }

  async objects(): Promise<Usage> {
    const client = clientOf(this.s3);
    let [files, bytes] = [0, 0];
    try {
      for await (const page of paginateListObjectsV2({ client }, { Bucket: BUCKET, Prefix: `${PREFIX}/` })) {
        for (const { Size = 0 } of page.Contents ?? []) {
          files += 1;
          bytes += Size;
        }
      }
    } finally {
      client.destroy();
    }
    return { files, bytes };
  }

  async end(): Promise<void> {
    for (const worker of this.#workers) await worker.stop();
  }
}
