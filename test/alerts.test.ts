/**
 * The alert rules that are shipped name what a node shows.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { useNode } from './support/node.js';
import { PROJECT } from './support/paths.js';

const FILE = 'infra/observability/alerts.yml';
const RULES = z.strictObject({
  groups: z.array(z.strictObject({
    name: z.string(),
    rules: z.array(z.strictObject({
      alert: z.string().regex(/^Firn[A-Za-z]+$/),
      expr: z.string(),
      for: z.string().regex(/^\d+[smh]$/).optional(),
      labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }),
      annotations: z.strictObject({ summary: z.string(), description: z.string() }),
    })),
  })),
});
const rules = RULES.parse(parse(readFileSync(join(PROJECT, FILE), 'utf8'))).groups.flatMap((group) => group.rules);

/** Metrics of an expression with the labels that it asks for. */
function metricsOf(expr: string): { readonly name: string; readonly labels: readonly string[] }[] {
  return [...expr.matchAll(/\b(firn_[a-z_]+|process_[a-z_]+|nodejs_[a-z_]+)\b(?:\{([^}]*)\})?/g)].map(([, name = '', matchers = '']) => ({ name, labels: [...matchers.matchAll(/([a-z_]+)\s*[=!]~?"/g)].map(([, label = '']) => label) }));
}

describe('alert rules', () => {
  const node = useNode({ FIRN_LOG: 'warn' });

  it('name only metrics and labels that a node shows from its start on', async () => {
    const { text } = await node.admin.send('GET', '/__firn/metrics');
    expect(rules.length).toBeGreaterThan(5);
    for (const { alert, expr } of rules) {
      const named = metricsOf(expr);
      expect(named.length, alert).toBeGreaterThan(0);
      for (const { name, labels } of named) {
        const samples = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
        expect(samples.length, `${alert}: ${name}`).toBeGreaterThan(0);
        for (const label of labels) expect(samples.some((line) => line.includes(`${label}="`)), `${alert}: ${name} has no label ${label}`).toBe(true);
      }
      for (const [, list = ''] of expr.matchAll(/by \(([^)]*)\)/g)) {
        for (const label of list.split(',').map((one) => one.trim()).filter((one) => one !== 'instance')) expect(named.some(({ name }) => text.includes(`\n${name}{`) && text.includes(`${label}="`)), `${alert}: ${label}`).toBe(true);
      }
    }
  });

  it('cover age and bytes of what is unsealed, refused writes, a lost session, a store that is away, and damage', () => {
    const watched = new Set(rules.flatMap(({ expr }) => metricsOf(expr).map(({ name }) => name)));
    for (const name of ['firn_unsealed_age_seconds', 'firn_unsealed_bytes', 'firn_writes_refused', 'firn_store_requests_total', 'firn_damage_total', 'firn_store_poisonings_total', 'firn_disk_free_bytes']) expect(watched).toContain(name);
    expect(rules.some(({ expr }) => expr.includes('APPLY_STOPPED'))).toBe(true);
    expect(readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')).toContain(FILE);
  });
});
