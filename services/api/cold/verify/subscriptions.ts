/**
 * Checks of subscriptions: their rows in the hot store, and that the log holds what a row says it holds (`firn verify`).
 *
 * May run beside a running node: what seems wrong is looked at again before it is a finding.
 */
import type { CheckpointItem } from '../../../../shared/storage/checkpoint.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import {
  streamRow, subscriptionBaseRow, subscriptionCursorRow, subscriptionEndRow, subscriptionKeysRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow, type KeyRange,
} from '../../hot/keys/index.js';
import type { HotEntry, HotReads } from '../../hot/store.js';
import type { Findings } from './findings.js';

const HOT = 'subscriptions of the hot store';

/** Returns how many there are. */
export async function checkSubscriptions(store: HotReads, findings: Findings, signal: AbortSignal): Promise<number> {
  const numbers = new Map<number, string>();
  const note = async (range: KeyRange, of: (row: HotEntry) => [number, string]): Promise<void> => {
    await each(store, range, signal, async (row) => {
      await findings.attempt(HOT, async () => {
        const [number, id] = of(row);
        numbers.set(number, id);
      });
    });
  };
  const noteAll = async (): Promise<void> => {
    await note(subscriptionEndRow.range(), ({ key, value }) => [subscriptionEndRow.decode(value).number, subscriptionEndRow.decodeKey(key).id]);
    await note(subscriptionRow.range(), ({ key, value }) => [subscriptionRow.decode(value).number, subscriptionRow.decodeKey(key).id]);
  };
  await noteAll();
  let count = 0;
  await each(store, subscriptionRow.range(), signal, async () => void count++);
  const owned = async (number: number, what: string): Promise<void> => {
    // One that was made meanwhile.
    if (!numbers.has(number)) await noteAll();
    if (!numbers.has(number)) findings.add(HOT, `${what} of subscription number ${number}, which there is not`);
  };
  // Kind bytes of their own: everything of a kind is one range.
  const all = (row: { range(number: number): KeyRange }): KeyRange => ({ from: row.range(0).from.subarray(0, 1), to: row.range(2 ** 32 - 1).to });
  const check = (range: KeyRange, what: string, work: (row: HotEntry) => Promise<number>): Promise<void> =>
    each(store, range, signal, (row) => findings.attempt(HOT, async () => owned(await work(row), what)));
  await check(all(subscriptionBaseRow), 'cursors', async ({ key, value }) => {
    subscriptionBaseRow.decode(value);
    return subscriptionBaseRow.decodeKey(key).number;
  });
  await check(all(subscriptionCursorRow), 'a cursor', async ({ key, value }) => {
    subscriptionCursorRow.decode(value);
    return subscriptionCursorRow.decodeKey(key).number;
  });
  await check(all(subscriptionLinkRow), 'a link', async (row) => {
    const { number, key } = subscriptionLinkRow.decodeKey(row.key);
    const { incarnation, acked } = subscriptionLinkRow.decode(row.value);
    // The tail is read behind the cursor, and only grows.
    const found = await store.get(streamRow.key(slotOf(key), key));
    const stream = found === undefined ? null : streamRow.decode(found);
    if (stream?.incarnation === incarnation && acked > stream.tail) findings.add(HOT, `the cursor of number ${number} to ${key} stands at ${acked}, behind its end ${stream.tail}`);
    return number;
  });
  await findings.attempt(HOT, async () => checkNumbers(await store.get(subscriptionKeysRow.key()), numbers, findings));
  return count;
}

function checkNumbers(value: Buffer | undefined, numbers: ReadonlyMap<number, string>, findings: Findings): void {
  const next = value === undefined ? 1 : subscriptionKeysRow.decode(value).nextNumber;
  for (const [number, id] of numbers) if (number >= next) findings.add(HOT, `${id} has number ${number}, which the next one may get again`);
}

async function each(store: HotReads, range: KeyRange, signal: AbortSignal, work: (row: HotEntry) => Promise<void>): Promise<void> {
  for await (const page of store.scan(range)) {
    signal.throwIfAborted();
    for (const row of page) await work(row);
  }
}

/** What a restore would find, beside what the hot store says of it. */
export class LoggedSubscriptions {
  readonly #store: HotReads;
  /** Digest of the configuration; null: it ended. */
  readonly #before = new Map<string, string | null>();
  readonly #logged = new Map<string, string>();

  constructor(store: HotReads) {
    this.#store = store;
  }

  /** Before the log is read. */
  async begin(signal: AbortSignal): Promise<void> {
    await each(this.#store, subscriptionLoggedRow.range(), signal, async ({ key }) => {
      const { id } = subscriptionLoggedRow.decodeKey(key);
      this.#before.set(id, await this.#digest(id));
    });
  }

  /** The same items, with a look at the subscriptions among them. */
  async *noting(items: AsyncIterable<CheckpointItem>): AsyncGenerator<CheckpointItem> {
    for await (const item of items) {
      if (item.kind === 'subscription') this.#logged.set(item.id, item.config.digest);
      yield item;
    }
  }

  /** Once every partition was read. */
  async check(findings: Findings): Promise<void> {
    for (const [id, digest] of this.#before) {
      const logged = this.#logged.get(id) ?? null;
      if (logged === digest) continue;
      // It may have changed while the log was read.
      if ((await this.#store.get(subscriptionLoggedRow.key(id))) === undefined || (await this.#digest(id)) !== digest) continue;
      findings.add(`subscription ${id}`, logged === null ? 'is not in the log, which the hot store says holds it' : digest === null ? 'has ended, and the log holds it' : 'has another configuration in the log');
    }
  }

  async #digest(id: string): Promise<string | null> {
    const value = await this.#store.get(subscriptionRow.key(id));
    return value === undefined ? null : subscriptionRow.decode(value).digest;
  }
}
