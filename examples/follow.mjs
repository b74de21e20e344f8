/**
 * Follows a JSON stream in a browser: every message once, in order, over any number of broken connections.
 *
 * An `EventSource` that reconnects by itself asks for the URL that it was made with, and would show everything again. So the position of the last control event is kept, and each connection asks from there.
 */

/** Wait before a broken connection is made again, ms. */
const AGAIN_MS = 500;

/**
 * `url`: the stream by the base protocol, `from`: offset or '-1'. Calls `onMessages(messages, offset)` for each event; resolves when the stream is closed and all of it was seen.
 */
export function follow(url, from, onMessages) {
  let offset = from;
  return new Promise((resolve) => {
    const connect = () => {
      const source = new EventSource(`${url}?offset=${encodeURIComponent(offset)}&live=sse`);
      let held = [];
      source.addEventListener('data', ({ data }) => held.push(...JSON.parse(data)));
      // What came with the data counts once its position is known: a connection that breaks in between brings it again.
      source.addEventListener('control', ({ data }) => {
        const { streamNextOffset, streamClosed } = JSON.parse(data);
        offset = streamNextOffset;
        const messages = held;
        held = [];
        onMessages(messages, offset);
        if (streamClosed !== true) return;
        source.close();
        resolve(offset);
      });
      source.addEventListener('error', () => {
        source.close();
        setTimeout(connect, AGAIN_MS);
      });
    };
    connect();
  });
}
