/**
 * A bare socket client, for what a client library would tidy up or refuse to send: odd paths, doubled headers, cut bodies.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Lower-case names; repeated ones joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Everything that came, as text. */
  readonly wire: string;
}

/** One connection. */
export class RawConnection {
  #received = Buffer.alloc(0);
  #closed = false;
  #wake: (() => void) | null = null;

  private constructor(readonly socket: Socket) {
    socket.on('data', (piece: Buffer) => {
      this.#received = Buffer.concat([this.#received, piece]);
      this.#wake?.();
    });
    const over = (): void => {
      this.#closed = true;
      this.#wake?.();
    };
    socket.on('close', over);
    socket.on('end', over);
    socket.on('error', over);
  }

  static async open(origin: string): Promise<RawConnection> {
    const { hostname, port } = new URL(origin);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new RawConnection(socket);
  }

  get closed(): boolean {
    return this.#closed;
  }

  get received(): string {
    return this.#received.toString('latin1');
  }

  write(data: string | Buffer): void {
    this.socket.write(typeof data === 'string' ? Buffer.from(data, 'latin1') : data);
  }

  /** Waits until what came satisfies the predicate, the peer has closed, or the time is over; tells whether it does. */
  async until(satisfied: (received: string) => boolean, timeoutMs = 5_000): Promise<boolean> {
    const deadline = Date.now() + timeoutMs;
    while (!satisfied(this.received)) {
      const leftMs = deadline - Date.now();
      if (this.#closed || leftMs <= 0) return satisfied(this.received);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
    }
    return true;
  }

  /** Reads one whole answer (by Content-Length, chunks, or the end of the connection) and takes it off what was received. */
  async answer(timeoutMs = 5_000, headOnly = false): Promise<RawAnswer | null> {
    await this.until((text) => finalHead(text) !== null, timeoutMs);
    const head = finalHead(this.received);
    if (head === null) return null;
    const complete = (): Buffer | null => bodyOf(this.#received.subarray(head.bodyAt), head, headOnly, this.#closed);
    await this.until(() => complete() !== null, timeoutMs);
    const body = complete();
    const wire = this.received;
    if (body !== null) this.#received = Buffer.alloc(0);
    return { status: head.status, headers: head.headers, body: body ?? this.#received.subarray(head.bodyAt), wire };
  }

  destroy(): void {
    this.socket.destroy();
  }
}

interface RawHead {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly bodyAt: number;
}

/** The head of the final answer; interim ones (1xx) before it are passed over. */
function finalHead(text: string): RawHead | null {
  let at = 0;
  for (;;) {
    const end = text.indexOf('\r\n\r\n', at);
    if (end < 0) return null;
    const [first = '', ...lines] = text.slice(at, end).split('\r\n');
    const status = Number(first.split(' ')[1]);
    if (status < 100 || status > 199) {
      const headers: Record<string, string> = {};
      for (const line of lines) {
        const colon = line.indexOf(':');
        const name = line.slice(0, colon).toLowerCase();
        const value = line.slice(colon + 1).trim();
        headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
      }
      return { status, headers, bodyAt: end + 4 };
    }
    at = end + 4;
  }
}

function bodyOf(rest: Buffer, head: RawHead, headOnly: boolean, ended: boolean): Buffer | null {
  if (headOnly || head.status === 204 || head.status === 304) return Buffer.alloc(0);
  const length = head.headers['content-length'];
  if (length !== undefined) return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : null;
  if (head.headers['transfer-encoding'] === 'chunked') return unchunk(rest);
  return ended ? rest : null;
}

function unchunk(rest: Buffer): Buffer | null {
  const pieces: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at);
    if (lineEnd < 0) return null;
    const size = Number.parseInt(rest.toString('latin1', at, lineEnd), 16);
    if (size === 0) return Buffer.concat(pieces);
    if (rest.length < lineEnd + 2 + size + 2) return null;
    pieces.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}

/**
 * Sends one request on a connection of its own. `lines` are the request line and the header lines; `Host` and `Connection: close` are
 * added, and `Content-Length` when a body is given and the lines name no framing.
 */
export async function raw(origin: string, lines: string | readonly string[], body: string | Buffer = ''): Promise<RawAnswer> {
  const all = typeof lines === 'string' ? [lines] : [...lines];
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body;
  const framed = all.some((line) => /^(content-length|transfer-encoding)\s*:/i.test(line));
  all.splice(1, 0, `Host: ${new URL(origin).host}`, 'Connection: close');
  if (!framed && (bytes.length > 0 || /^(POST|PUT) /.test(all[0] ?? ''))) all.push(`Content-Length: ${bytes.length}`);
  const connection = await RawConnection.open(origin);
  try {
    connection.write(Buffer.concat([Buffer.from(`${all.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]));
    const answer = await connection.answer(10_000, all[0]?.startsWith('HEAD ') ?? false);
    if (answer === null) throw new Error(`no answer to ${all[0]}; received ${JSON.stringify(connection.received.slice(0, 200))}`);
    return answer;
  } finally {
    connection.destroy();
  }
}

/** The code in an error body of a raw answer; empty when there is none. */
export function rawCode(answer: RawAnswer): string {
  try {
    return (JSON.parse(answer.body.toString('utf8')) as { error: { code: string } }).error.code;
  } catch {
    return '';
  }
}
