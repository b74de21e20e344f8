/**
 * The S3 client of one store: the SDK, set up so that exactly one layer retries and one layer times out, and that any S3 server understands it.
 *
 * Owns: every setting of the SDK. Retries are ours (`retries`), and so are time-outs (`watch`). Of the SDK's checksums only what an operation requires is sent: others travel as
 * headers and trailers that older servers refuse. Uploads are proven by the hash of the body that the signature covers (`body-hash`), which every server checks.
 */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { CONNECT_MS, SOCKETS_MAX } from './limits.js';

export interface S3Place {
  readonly bucket: string;
  /** '' or a prefix without a `/` at its end. */
  readonly prefix: string;
  /** Origin of the server; null: AWS. */
  readonly endpoint: string | null;
  /** null: as the SDK finds it; without any, a server of one's own gets `us-east-1`. */
  readonly region: string | null;
  readonly forcePathStyle: boolean;
}

const REGION_OF_OWN_SERVERS = 'us-east-1';
const nothing = (): void => undefined;
/** The SDK warns on the console of every failed upload that it does not retry. */
const SILENT = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** Throws Error when no region can be found for AWS. Credentials come by the SDK's own chain, at the first request. */
export async function s3Client(place: S3Place): Promise<S3Client> {
  const agent = { keepAlive: true, maxSockets: SOCKETS_MAX };
  // `ignoreCache` goes through to the chain of credentials: asked anew, it reads its files anew.
  const config: S3ClientConfig & { readonly ignoreCache: boolean } = {
    ignoreCache: true,
    ...(place.endpoint === null ? {} : { endpoint: place.endpoint }),
    forcePathStyle: place.forcePathStyle,
    maxAttempts: 1,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    logger: SILENT,
    requestHandler: new NodeHttpHandler({
      connectionTimeout: CONNECT_MS,
      httpAgent: new HttpAgent(agent),
      httpsAgent: new HttpsAgent(agent),
    }),
  };
  return new S3Client({ ...config, region: place.region ?? (await regionOf(place)) });
}

async function regionOf(place: S3Place): Promise<string> {
  try {
    return await new S3Client({}).config.region();
  } catch {
    if (place.endpoint !== null) return REGION_OF_OWN_SERVERS;
    throw new Error(`FIRN_S3_REGION is not set, and the AWS settings name no region: where is the bucket "${place.bucket}"?`);
  }
}

/** Where that is, for people; without secrets. */
export function describePlace(place: S3Place): string {
  const where = place.endpoint ?? `AWS${place.region === null ? '' : ` ${place.region}`}`;
  return `s3://${place.bucket}${place.prefix === '' ? '' : `/${place.prefix}`} at ${where}`;
}
