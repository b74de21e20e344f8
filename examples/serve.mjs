/**
 * Serves the pages of the examples, and the packages that they import, to a browser: `node examples/serve.mjs [port]`.
 *
 * The pages talk to a Firn node directly, which has to allow their origin: `FIRN_CORS_ORIGINS=http://127.0.0.1:8080 npm start`.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const TYPES = { '.html': 'text/html; charset=utf-8', '.mjs': 'text/javascript', '.js': 'text/javascript' };
/** What a browser may ask for. */
const FOLDERS = ['/examples/', '/node_modules/yjs/', '/node_modules/lib0/'];

async function fileOf(url) {
  const path = normalize(decodeURIComponent(new URL(url, 'http://x').pathname));
  if (!FOLDERS.some((folder) => path.startsWith(folder))) return null;
  // Packages import each other's modules without their ending.
  for (const name of [path, `${path}.js`, join(path, 'index.html')]) {
    const found = await stat(join(PROJECT, name)).catch(() => null);
    if (found?.isFile() === true) return join(PROJECT, name);
  }
  return null;
}

/** Resolves to the server, listening. */
export async function serve(port) {
  const server = createServer(async (req, res) => {
    const file = await fileOf(req.url).catch(() => null);
    if (file === null) {
      res.writeHead(404).end();
      return;
    }
    res.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(res);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serve(Number(process.argv[2] ?? 8080));
  const { port } = server.address();
  for (const page of ['ai-tokens', 'document']) process.stdout.write(`http://127.0.0.1:${port}/examples/${page}/\n`);
}
