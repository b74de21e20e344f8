/** Forks as a test asks for them. */
import type { Answer, Headers } from './http.js';
import { Stream, uniqueId, type CreateOptions } from './stream.js';

export interface ForkAt {
  readonly offset?: string | number | undefined;
  readonly sub?: string | number | undefined;
}

/** Headers that make a PUT a fork of the stream, or of the path. */
export function forkOf(source: Stream | string, at: ForkAt = {}): Headers {
  return {
    'stream-forked-from': typeof source === 'string' ? source : source.path,
    ...(at.offset === undefined ? {} : { 'stream-fork-offset': String(at.offset) }),
    ...(at.sub === undefined ? {} : { 'stream-fork-sub-offset': String(at.sub) }),
  };
}

/** A stream of its own beside the source, not created yet. */
export function beside(source: Stream): Stream {
  return new Stream(source.http, source.path.replace(/[^/]+$/, uniqueId()));
}

/** Asks for a fork at a path of its own; shows the answer. */
export async function fork(source: Stream, at: ForkAt = {}, options: CreateOptions = {}): Promise<{ readonly stream: Stream; readonly answer: Answer }> {
  const stream = beside(source);
  return { stream, answer: await stream.create({ ...options, headers: { ...forkOf(source, at), ...options.headers } }) };
}

/** A fork that must come about. */
export async function forked(source: Stream, at: ForkAt = {}, options: CreateOptions = {}): Promise<Stream> {
  const { stream, answer } = await fork(source, at, options);
  if (answer.status !== 201) throw new Error(`the fork was refused: ${answer.status} ${answer.text}`);
  return stream;
}

/** Waits until a check holds. */
export async function eventually(check: () => Promise<boolean>, timeoutMs = 8_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error('it did not come about in time');
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Waits until nothing is left at the paths. */
export function allFree(...streams: readonly Stream[]): Promise<void> {
  return eventually(async () => (await Promise.all(streams.map((stream) => stream.head()))).every(({ status }) => status === 404));
}
