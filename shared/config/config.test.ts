import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from './config.js';
import { VARIABLES } from './variables.js';

function problemsOf(env: Record<string, string>, flags: Record<string, unknown> = {}): readonly string[] {
  try {
    loadConfig({ env, flags });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('defaults', () => {
  it('gives every setting its default', () => {
    expect(loadConfig({ env: {} })).toEqual({
      host: '127.0.0.1', port: 4437, adminHost: '127.0.0.1', adminPort: 4438, adminToken: null, nodeAdminUrl: 'http://127.0.0.1:4438',
      publicUrl: null, dataDir: './data', cold: 'fs', s3: null, partitions: 1, redisUrl: null, jobs: 'embedded',
      sealBytes: 33_554_432, sealAgeMs: 60_000, hotKeepMs: 600_000, hotBytesMax: 8_589_934_592, diskFreeMin: 536_870_912,
      cacheBytesMax: 0, requestBytesMax: 33_554_432, snapshotBytesMax: 1_073_741_824, corsOrigins: [], webhookAllow: ['127.0.0.0/8', '::1/128'], webhookDomains: [],
      auth: null, allowOpen: false, log: 'info', warnings: [],
    });
  });

  it('follows other settings where a default depends on them', () => {
    expect(loadConfig({ env: { FIRN_S3_BUCKET: 'logs' } }).cold).toBe('s3');
    expect(loadConfig({ env: { FIRN_S3_BUCKET: 'logs', FIRN_COLD: 'fs' } }).cold).toBe('fs');
    expect(loadConfig({ env: { FIRN_REDIS_URL: 'redis://127.0.0.1:6379' } }).jobs).toBe('both');
    expect(loadConfig({ env: { FIRN_COLD: 'none' } }).snapshotBytesMax).toBe(33_554_432);
    expect(loadConfig({ env: { FIRN_HOST: '10.0.0.7', FIRN_ALLOW_OPEN: '1' } }).webhookAllow).toEqual([]);
    expect(loadConfig({ env: { FIRN_WEBHOOK_ALLOW: 'none' } }).webhookAllow).toEqual([]);
    // A worker's loopback is that of its own machine.
    for (const [url, allow] of [['http://127.0.0.1:4438', ['127.0.0.0/8', '::1/128']], ['http://node:4438', []]] as const) expect(loadConfig({ env: { FIRN_NODE_ADMIN_URL: url }, role: 'client' }).webhookAllow).toEqual(allow);
    expect(loadConfig({ env: { FIRN_NODE_ADMIN_URL: 'http://node:4438' } }).webhookAllow).toEqual(['127.0.0.0/8', '::1/128']);
    expect(loadConfig({ env: { FIRN_WEBHOOK_DOMAINS: 'Hooks.example, *.team.example' } }).webhookDomains).toEqual(['hooks.example', '*.team.example']);
    for (const bad of ['*', 'https://a.example', 'a.*.example', 'a..example', '.example', 'a b', 'x'.repeat(254)]) expect(() => loadConfig({ env: { FIRN_WEBHOOK_DOMAINS: bad } }), bad).toThrow(/FIRN_WEBHOOK_DOMAINS is/);
    expect(loadConfig({ env: { FIRN_ADMIN_HOST: '0.0.0.0', FIRN_ADMIN_PORT: '9', FIRN_ADMIN_TOKEN: 'x' } }).nodeAdminUrl).toBe('http://127.0.0.1:9');
    expect(loadConfig({ env: { FIRN_ADMIN_HOST: '::1' } }).nodeAdminUrl).toBe('http://[::1]:4438');
  });

  it('counts an empty variable as not set', () => {
    const empty = Object.fromEntries(Object.values(VARIABLES).map((variable) => [variable.name, '']));
    expect(loadConfig({ env: empty })).toEqual(loadConfig({ env: {} }));
  });
});

describe('values', () => {
  it('takes 1, 0, true and false as booleans, and nothing else', () => {
    for (const [text, value] of [['1', true], ['true', true], ['0', false], ['false', false]] as const) {
      expect(loadConfig({ env: { FIRN_ALLOW_OPEN: text } }).allowOpen).toBe(value);
    }
    for (const text of ['yes', 'TRUE', '2', ' 1']) {
      expect(problemsOf({ FIRN_ALLOW_OPEN: text })).toEqual([`FIRN_ALLOW_OPEN is ${JSON.stringify(text)}: allowed is 1, 0, true or false`]);
    }
  });

  it('takes whole numbers in plain decimal within their range', () => {
    expect(loadConfig({ env: { FIRN_HOT_KEEP_MS: '0' } }).hotKeepMs).toBe(0);
    for (const text of ['-1', '1.5', '1e3', '0x10', '65536', '9007199254740993', 'NaN', '1 ']) {
      expect(problemsOf({ FIRN_PORT: text })).toEqual([`FIRN_PORT is ${JSON.stringify(text)}: allowed is a whole number from 0 to 65535`]);
    }
    expect(problemsOf({ FIRN_SEAL_BYTES: '0' })).toHaveLength(1);
  });

  it('reads lists, origins and the S3 settings', () => {
    const config = loadConfig({
      env: {
        FIRN_CORS_ORIGINS: 'https://a.example/, http://b.example:8080', FIRN_PUBLIC_URL: 'https://logs.example/', FIRN_WEBHOOK_ALLOW: '10.0.0.0/8,::1',
        FIRN_S3_BUCKET: 'logs', FIRN_S3_PREFIX: 'prod/firn/', FIRN_S3_ENDPOINT: 'http://127.0.0.1:9000', FIRN_S3_REGION: 'eu-west-1', FIRN_S3_FORCE_PATH_STYLE: 'true',
      },
    });
    expect(config.corsOrigins).toEqual(['https://a.example', 'http://b.example:8080']);
    expect(config.publicUrl).toBe('https://logs.example');
    expect(config.webhookAllow).toEqual(['10.0.0.0/8', '::1']);
    expect(config.s3).toEqual({ bucket: 'logs', prefix: 'prod/firn', endpoint: 'http://127.0.0.1:9000', region: 'eu-west-1', forcePathStyle: true, sse: null, sseKmsKeyId: null });
    expect(loadConfig({ env: { FIRN_S3_BUCKET: 'logs', FIRN_S3_SSE: 'AES256' } }).s3).toMatchObject({ sse: 'AES256', sseKmsKeyId: null });
    expect(loadConfig({ env: { FIRN_S3_BUCKET: 'logs', FIRN_S3_SSE: 'aws:kms', FIRN_S3_SSE_KMS_KEY_ID: 'alias/firn' } }).s3).toMatchObject({ sse: 'aws:kms', sseKmsKeyId: 'alias/firn' });
    expect(loadConfig({ env: { FIRN_CORS_ORIGINS: '*' } }).corsOrigins).toEqual(['*']);
    for (const [name, text] of [
      ['FIRN_CORS_ORIGINS', 'https://a.example/path'], ['FIRN_CORS_ORIGINS', ','], ['FIRN_CORS_ORIGINS', '*,https://a.example'],
      ['FIRN_PUBLIC_URL', 'logs.example'], ['FIRN_PUBLIC_URL', 'https://user@logs.example'], ['FIRN_WEBHOOK_ALLOW', '10.0.0.0/33'], ['FIRN_WEBHOOK_ALLOW', 'localhost'],
      ['FIRN_S3_PREFIX', '/a'], ['FIRN_S3_BUCKET', 'a/b'], ['FIRN_S3_SSE', 'aes'], ['FIRN_HOST', 'a b'], ['FIRN_LOG', 'loud'], ['FIRN_COLD', 'ice'],
    ] as const) {
      expect(problemsOf({ [name]: text }), `${name}=${text}`).toHaveLength(1);
    }
  });

  it('lets a flag win over the variable and names whichever was wrong', () => {
    expect(loadConfig({ env: { FIRN_SEAL_AGE_MS: '5' }, flags: { sealAgeMs: '7', allowOpen: true } })).toMatchObject({ sealAgeMs: 7, allowOpen: true });
    expect(problemsOf({ FIRN_SEAL_AGE_MS: '5' }, { sealAgeMs: 'soon' })[0]).toMatch(/^--seal-age-ms is "soon": allowed is a whole number/);
    expect(loadConfig({ env: {}, flags: { sealAgeMs: undefined, prefix: 'not a setting' } }).sealAgeMs).toBe(60_000);
  });

  it('hides secrets in errors', () => {
    const problems = problemsOf({ FIRN_ADMIN_TOKEN: 'two words', FIRN_REDIS_URL: 'http://user:hunter2@redis' });
    expect(problems).toEqual([
      'FIRN_ADMIN_TOKEN is (hidden): allowed is 1 to 1024 visible ASCII characters',
      'FIRN_REDIS_URL is (hidden): allowed is redis:// or rediss:// with [USER:PASSWORD@]HOST[:PORT][/NUMBER], special characters percent-encoded, without a query',
    ]);
    expect(problems.join()).not.toMatch(/two words|hunter2/);
  });

  it('takes a Redis URL only when nothing in it is left to guess, and never shows it', () => {
    for (const url of ['redis://h', 'redis://h/', 'redis://h:6380/3', 'rediss://firn:p%40ss@h.example:6380/0', 'redis://:hunter2@[::1]:6379']) expect(loadConfig({ env: { FIRN_REDIS_URL: url } }).redisUrl, url).toBe(url);
    for (const url of ['redis:foo', 'redis://', 'redis:///1', 'redis://:hunter2%zz@h', 'redis://hunter2%zz@h', 'redis://h/one', 'redis://h/1/2', 'redis://h?password=hunter2', 'redis://h/1#hunter2', 'http://h', 'h:6379']) {
      expect(problemsOf({ FIRN_REDIS_URL: url }), url).toEqual([expect.stringMatching(/^FIRN_REDIS_URL is \(hidden\): allowed is redis:/)]);
    }
  });

  it('reports everything that is wrong at once', () => {
    expect(problemsOf({ FIRN_PORT: 'x', FIRN_LOG: 'y', FIRN_PARTITIONS: '0' })).toHaveLength(3);
  });
});

describe('rules between settings', () => {
  it('keeps a node without auth on loopback unless it is told to be open', () => {
    expect(problemsOf({ FIRN_HOST: '0.0.0.0' })[0]).toMatch(/FIRN_HOST is "0\.0\.0\.0".*FIRN_ALLOW_OPEN=1/);
    expect(problemsOf({ FIRN_HOST: '0.0.0.0', FIRN_ALLOW_OPEN: '1' })).toEqual([]);
    expect(problemsOf({ FIRN_HOST: '0.0.0.0', FIRN_AUTH: '/etc/firn/auth.json' })).toEqual([]);
    for (const host of ['127.0.0.1', '127.9.9.9', '::1', '[::1]', 'localhost']) expect(problemsOf({ FIRN_HOST: host }), host).toEqual([]);
    for (const host of ['::', '10.0.0.1', 'node.example', '128.0.0.1']) expect(problemsOf({ FIRN_HOST: host }), host).toHaveLength(1);
  });

  it('names IPv6 hosts as a listener wants them, without brackets', () => {
    expect(loadConfig({ env: { FIRN_HOST: '[::1]', FIRN_ADMIN_HOST: '[::1]' } })).toMatchObject({ host: '::1', adminHost: '::1', nodeAdminUrl: 'http://[::1]:4438' });
    expect(problemsOf({ FIRN_HOST: '[::1]', FIRN_ADMIN_HOST: '::1', FIRN_PORT: '5000', FIRN_ADMIN_PORT: '5000' })[0]).toMatch(/a port each/);
  });

  it('wants a token for an admin listener beyond loopback', () => {
    expect(problemsOf({ FIRN_ADMIN_HOST: '0.0.0.0' })[0]).toMatch(/FIRN_ADMIN_TOKEN has to be set/);
    expect(problemsOf({ FIRN_ADMIN_HOST: '0.0.0.0', FIRN_ADMIN_TOKEN: 'secret' })).toEqual([]);
  });

  it('wants a bucket for S3, Redis for a queue, two ports, and small snapshots without a cold tier', () => {
    expect(problemsOf({ FIRN_COLD: 's3' })[0]).toMatch(/FIRN_S3_BUCKET/);
    expect(problemsOf({ FIRN_S3_BUCKET: 'b', FIRN_S3_SSE: 'AES256', FIRN_S3_SSE_KMS_KEY_ID: 'k' })).toEqual(['FIRN_S3_SSE_KMS_KEY_ID names a key: FIRN_S3_SSE has to be "aws:kms"']);
    expect(problemsOf({ FIRN_JOBS: 'queue' })[0]).toMatch(/FIRN_REDIS_URL/);
    expect(problemsOf({ FIRN_PORT: '5000', FIRN_ADMIN_PORT: '5000' })[0]).toMatch(/a port each/);
    expect(problemsOf({ FIRN_PORT: '0', FIRN_ADMIN_PORT: '0' })).toEqual([]);
    expect(problemsOf({ FIRN_COLD: 'none', FIRN_SNAPSHOT_BYTES_MAX: '33554433' })[0]).toMatch(/at most 33554432/);
    expect(problemsOf({ FIRN_COLD: 'none', FIRN_SNAPSHOT_BYTES_MAX: '33554432' })).toEqual([]);
  });

  it('does not ask a client command for the rules of a listener', () => {
    expect(loadConfig({ env: { FIRN_HOST: '0.0.0.0', FIRN_ADMIN_HOST: '0.0.0.0' }, role: 'client' }).nodeAdminUrl).toBe('http://127.0.0.1:4438');
  });

  it('warns of variables that do nothing', () => {
    expect(loadConfig({ env: { FIRN_REDIS_URL: 'redis://127.0.0.1', FIRN_JOBS: 'queue' } }).warnings).toEqual([expect.stringContaining('none of them reaches the objects of this node')]);
    for (const more of [{ FIRN_JOBS: 'both' }, { FIRN_S3_BUCKET: 'b', FIRN_JOBS: 'queue' }]) expect(loadConfig({ env: { FIRN_REDIS_URL: 'redis://127.0.0.1', ...more } }).warnings).toEqual([]);
    expect(loadConfig({ env: { FIRN_SEAL_AGE: '1', PATH: '/bin', FIRN_TEST_S3_ENDPOINT: 'x' } }).warnings).toEqual(['FIRN_SEAL_AGE is no setting of firn and has no effect']);
    expect(loadConfig({ env: { FIRN_HOT_BYTES_MAX: '1000' } }).warnings).toHaveLength(1);
    expect(loadConfig({ env: { FIRN_COLD: 'fs', FIRN_S3_BUCKET: 'b' } }).warnings).toHaveLength(1);
    expect(loadConfig({ env: { FIRN_JOBS: 'embedded', FIRN_REDIS_URL: 'redis://r' } }).warnings).toHaveLength(1);
  });
});
