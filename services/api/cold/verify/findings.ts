/** What a verification found, bounded: the first of each kind are listed, all are counted (I11). */
export interface Finding {
  /** What it is about: a stream, an object, a partition's log. */
  readonly where: string;
  readonly what: string;
}

const LISTED_MAX = 1_000;

export class Findings {
  readonly listed: Finding[] = [];
  count = 0;

  add(where: string, what: string): void {
    this.count++;
    if (this.listed.length < LISTED_MAX) this.listed.push({ where, what });
  }

  /** Runs a check; what it throws is a finding. */
  async attempt(where: string, check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      this.add(where, error instanceof Error ? error.message : String(error));
    }
  }
}
