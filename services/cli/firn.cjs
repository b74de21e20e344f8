#!/usr/bin/env -S node --max-semi-space-size=32 --initial-old-space-size=128 --no-allocation-site-pretenuring
/**
 * The program `firn`: makes ready what it needs and hands over to the compiled `main`.
 *
 * CommonJS on purpose: libuv makes its thread pool at the first asynchronous file access, and loading an ES module as the program's entry
 * already is one. Here the size of the pool is set before anything touches it (architecture section 5: RocksDB, files and compression share it). The flags in the first line
 * give young objects more room, since hundreds of requests are under way at once and each collection copies what they hold; and old ones, since buffers count as such:
 * without it V8 marks the whole heap for every 15 MiB that a reader is sent. The last one keeps V8 from making objects old at birth that outlived a few collections: a frame or a body that
 * such an object holds stays until the next mark of the whole heap, which 64 MiB of them bring about; whether it came to that was chance, run by run.
 */
'use strict';

process.env.UV_THREADPOOL_SIZE ??= '16';
// The AWS SDK announces on standard error which Node its future versions want; ours is set by package.json.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';

const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

const project = join(__dirname, '..', '..');
const load = (path) => import(pathToFileURL(join(project, path)).href);

async function start() {
  // In a clone the build follows the sources; an image carries only the build.
  if (existsSync(join(project, 'tsconfig.build.json'))) {
    await (await load('infra/scripts/ensure-deps.mjs')).ensureDeps();
    await (await load('infra/scripts/ensure-build.mjs')).ensureBuild();
  }
  await (await load('dist/services/cli/main.js')).main(process.argv.slice(2));
}

start().catch((error) => {
  process.stderr.write(`firn: ${error instanceof Error ? (error.stack ?? error.message) : error}\n`);
  process.exit(1);
});
