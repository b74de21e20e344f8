/**
 * The S3 server of a run of tests: the one that is named, else whichever this machine can start.
 */
import { startCeph } from './ceph.js';
import { startMinio } from './minio.js';
import { NO_TRAITS, type S3Server, type S3Traits } from './s3-server.js';

/** The server that `FIRN_TEST_S3_ENDPOINT` names, with the credentials of the environment; null: none is named. `stop` leaves it running. */
export function namedS3(env: NodeJS.ProcessEnv): S3Server | null {
  const endpoint = env['FIRN_TEST_S3_ENDPOINT'];
  if (endpoint === undefined || endpoint === '') return null;
  const accessKey = env['AWS_ACCESS_KEY_ID'];
  const secretKey = env['AWS_SECRET_ACCESS_KEY'];
  if (accessKey === undefined || secretKey === undefined) throw new Error('FIRN_TEST_S3_ENDPOINT is set: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have to be, too');
  const traits = env['FIRN_TEST_S3_TRAITS'];
  const name = env['FIRN_TEST_S3_NAME'] ?? `the server at ${endpoint}`;
  return { name, endpoint, region: env['AWS_REGION'] ?? 'us-east-1', accessKey, secretKey, traits: traits === undefined ? NO_TRAITS : (JSON.parse(traits) as S3Traits), stop: async () => undefined };
}

/** Starts Ceph, or MinIO where that is not possible. Throws with both reasons when neither is. */
export async function startS3(env: NodeJS.ProcessEnv): Promise<S3Server> {
  try {
    return await startCeph();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const minio = await startMinio(env['FIRN_TEST_MINIO']);
    if (typeof minio !== 'string') return minio;
    throw new Error(`no S3 server can be started here, and FIRN_TEST_S3_ENDPOINT names none.\nCeph: ${why}\n${minio}`, { cause: error });
  }
}
