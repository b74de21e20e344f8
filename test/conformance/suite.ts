/** Mounts the public conformance suite as it is; run by `test/conformance.test.ts` in a process of its own. */
import { runConformanceTests } from '@durable-streams/server-conformance-tests';

const baseUrl = process.env['CONFORMANCE_TEST_URL'];
if (baseUrl === undefined) throw new Error('CONFORMANCE_TEST_URL is not set');

runConformanceTests({ baseUrl, subscriptions: true });
