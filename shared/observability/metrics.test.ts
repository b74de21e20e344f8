import { describe, expect, it } from 'vitest';
import { createMetrics, RequestCounts } from './metrics.js';

function line(text: string, start: string): string | undefined {
  return text.split('\n').find((row) => row.startsWith(start));
}

describe('metrics', () => {
  it('shows counts by route and status, and none that did not happen', async () => {
    const metrics = createMetrics();
    for (let n = 0; n < 3; n += 1) metrics.requests.count('append', 204);
    metrics.requests.count('read', 200);
    const text = await metrics.text();
    expect(line(text, 'firn_requests_total{route="append",status="204"}')).toMatch(/ 3$/);
    expect(line(text, 'firn_requests_total{route="read",status="200"}')).toMatch(/ 1$/);
    expect(text.match(/^firn_requests_total\{/gm)).toHaveLength(2);
    expect(text).toContain('# TYPE firn_requests_total counter');
  });

  it('counts on from scrape to scrape', async () => {
    const metrics = createMetrics();
    metrics.appends.add();
    metrics.readBytes.cold.add(100);
    await metrics.text();
    metrics.appends.add(4);
    const text = await metrics.text();
    expect(line(text, 'firn_appends_total ')).toBe('firn_appends_total 5');
    expect(line(text, 'firn_read_bytes_total{tier="cold"}')).toMatch(/ 100$/);
    expect(line(text, 'firn_read_bytes_total{tier="hot"}')).toMatch(/ 0$/);
  });

  it('asks its sources at the time of a scrape, once they are bound', async () => {
    const metrics = createMetrics();
    const before = await metrics.text();
    expect(line(before, 'firn_disk_free_bytes ')).toBeUndefined();
    let hot = 10;
    metrics.bind({ hotBytes: () => hot, diskFreeBytes: () => 30, partitions: () => [{ partition: 3, unsealedBytes: 77, garbageBytes: 7, unknownObjects: 3, unsealedAgeMs: 1_500 }], poisoned: () => true });
    hot = 20;
    const text = await metrics.text();
    expect(line(text, 'firn_hot_bytes ')).toMatch(/ 20$/);
    expect(line(text, 'firn_disk_free_bytes ')).toMatch(/ 30$/);
    expect(line(text, 'firn_unsealed_bytes{partition="3"}')).toMatch(/ 77$/);
    expect(line(text, 'firn_unsealed_age_seconds{partition="3"}')).toMatch(/ 1\.5$/);
    expect(line(text, 'firn_store_poisoned ')).toMatch(/ 1$/);
  });

  it('follows live readers up and down', async () => {
    const metrics = createMetrics();
    for (const change of [1, 1, -1] as const) metrics.liveReaders.sse.add(change);
    expect(line(await metrics.text(), 'firn_live_readers{kind="sse"}')).toMatch(/ 1$/);
  });

  it('keeps two nodes of one process apart', async () => {
    const [one, two] = [createMetrics(), createMetrics()];
    one.appends.add(9);
    expect(line(await two.text(), 'firn_appends_total ')).toBe('firn_appends_total 0');
  });

  it('counts what happens in the background', async () => {
    const metrics = createMetrics();
    metrics.objectsWritten.segment.add(2);
    metrics.objectBytesWritten.segment.add(1_500);
    metrics.damage.object.add();
    metrics.frameCache.miss.add();
    metrics.sealSeconds.observe(1.2);
    const text = await metrics.text();
    expect(line(text, 'firn_objects_written_total{kind="segment"}')).toMatch(/ 2$/);
    expect(line(text, 'firn_object_bytes_written_total{kind="segment"}')).toMatch(/ 1500$/);
    expect(line(text, 'firn_damage_total{where="object"}')).toMatch(/ 1$/);
    expect(line(text, 'firn_frame_cache_total{result="miss"}')).toMatch(/ 1$/);
    expect(line(text, 'firn_seal_seconds_sum')).toMatch(/ 1\.2$/);
  });

  it('puts a status outside the table under 0', () => {
    const counts = new RequestCounts();
    counts.count('other', 1_000);
    counts.count('other', -1);
    expect([...counts.samples()]).toEqual([{ labels: { route: 'other', status: '0' }, value: 2 }]);
  });

  it('knows of each batch how many requests it held and how long it took', async () => {
    const metrics = createMetrics();
    metrics.batchCommitted(60, 15_360, 3);
    metrics.storePoisoned();
    const text = await metrics.text();
    expect(line(text, 'firn_batch_requests_bucket{le="64"}')).toMatch(/ 1$/);
    expect(line(text, 'firn_batch_requests_bucket{le="32"}')).toMatch(/ 0$/);
    expect(line(text, 'firn_commit_seconds_sum')).toMatch(/ 0\.003$/);
    expect(line(text, 'firn_batch_bytes_sum')).toMatch(/ 15360$/);
    expect(line(text, 'firn_store_poisonings_total ')).toMatch(/ 1$/);
  });
});
