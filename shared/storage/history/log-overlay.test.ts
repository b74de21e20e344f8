import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import type { ColdRef, StreamRecord } from '../records/types.js';
import { LogOverlay } from './log-overlay.js';

const KEY = 'demo/a' as StreamKey;
const OBJECT = { kind: 'segment', partition: 0, session: 1, plan: 1, attempt: 1, part: 0 } as const;

function refs(from: number, count: number): ColdRef[] {
  return Array.from({ length: count }, (_, n) => ({ object: OBJECT, frameAt: 0, frameBytes: 1, frameCrc: 0, blockAt: 0, blockBytes: 1, start: (from + n) as Offset, end: (from + n + 1) as Offset }));
}

function state(tail: number): StreamRecord {
  return {
    incarnation: (2 ** 52 + 1) as Incarnation, contentType: 'text/plain', createdAtMs: 1, tail: tail as Offset, retained: 0 as Offset, sealed: tail as Offset, hotStart: tail as Offset, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
  };
}

describe('a stretch of log', () => {
  it('holds a stream with more references in one change than a call takes arguments', () => {
    const overlay = new LogOverlay();
    const record = { kind: 'record', partition: 0, session: 1, seq: 1, plan: null, writtenAtMs: 0, objects: [] } as const;
    overlay.add({ ...record, deltas: [{ kind: 'seal', key: KEY, state: state(300_000), producers: [], refs: refs(0, 300_000) }] });
    overlay.add({ ...record, seq: 2, deltas: [{ kind: 'seal', key: KEY, state: state(300_002), producers: [], refs: refs(300_000, 2) }] });
    const life = overlay.change(KEY)?.life;
    expect(life?.refs.all()).toHaveLength(300_002);
    expect(life?.refs.all().at(-1)?.end).toBe(300_002);
    expect(life?.state?.tail).toBe(300_002);
  });
});
