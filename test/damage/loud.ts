/** What a damaged node may do, and what it may never do (I9). */
import { expect } from 'vitest';
import type { FirnNode } from '../support/node.js';
import type { Stream } from '../support/stream.js';

/** Starts a node that may refuse to. True when it serves. */
export async function tryStart(node: FirnNode, settings: Record<string, string> = {}): Promise<boolean> {
  try {
    await node.start(settings);
    return true;
  } catch {
    const exit = await node.exited;
    expect(exit.code).not.toBe(0);
    expect(exit.signal).toBe(null);
    expect(node.output.trim()).not.toBe('');
    return false;
  }
}

/** Reads a stream from its start to its tail. `refused`: 5xx, or a cut connection. Fails on anything that looks like less data. */
export async function readLoudly(stream: Stream, expected: Buffer): Promise<'exact' | 'refused'> {
  const pieces: Buffer[] = [];
  let offset = '0';
  for (;;) {
    const answer = await stream.read({ offset, max_bytes: 1_000_000 }).catch(() => null);
    if (answer === null || answer.status >= 500) return 'refused';
    expect(answer.status).toBe(200);
    pieces.push(answer.body);
    const soFar = Buffer.concat(pieces);
    expect(soFar.equals(expected.subarray(0, soFar.length))).toBe(true);
    expect(Number(answer.next)).toBe(soFar.length);
    if (answer.upToDate) {
      expect(soFar.length).toBe(expected.length);
      return 'exact';
    }
    expect(answer.body.length).toBeGreaterThan(0);
    offset = answer.next;
  }
}

/** HEAD is an error or tells the acknowledged tail; never 404, never less. */
export async function headLoudly(stream: Stream, tail: number): Promise<void> {
  const head = await stream.head();
  if (head.status >= 500) return;
  expect(head.status).toBe(200);
  expect(Number(head.next)).toBeGreaterThanOrEqual(tail);
}

export async function readiness(node: FirnNode): Promise<{ status: number; text: string }> {
  const answer = await node.admin.send('GET', '/__firn/readyz');
  return { status: answer.status, text: answer.text };
}
