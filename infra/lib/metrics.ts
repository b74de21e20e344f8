/** What a node or a worker counts, as numbers. */

export class Samples {
  constructor(private readonly values: ReadonlyMap<string, number>) {}

  /** Sum of a metric over all its samples that carry these labels; 0 when there is none. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    let sum = 0;
    for (const [sample, value] of this.values) {
      const [metric, rest = ''] = sample.split('{');
      if (metric === name && wanted.every((label) => rest.includes(label))) sum += value;
    }
    return sum;
  }
}

/** Reads Prometheus text: one sample a line. */
export function parseSamples(text: string): Samples {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Samples(new Map(lines.map((line) => {
    const gap = line.lastIndexOf(' ');
    return [line.slice(0, gap), Number(line.slice(gap + 1))];
  })));
}
