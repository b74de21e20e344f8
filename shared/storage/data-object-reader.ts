/**
 * Reading a whole data object that nothing else is known of: for deep verification, compaction and restore.
 *
 * Owns: the walk. Promises (I9): what it yields was checked against every sum there is: frame, item, footer and the item's own; an object with anything more, less or
 * other than its footer says is refused, at the latest behind the last item; others get their turn all the way, also where nothing has to be waited for.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { BadBytes } from './codec.js';
import { DATA_OBJECT_MAGIC, decodeFooter, type Footer, type FrameEntry, type ItemEntry } from './data-object-footer.js';
import { itemsOf, type FrameItem, type RefInObject } from './data-object-item.js';
import { checkFrame, frameLengthAt, rawOf, type FrameRef } from './frame.js';

const WHAT = 'data object';

export interface DataObjectItem extends Omit<FrameItem, 'blockAt'> {
  readonly ref: RefInObject;
}

/** Frames that are decompressed while the one before them is looked at: enough to go to the thread together. */
const FRAMES_AHEAD = 4;

/** Raw bytes that are checked before others get their turn, about a millisecond, and what an item costs beside its bytes. */
const TURN_BYTES = 1_048_576;
const ITEM_TURN_BYTES = 4_096;

/** Items in the order in which they lie in the object, few frames in memory at a time. Throws `BadBytes`. */
export async function* parseDataObject(object: Buffer): AsyncGenerator<DataObjectItem> {
  if (!object.subarray(0, DATA_OBJECT_MAGIC.length).equals(DATA_OBJECT_MAGIC)) throw new BadBytes(WHAT, 'not the start of a data object');
  const footer = decodeFooter(object);
  await turn();
  const indexed = new IndexedItems(footer);
  await turn();
  const frames = framesOf(object, footer);
  const ahead: OpenedFrame[] = [];
  const open = (): void => {
    const next = frames.next();
    if (next.done !== true) ahead.push(next.value);
  };
  for (let n = 0; n < FRAMES_AHEAD; n++) open();
  let untilTurn = TURN_BYTES;
  for (let number = 0, frame = ahead.shift(); frame !== undefined; number++, frame = ahead.shift()) {
    open();
    const raw = await frame.raw;
    for (const { blockAt, ...item } of itemsOf(raw)) {
      indexed.take(number, blockAt, item);
      yield { ...item, ref: { ...frame.place, blockAt, blockBytes: item.value.length } };
      untilTurn -= item.value.length + ITEM_TURN_BYTES;
      if (untilTurn > 0) continue;
      untilTurn = TURN_BYTES;
      await turn();
    }
  }
  indexed.end();
}

interface OpenedFrame {
  readonly place: FrameRef;
  readonly raw: Promise<Buffer>;
}

/** Frames as the footer lists them, each checked, its decompression begun. */
function* framesOf(object: Buffer, footer: Footer): Generator<OpenedFrame> {
  let at = DATA_OBJECT_MAGIC.length;
  for (const [number, entry] of footer.frames.entries()) {
    const bytes = frameLengthAt(object, at);
    if (at + bytes > footer.at) throw new BadBytes(WHAT, `frame ${number} reaches into the footer`);
    const stored = object.subarray(at, at + bytes);
    const head = checkFrame(stored);
    if (!sameFrame(entry, { frameBytes: bytes, rawBytes: head.rawBytes, crc: head.crc })) throw new BadBytes(WHAT, `frame ${number} is not the one in the footer`);
    const raw = rawOf(stored, head);
    // Thrown where it is awaited; a walk that ended before leaves it behind.
    raw.catch(() => undefined);
    yield { place: { frameAt: at, frameBytes: bytes, frameCrc: head.crc }, raw };
    at += bytes;
  }
  if (at !== footer.at) throw new BadBytes(WHAT, `${footer.at - at} bytes between frames and footer`);
}

/** The footer's ranges by place, each to be met exactly once. */
class IndexedItems {
  private readonly byPlace = new Map<string, ItemEntry>();

  constructor(footer: Footer) {
    for (const item of footer.items) this.byPlace.set(`${item.frame}:${item.blockAt}`, item);
    if (this.byPlace.size !== footer.items.length) throw new BadBytes(WHAT, 'two ranges at one place');
  }

  take(frame: number, blockAt: number, found: Omit<FrameItem, 'blockAt'>): void {
    const place = `${frame}:${blockAt}`;
    const listed = this.byPlace.get(place);
    const same = listed !== undefined && listed.kind === found.kind && listed.incarnation === found.incarnation && listed.start === found.start && listed.end === found.end && listed.blockBytes === found.value.length;
    if (!same) throw new BadBytes(WHAT, `${found.kind} ${found.incarnation}@${found.start} is not in the footer`);
    this.byPlace.delete(place);
  }

  end(): void {
    if (this.byPlace.size > 0) throw new BadBytes(WHAT, `${this.byPlace.size} ranges of the footer are not there`);
  }
}

function sameFrame(a: FrameEntry, b: FrameEntry): boolean {
  return a.frameBytes === b.frameBytes && a.rawBytes === b.rawBytes && a.crc === b.crc;
}
