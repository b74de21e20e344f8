/** Other servers that may lie beside the project, to be measured and tested against. */
import { join, resolve } from 'node:path';
import { PROJECT } from './firn-process.js';

/** Script that starts one: `peer NAME DIR PORT`, prints the pid when it answers. It need not be there. */
export const peerScript = (): string => resolve(PROJECT, process.env['FIRN_BENCH_PEER'] ?? join('..', 'shared', 'peers', 'peer'));
