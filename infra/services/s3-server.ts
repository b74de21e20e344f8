/**
 * An S3 server that tests and demonstrations may use: where it is and how to sign.
 */
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';

/** What a server is set up for; null where it is not, or nobody said. */
export interface S3Traits {
  /** Domain whose subdomains are its buckets: nothing resolves it. */
  readonly domain: string | null;
  /** Encryption at rest that it takes. */
  readonly encryption: { readonly sse: 'AES256' | 'aws:kms'; readonly keyId: string | null } | null;
  /** Configuration of a Ceph whose keys may be changed. */
  readonly cephConf: string | null;
}

export const NO_TRAITS: S3Traits = { domain: null, encryption: null, cephConf: null };

export interface S3Server {
  /** Name and version, for people. */
  readonly name: string;
  readonly endpoint: string;
  readonly region: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly traits: S3Traits;
  /** Ends it; what it held is gone. */
  stop(): Promise<void>;
}

/** What a process needs in its environment to sign requests for the server. */
export function credentialsOf({ accessKey, secretKey }: Pick<S3Server, 'accessKey' | 'secretKey'>): Readonly<Record<string, string>> {
  return { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey };
}

/** Settings of a node or a worker whose store lies in a bucket of the server under a prefix, credentials included. */
export function storeSettings(server: S3Server, bucket: string, prefix: string): Readonly<Record<string, string>> {
  return {
    FIRN_S3_BUCKET: bucket, FIRN_S3_PREFIX: prefix, FIRN_S3_ENDPOINT: server.endpoint, FIRN_S3_REGION: server.region, FIRN_S3_FORCE_PATH_STYLE: '1',
    ...credentialsOf(server),
  };
}

/** A client of one's own, for what the object store has no verb for. The caller destroys it. */
export function clientOf({ endpoint, region, accessKey, secretKey }: Pick<S3Server, 'endpoint' | 'region' | 'accessKey' | 'secretKey'>): S3Client {
  // The SDK announces on standard error which Node its future versions want; ours is set by package.json.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId: accessKey, secretAccessKey: secretKey } });
}

/** Makes a bucket unless it is there. */
export async function ensureBucket(server: Pick<S3Server, 'endpoint' | 'region' | 'accessKey' | 'secretKey'>, bucket: string): Promise<void> {
  const client = clientOf(server);
  try {
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  } catch (error) {
    if (!(error instanceof Error) || !['BucketAlreadyOwnedByYou', 'BucketAlreadyExists'].includes(error.name)) throw error;
  } finally {
    client.destroy();
  }
}
