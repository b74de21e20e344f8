/**
 * Records that tell by themselves who wrote them and whether they are whole.
 *
 * A binary record is `length u32 | writer u16 | number u32 | bytes`, a JSON message an object with the same three facts; the bytes follow from
 * writer and number, so that any other byte is seen.
 */

export interface Mark {
  readonly writer: number;
  readonly number: number;
}

/** Bytes that follow from the seed (xorshift). */
function filling(writer: number, number: number, size: number): Buffer {
  const out = Buffer.allocUnsafe(size);
  let state = (writer * 2_654_435_761 + number * 40_503 + 1) >>> 0;
  for (let i = 0; i < size; i += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    out[i] = state & 0xff;
  }
  return out;
}

export function binaryRecord(writer: number, number: number, size: number): Buffer {
  const head = Buffer.allocUnsafe(10);
  head.writeUInt32BE(size, 0);
  head.writeUInt16BE(writer, 4);
  head.writeUInt32BE(number, 6);
  return Buffer.concat([head, filling(writer, number, size)]);
}

/** Splits a stream into its records; throws on a record that is not whole or not as it was written. */
export function parseBinary(content: Buffer): Mark[] {
  const marks: Mark[] = [];
  let at = 0;
  while (at < content.length) {
    if (content.length - at < 10) throw new Error(`a torn record head at ${at}`);
    const size = content.readUInt32BE(at);
    const mark = { writer: content.readUInt16BE(at + 4), number: content.readUInt32BE(at + 6) };
    const bytes = content.subarray(at + 10, at + 10 + size);
    if (!bytes.equals(filling(mark.writer, mark.number, size))) throw new Error(`a torn or altered record at ${at}: ${JSON.stringify(mark)}, ${bytes.length} of ${size} bytes`);
    marks.push(mark);
    at += 10 + size;
  }
  return marks;
}

export function jsonRecord(writer: number, number: number, size: number): string {
  return JSON.stringify({ writer, number, filling: filling(writer, number, size).toString('base64') });
}

/** Splits NDJSON into its records; throws as `parseBinary` does. */
export function parseJson(content: Buffer): Mark[] {
  if (content.length === 0) return [];
  if (content.at(-1) !== 0x0a) throw new Error('a torn line at the end');
  return content
    .subarray(0, -1)
    .toString('utf8')
    .split('\n')
    .map((line) => {
      const { writer, number, filling: text } = JSON.parse(line) as Mark & { filling: string };
      const bytes = Buffer.from(text, 'base64');
      if (!bytes.equals(filling(writer, number, bytes.length))) throw new Error(`an altered message: ${line.slice(0, 80)}`);
      return { writer, number };
    });
}
