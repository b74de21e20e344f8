/**
 * A document that many edit at once: updates of Yjs in a stream of JSON messages, each in base64, and snapshots that its readers publish.
 *
 * A client that joins late asks for the bootstrap: the newest snapshot and the updates behind it, in one answer, however long the history is. Then it follows the stream from where that answer ends. Updates of Yjs may be applied twice
 * and in any order, so a client need not tell its own from others'.
 */
import * as Y from 'yjs';
import { follow } from '../follow.mjs';

/** A client publishes a snapshot when it has seen so many updates since the last one. */
const SNAPSHOT_EVERY = 50;

const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
const fromBase64 = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/** Where `part` begins in `bytes` from `from` on, -1: nowhere. */
function indexOf(bytes, part, from) {
  for (let at = bytes.indexOf(part[0], from); at >= 0; at = bytes.indexOf(part[0], at + 1)) if (part.every((byte, i) => bytes[at + i] === byte)) return at;
  return -1;
}

/** Bodies of the parts of a `multipart/mixed` answer. */
export function partsOf(contentType, bytes) {
  const boundary = /boundary=([^;]+)/.exec(contentType)[1];
  const ascii = (text) => Uint8Array.from(text, (char) => char.charCodeAt(0));
  const delimiter = ascii(`--${boundary}`);
  const headEnd = ascii('\r\n\r\n');
  const parts = [];
  for (let at = indexOf(bytes, delimiter, 0); at >= 0; ) {
    const next = indexOf(bytes, delimiter, at + delimiter.length);
    if (next < 0) return parts;
    parts.push(bytes.subarray(indexOf(bytes, headEnd, at) + headEnd.length, next - 2));
    at = next;
  }
  return parts;
}

/** Opens the document `name` (`bucket/stream`) on the node at `origin`; resolves with the state of now, which goes on to follow all others. */
export async function open(origin, name) {
  const bucketed = `${origin}/${name}`;
  const base = `${origin}/v1/stream/${name}`;
  const doc = new Y.Doc();
  /** What joining took, for who wants to know. */
  const stats = { parts: 0, snapshots: 0, seen: 0 };
  await fetch(bucketed, { method: 'PUT', headers: { 'Content-Type': 'application/json' } });

  const answer = await fetch(`${bucketed}/bootstrap`);
  const [snapshot, ...updates] = partsOf(answer.headers.get('content-type'), new Uint8Array(await answer.arrayBuffer()));
  if (snapshot.length > 0) Y.applyUpdate(doc, snapshot, 'stream');
  for (const update of updates) Y.applyUpdate(doc, fromBase64(JSON.parse(new TextDecoder().decode(update))), 'stream');
  stats.parts = updates.length;

  // One request at a time: what is typed meanwhile goes together in the next one.
  let waiting = [];
  let sending = null;
  const send = async () => {
    while (waiting.length > 0) {
      const updates = waiting;
      waiting = [];
      const body = JSON.stringify([toBase64(Y.mergeUpdates(updates))]);
      while (!(await fetch(base, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }).then((sent) => sent.ok, () => false))) await new Promise((resolve) => setTimeout(resolve, 500));
    }
    sending = null;
  };
  doc.on('update', (update, origin) => {
    if (origin === 'stream') return;
    waiting.push(update);
    sending ??= send();
  });

  void follow(base, answer.headers.get('stream-next-offset'), (messages, offset) => {
    for (const message of messages) Y.applyUpdate(doc, fromBase64(message), 'stream');
    stats.seen += messages.length;
    if (messages.length === 0 || stats.seen % SNAPSHOT_EVERY >= messages.length) return;
    // Any client may: the first to publish at an offset wins, and all of them hold the same there. A newer snapshot of another is as good.
    void fetch(`${bucketed}/snapshot/${offset}`, { method: 'PUT', headers: { 'Content-Type': 'application/octet-stream' }, body: Y.encodeStateAsUpdate(doc) }).then(({ ok }) => (stats.snapshots += ok ? 1 : 0));
  });
  return { doc, text: doc.getText('text'), stats };
}
