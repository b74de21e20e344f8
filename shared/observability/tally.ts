/**
 * Counters for hot paths: a plain number a call, turned into Prometheus samples only when somebody looks.
 *
 * Owns: the bridge to prom-client. Promises: adding to a `Tally` allocates nothing.
 */
import { Counter, Gauge, type Registry } from 'prom-client';

/** One child of a counter. Add to `value` directly where a call would cost. */
export class Tally {
  value = 0;

  add(count = 1): void {
    this.value += count;
  }
}

export interface Named {
  readonly name: string;
  readonly help: string;
}

/** A value with its labels at the time of a scrape. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A counter whose samples are read at each scrape. */
export function readCounter(registry: Registry, named: Named, labelNames: readonly string[], read: () => Iterable<Sample>): void {
  const counter = new Counter({
    ...named,
    labelNames: [...labelNames],
    registers: [registry],
    collect: () => {
      counter.reset();
      for (const sample of read()) counter.inc(sample.labels, sample.value);
    },
  });
}

/** A gauge whose samples are read at each scrape. */
export function readGauge(registry: Registry, named: Named, labelNames: readonly string[], read: () => Iterable<Sample>): void {
  const gauge = new Gauge({
    ...named,
    labelNames: [...labelNames],
    registers: [registry],
    collect: () => {
      gauge.reset();
      if (labelNames.length === 0) gauge.remove();
      for (const sample of read()) gauge.set(sample.labels, sample.value);
    },
  });
}

/** A counter without labels. */
export function tallyCounter(registry: Registry, named: Named): Tally {
  const tally = new Tally();
  readCounter(registry, named, [], () => [{ labels: {}, value: tally.value }]);
  return tally;
}

/** A counter with one child for each value of a single label, all known at start, so that each shows from 0. */
export function tallyFamily<K extends string>(registry: Registry, named: Named, label: string, keys: readonly K[]): Readonly<Record<K, Tally>> {
  const children = Object.fromEntries(keys.map((key) => [key, new Tally()])) as Record<K, Tally>;
  readCounter(registry, named, [label], () => keys.map((key) => ({ labels: { [label]: key }, value: children[key].value })));
  return children;
}
