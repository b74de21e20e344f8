/**
 * The specification as a small machine in memory: a request changes it and says which answer the server must give.
 *
 * Each verb is one function whose lines stand in the order of the checks (requirements ERR-14, SNAP-32). Bytes are kept whole; where they lie does not exist here, which is the point:
 * whatever is sealed, evicted, compacted or restored, the answers are these.
 */

const LF = 0x0a;

/** What an answer must be; `next`: `Stream-Next-Offset`, left out when the answer need not have it. */
export interface Wanted {
  readonly status: number;
  readonly next?: number;
  readonly closed?: boolean;
}

export interface Claim {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
}

export interface Append {
  readonly type: string;
  /** As sent, and as it is stored (JSON becomes NDJSON). */
  readonly body: Buffer;
  readonly stored: Buffer;
  readonly claim: Claim | null;
  readonly seq: string | null;
  readonly close: boolean;
  readonly base: boolean;
}

export interface Create {
  readonly type: string;
  readonly ttl: string | null;
  readonly expiresAt: string | null;
  readonly closed: boolean;
  readonly stored: Buffer;
}

export interface Fork {
  readonly from: string;
  /** null: not sent, the source's tail. */
  readonly offset: number | null;
  readonly sub: number;
  readonly stored: Buffer;
}

export interface Snapshot {
  readonly offset: number;
  readonly type: string;
  readonly body: Buffer;
}

let lives = 0;

/** One life of a stream, from its creation to its end. */
export class Life {
  /** Stays over restores, which may give out new tokens. */
  readonly id = (lives += 1);
  content = Buffer.alloc(0);
  /** Where appends end, and where a fork begins: what sub-offsets count within. */
  ends: number[] = [0];
  closed = false;
  closedBy: Claim | null = null;
  retained = 0;
  snapshot: Snapshot | null = null;
  lastSeq: string | null = null;
  readonly producers = new Map<string, { epoch: number; seq: number; end: number }>();
  /** Live forks; while there are any, a deleted life is kept for them. */
  forks = 0;
  deleted = false;
  /** `Stream-Incarnation`, learned from the answer to the create. */
  token = '';

  constructor(
    readonly path: string,
    readonly type: string,
    readonly ttl: string | null,
    readonly expiresAt: string | null,
    public source: Life | null = null,
  ) {}

  /** The life as it is now, whatever becomes of it. */
  copy(): Life {
    return Object.assign(Object.create(Life.prototype) as Life, this, { ends: [...this.ends], producers: new Map(this.producers) });
  }

  get json(): boolean {
    return this.type === 'application/json';
  }

  get tail(): number {
    return this.content.length;
  }

  /** A place where JSON may be cut; other types may be cut anywhere. */
  isBoundary(at: number): boolean {
    return !this.json || at === 0 || this.content[at - 1] === LF;
  }

  add(stored: Buffer): void {
    if (stored.length === 0) return;
    this.content = Buffer.concat([this.content, stored]);
    this.ends.push(this.content.length);
  }

  /** Where a fork at offset and sub-offset begins, null: nowhere (FORK-02 .. FORK-06, FORK-12, FORK-32). */
  forkPoint(offset: number, sub: number): number | null {
    if (offset > this.tail || !this.isBoundary(offset)) return null;
    if (sub === 0) return offset;
    const end = this.ends.find((one) => one > offset);
    if (end === undefined) return null;
    let at = offset;
    if (!this.json) at += sub;
    else for (let n = 0; n < sub; n += 1) at = this.content.indexOf(LF, at) + 1 || Infinity;
    return at <= end ? at : null;
  }
}

/** Of `/{bucket}/{stream}`. */
export function bucketOf(path: string): string {
  return path.split('/')[1]!;
}

type Verdict = 'apply' | 'repeat' | number;

/** Requirements PROD-04 .. PROD-10, PROD-19. */
function judge(known: { readonly epoch: number; readonly seq: number } | undefined, { epoch, seq }: Claim): Verdict {
  if (known === undefined) return seq === 0 ? 'apply' : 409;
  if (epoch < known.epoch) return 403;
  if (epoch > known.epoch) return seq === 0 ? 'apply' : 400;
  if (seq <= known.seq) return 'repeat';
  return seq === known.seq + 1 ? 'apply' : 409;
}

export class Spec {
  /** Who lives at a path, lives that are kept for their forks included. */
  readonly lives = new Map<string, Life>();
  /** Buckets that were purged. */
  readonly #erased = new Set<string>();

  /** Its bucket was purged: nothing is there, and nothing can be made there (BKT-07, BKT-08, BKT-10). */
  isErased(path: string): boolean {
    return this.#erased.has(bucketOf(path));
  }

  get readable(): Life[] {
    return [...this.lives.values()].filter(({ deleted }) => !deleted);
  }

  /** The answer of every verb but PUT where nobody lives, null where somebody does (DEL-03, FORK-24). */
  absent(path: string): Wanted | null {
    const life = this.lives.get(path);
    return life === undefined || this.isErased(path) ? { status: 404 } : life.deleted ? { status: 410 } : null;
  }

  create(path: string, request: Create): Wanted {
    const { type, ttl, expiresAt, closed, stored } = request;
    if (this.isErased(path)) return { status: 404 };
    const found = this.lives.get(path);
    if (found?.deleted === true) return { status: 409 };
    if (found !== undefined) {
      const same = found.source === null && found.type === type && found.ttl === ttl && found.expiresAt === expiresAt && found.closed === closed;
      return same ? { status: 200, next: found.tail, closed } : { status: 409 };
    }
    const life = new Life(path, type, ttl, expiresAt);
    life.add(stored);
    life.closed = closed;
    // A lifetime of nothing is over at once (TTL-11).
    if (ttl !== '0') this.lives.set(path, life);
    return { status: 201, next: life.tail, closed };
  }

  fork(path: string, { from, offset, sub, stored }: Fork): Wanted {
    const source = this.lives.get(from);
    if (this.isErased(path) || this.isErased(from)) return { status: 404 };
    if (this.lives.has(path)) throw new Error('forks are made at free paths');
    if (source === undefined) return { status: 404 };
    if (source.deleted || source.retained > 0) return { status: 409 };
    const at = source.forkPoint(offset ?? source.tail, sub);
    if (at === null) return { status: 400 };
    const life = new Life(path, source.type, source.ttl, source.expiresAt, source);
    life.content = Buffer.from(source.content.subarray(0, at));
    life.ends = [...source.ends.filter((end) => end < at), at];
    life.add(stored);
    source.forks += 1;
    this.lives.set(path, life);
    return { status: 201, next: life.tail, closed: false };
  }

  append(path: string, request: Append): Wanted {
    const life = this.lives.get(path);
    if (life === undefined || life.deleted) return this.absent(path)!;
    const { claim, seq, close, body, stored, base } = request;
    const known = claim === null ? undefined : life.producers.get(claim.id);
    const verdict = claim === null ? 'apply' : judge(known, claim);
    const closing = life.closedBy !== null && claim !== null && life.closedBy.id === claim.id && life.closedBy.epoch === claim.epoch && life.closedBy.seq === claim.seq;
    if (verdict === 'repeat' && (!base || !life.closed || closing)) {
      if (base) return { status: 204, next: life.tail, closed: life.closed };
      return known!.seq === claim!.seq ? { status: 204, next: known!.end, closed: closing } : { status: 204, closed: closing };
    }
    if (life.closed) {
      if (verdict === 403) return { status: 403, closed: true };
      const again = close && body.length === 0 && claim === null;
      return { status: again ? 204 : 409, next: life.tail, closed: true };
    }
    if (body.length === 0 && !close) return { status: 400 };
    if (body.length > 0 && request.type !== life.type) return { status: 409 };
    if (typeof verdict === 'number') return { status: verdict };
    if (seq !== null && life.lastSeq !== null && seq <= life.lastSeq) return { status: 409 };
    life.add(stored);
    if (seq !== null) life.lastSeq = seq;
    if (claim !== null) life.producers.set(claim.id, { epoch: claim.epoch, seq: claim.seq, end: life.tail });
    life.closed = close;
    if (close) life.closedBy = claim;
    return { status: claim !== null && body.length > 0 ? 200 : 204, next: life.tail, closed: close };
  }

  /** Returns the paths that become free with it: its own, and those of deleted sources whose last fork it was. */
  delete(path: string): { readonly wanted: Wanted; readonly freed: readonly string[] } {
    const absent = this.absent(path);
    if (absent !== null) return { wanted: absent, freed: [] };
    const freed: string[] = [];
    const life = this.lives.get(path)!;
    life.deleted = true;
    for (let one: Life | null = life; one !== null && one.deleted && one.forks === 0; one = one.source) {
      this.lives.delete(one.path);
      freed.push(one.path);
      if (one.source !== null) one.source.forks -= 1;
    }
    return { wanted: { status: 204 }, freed };
  }

  /** Erases a bucket and fences its id; returns how many streams were there, and the paths that nobody lives at any more, in other buckets too. */
  purge(bucket: string): { readonly streams: number; readonly freed: readonly string[] } {
    const there = this.readable.filter(({ path }) => bucketOf(path) === bucket);
    const freed = there.flatMap(({ path }) => this.delete(path).freed);
    this.#erased.add(bucket);
    return { streams: there.length, freed };
  }

  /** Days without a request: what lived for a time is over (TTL-01). Returns the paths that nobody lives at any more. */
  expire(): string[] {
    return this.readable.filter(({ ttl }) => ttl !== null).flatMap(({ path }) => this.delete(path).freed);
  }

  /** Goes back to earlier states of some streams, which are all that there is then. */
  goBack(to: readonly Life[]): void {
    this.lives.clear();
    const byId = new Map(to.map((life) => [life.id, life]));
    for (const life of to) {
      life.source = life.source === null ? null : (byId.get(life.source.id) ?? null);
      life.forks = to.filter(({ source }) => source?.id === life.id).length;
      this.lives.set(life.path, life);
    }
  }

  snapshot(path: string, snapshot: Snapshot): Wanted {
    const absent = this.absent(path);
    if (absent !== null) return absent;
    const life = this.lives.get(path)!;
    const { offset } = snapshot;
    if (offset < life.retained) return { status: 410 };
    if (offset > life.tail) return { status: 409 };
    if (!life.isBoundary(offset)) return { status: 400 };
    const visible = life.snapshot;
    if (visible !== null && offset <= visible.offset) return { status: offset === visible.offset && snapshot.type === visible.type && snapshot.body.equals(visible.body) ? 204 : 409 };
    life.snapshot = snapshot;
    return { status: 204 };
  }

  retain(path: string, offset: number): Wanted {
    const absent = this.absent(path);
    if (absent !== null) return absent;
    const life = this.lives.get(path)!;
    if (offset < life.retained) return { status: 410 };
    if (offset === life.retained) return { status: 204 };
    if (life.snapshot === null || offset > life.tail || offset > life.snapshot.offset) return { status: 409 };
    if (!life.isBoundary(offset)) return { status: 400 };
    life.retained = offset;
    return { status: 204 };
  }

  /** A read from an offset of at most so many bytes: where it ends, or the refusal (READ-07, READ-20, READ-23). `whole`: only whole JSON messages may be sent, at least one (SIZE-12). */
  read(life: Life, offset: number, maxBytes: number, whole: boolean): Wanted {
    if (offset < life.retained) return { status: 410 };
    if (offset > life.tail) return { status: 416 };
    if (whole && life.json && !life.isBoundary(offset)) return { status: 400 };
    let end = Math.min(life.tail, offset + maxBytes);
    if (whole && life.json && end < life.tail) {
      const last = life.content.lastIndexOf(LF, end - 1) + 1;
      end = last > offset ? last : life.content.indexOf(LF, offset) + 1;
    }
    return { status: 200, next: end, closed: life.closed && end === life.tail };
  }
}
