import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { BadBytes } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anyCount, anyKey, anyNamedProducer, anySnapshot, anyStreamRecord, anyText, anyTimeMs, sampleProducer, sampleStreamRecord } from './arbitrary.contract.js';
import { PLAN_PAGE_BYTES_MAX, PLAN_STREAMS_MAX, decodePlan, decodePlanPages, encodePlan, encodePlanPages, readPlanPages, type Plan, type PlanStream } from './plan.js';
import type { NamedProducer } from './types.js';

const anyPlan: fc.Arbitrary<Plan> = fc.record({
  partition: fc.integer({ min: 0, max: 1_023 }),
  session: fc.integer({ min: 0, max: 262_143 }),
  plan: fc.integer({ min: 0, max: 9_999_999_999 }),
  kind: fc.constantFrom('seal' as const, 'offload' as const),
  state: fc.constantFrom('open' as const, 'parked' as const, 'logged' as const, 'done' as const),
  createdAtMs: anyTimeMs,
  batch: anyCount,
  attempt: fc.integer({ min: 0, max: 9_999 }),
  retryAtMs: anyTimeMs,
  lastError: fc.option(anyText),
  streams: fc.integer({ min: 0, max: PLAN_STREAMS_MAX }),
  pages: anyCount,
  bytes: anyCount,
  purges: fc.array(fc.string({ maxLength: 30 }), { maxLength: 3 }),
});

const anyPlanStream: fc.Arbitrary<PlanStream> = fc
  .record({ key: anyKey, record: anyStreamRecord, deleted: fc.boolean(), range: fc.tuple(anyCount, anyCount), producers: fc.array(anyNamedProducer, { maxLength: 4 }), snapshot: fc.option(anySnapshot), settles: fc.boolean() })
  .map(({ key, record, deleted, range, producers, snapshot, settles }) => ({
    key,
    incarnation: record.incarnation,
    from: Math.min(...range) as Offset,
    to: Math.max(...range) as Offset,
    state: deleted ? null : record,
    producers,
    snapshot,
    settles,
  }));

const sample = (changes: Partial<PlanStream> = {}): PlanStream => ({
  key: 'demo/hello' as StreamKey,
  incarnation: sampleStreamRecord().incarnation,
  from: 4_000 as Offset,
  to: 5_000 as Offset,
  state: sampleStreamRecord(),
  producers: [{ id: 'meter', ...sampleProducer() }],
  snapshot: null,
  settles: true,
  ...changes,
});

const plan: Plan = { partition: 0, session: 3, plan: 12, kind: 'seal', state: 'open', createdAtMs: 1_700_000_000_000, batch: 900, attempt: 1, retryAtMs: 0, lastError: 'the store did not answer', streams: 1, pages: 1, bytes: 1_000, purges: ['demo'] };

describe('plan', () => {
  it('comes back as it was written', () => {
    fc.assert(fc.property(anyPlan, (value) => { expect(decodePlan(encodePlan(value))).toEqual(value); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodePlan(plan), decodePlan);
    expectEveryDamageRefused(encodePlanPages([sample()])[0] as Buffer, (page) => decodePlanPages([page]));
  });

  it('cuts a long error between characters and refuses numbers beyond a name', () => {
    const text = decodePlan(encodePlan({ ...plan, lastError: 'ä'.repeat(2_000) })).lastError;
    expect(text).toBe('ä'.repeat(512));
    expect(decodePlan(encodePlan({ ...plan, lastError: `x${'ä'.repeat(2_000)}` })).lastError).toBe(`x${'ä'.repeat(511)}`);
    for (const changes of [{ streams: PLAN_STREAMS_MAX + 1 }, { attempt: 10_000 }, { session: 262_144 }, { plan: -1 }, { purges: Array.from({ length: 1_025 }, () => 'a') }, { purges: ['x'.repeat(123)] }]) expect(() => encodePlan({ ...plan, ...changes })).toThrow(RangeError);
  });
});

describe('pages of a plan', () => {
  it('give back the streams in order, all at once or page by page', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyPlanStream, { maxLength: 12 }), async (streams) => {
        const pages = encodePlanPages(streams);
        expect(decodePlanPages(pages)).toEqual(streams);
        const paged: PlanStream[] = [];
        for await (const stream of readPlanPages(pages)) paged.push(stream);
        expect(paged).toEqual(streams);
      }),
    );
  });

  it('hold 65,536 streams and a stream with 20,000 producers, each page within a value of the hot store', () => {
    const producers: NamedProducer[] = Array.from({ length: 20_000 }, (_, index) => ({ id: `meter-${index}`, ...sampleProducer({ lastSeq: index }) }));
    const streams = Array.from({ length: PLAN_STREAMS_MAX }, (_, index) => sample({ key: `demo/${index}` as StreamKey, producers: index === 500 ? producers : [] }));
    const pages = encodePlanPages(streams);
    expect(pages.length).toBeGreaterThan(100);
    expect(Math.max(...pages.map((page) => page.length))).toBeLessThanOrEqual(PLAN_PAGE_BYTES_MAX);
    const back = decodePlanPages(pages);
    expect(back.length).toBe(PLAN_STREAMS_MAX);
    expect(back[500]?.producers).toEqual(producers);
    expect(back.at(-1)).toEqual(streams.at(-1));
    expect(() => encodePlanPages([...streams, sample()])).toThrow(RangeError);
  });

  it('fit even when every text is as long as it may be', () => {
    const long = 'x'.repeat(16_384);
    const base = sampleStreamRecord();
    const snapshot = { ...base.snapshot!, contentType: long, hot: { at: 'staging' as const, file: long } };
    const stream = sample({ key: long as StreamKey, state: { ...base, contentType: long, ttl: long, lastSeq: long, closedBy: { producerId: long, epoch: 1, seq: 1 }, snapshot }, producers: Array.from({ length: 9 }, () => ({ id: long, ...sampleProducer() })), snapshot });
    expect(decodePlanPages(encodePlanPages([stream, stream, stream]))).toEqual([stream, stream, stream]);
  });

  it('I6 refuse a page that is missing, doubled, swapped or of another plan', () => {
    const streams = (name: string): PlanStream[] => Array.from({ length: 2_000 }, (_, index) => sample({ key: `${name}/${index}` as StreamKey }));
    const pages = encodePlanPages(streams('a'));
    const others = encodePlanPages(streams('b'));
    expect(pages.length).toBeGreaterThan(3);
    const [first, second, third] = pages as [Buffer, Buffer, Buffer];
    for (const wrong of [[second], [first, third], [first, first], [second, first], [first, others[1] as Buffer]]) expect(() => decodePlanPages(wrong)).toThrow(BadBytes);
  });

  it('refuse what cannot be', () => {
    expect(() => encodePlanPages([sample({ to: 3_999 as Offset })])).toThrow();
    expect(() => encodePlanPages([sample({ incarnation: (2 ** 52) as Incarnation })])).toThrow('another incarnation');
  });
});
