/**
 * `docker-compose.yml` as Docker reads it: merge keys, variables, and no key that nobody knows.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { PROJECT } from '../support/paths.js';

const WORDS = z.array(z.string());
const DURATION = z.string().regex(/^\d+(ms|s|m)$/);
const ENVIRONMENT = z.record(z.string(), z.string());

/** What our services use of the format; anything else is a slip of the pen. */
const SERVICE = z.strictObject({
  image: z.string(),
  build: z.string().optional(),
  entrypoint: WORDS.optional(),
  command: WORDS,
  environment: ENVIRONMENT.optional(),
  ports: WORDS.optional(),
  volumes: WORDS.optional(),
  restart: z.enum(['no', 'unless-stopped']),
  read_only: z.boolean().optional(),
  cap_drop: WORDS.optional(),
  security_opt: WORDS.optional(),
  ulimits: z.record(z.string(), z.number()).optional(),
  deploy: z.strictObject({ replicas: z.number() }).optional(),
  stop_grace_period: DURATION.optional(),
  healthcheck: z.strictObject({ test: WORDS, interval: DURATION, timeout: DURATION, retries: z.number(), start_period: DURATION.optional() }).optional(),
  depends_on: z.record(z.string(), z.strictObject({ condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']) })).optional(),
});
const FILE = z.looseObject({ name: z.string(), services: z.record(z.string(), SERVICE), volumes: z.record(z.string(), z.null()) });

export type Service = z.infer<typeof SERVICE>;
export type ComposeFile = z.infer<typeof FILE>;

/** The file with `variables` in place of what it asks for. Throws for a variable that has to be set and is not, and for keys that are unknown. */
export function composeFile(variables: Readonly<Record<string, string>>): ComposeFile {
  const tree: unknown = parse(readFileSync(join(PROJECT, 'docker-compose.yml'), 'utf8'), { merge: true });
  return FILE.parse(filledIn(tree, variables));
}

export function service(file: ComposeFile, name: string): Service {
  const found = file.services[name];
  if (found === undefined) throw new Error(`no service ${name}`);
  return found;
}

/** `${NAME}`, `${NAME:-default}`, `${NAME:?why}`, and `$$` for a dollar. */
function filledIn(value: unknown, variables: Readonly<Record<string, string>>): unknown {
  if (Array.isArray(value)) return value.map((one) => filledIn(one, variables));
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filledIn(one, variables)]));
  if (typeof value !== 'string') return value;
  return value.replace(/\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\}|)/g, (all, dollar?: string, name?: string, kind?: string, rest?: string) => {
    if (dollar !== undefined) return '$';
    if (name === undefined) throw new Error(`a lone $ in ${value}`);
    const given = variables[name] ?? '';
    if (given !== '') return given;
    if (kind === '?') throw new Error(`${name} has to be set: ${rest}`);
    if (kind === undefined) throw new Error(`${all} may be empty`);
    return rest ?? '';
  });
}

/** `40s` in ms. */
export function milliseconds(duration: string): number {
  const [, count, unit] = /^(\d+)(ms|s|m)$/.exec(duration) ?? [];
  return Number(count) * { ms: 1, s: 1_000, m: 60_000 }[unit as 'ms' | 's' | 'm'];
}
