/** The measure of all appends: `node:http` alone, which reads each body and answers 204. Argument: the port. */
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  request.on('end', () => {
    response.writeHead(204);
    response.end();
  });
  request.resume();
});
server.keepAliveTimeout = 75_000;
server.listen(Number(process.argv[2]), '127.0.0.1', () => process.stdout.write('ready\n'));
process.on('SIGTERM', () => process.exit(0));
