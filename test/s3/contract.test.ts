/**
 * The contract of the object store on each S3 server that this machine has (Ceph RGW, MinIO, or the one that `FIRN_TEST_S3_ENDPOINT` names).
 */
import { it, expect } from 'vitest';
import { startMinio } from '../../infra/services/minio.js';
import { objectStoreContract } from '../../shared/storage/object-store.contract.js';
import { prepared, storeOn, useS3 } from '../support/s3.js';

const servers = [await useS3()];
const minio = servers[0]?.name.startsWith('MinIO') === true ? 'the server of this run is MinIO itself' : await startMinio(process.env['FIRN_TEST_MINIO']);
if (typeof minio === 'string') process.stdout.write(`the contract does not run on MinIO a second time: ${minio}\n`);
else servers.push(await prepared(minio));

for (const server of servers) {
  objectStoreContract(server.name, async () => {
    const store = await storeOn(server);
    return { store, done: () => store.close() };
  });

  it(`says which bucket and server it is, and no secret (${server.name})`, async () => {
    const store = await storeOn(server);
    expect(store.describe).toContain(`s3://firn-test/`);
    expect(store.describe).toContain(server.endpoint);
    expect(store.describe).not.toContain(server.secretKey);
    await store.close();
  });
}
