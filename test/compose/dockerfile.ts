/**
 * The Dockerfile as a list of instructions, and what `.dockerignore` lets into its context.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT } from '../support/paths.js';

export interface Instruction {
  readonly verb: string;
  /** Behind the verb, on one line. */
  readonly text: string;
  /** Of the exec form: `["firn"]`. null: the text is for a shell. */
  readonly words: readonly string[] | null;
}

export interface Stage {
  readonly base: string;
  /** null: the one that becomes the image. */
  readonly name: string | null;
  readonly instructions: readonly Instruction[];
}

export function dockerfile(): Stage[] {
  const lines = readFileSync(join(PROJECT, 'Dockerfile'), 'utf8').replace(/^\s*#.*\n/gm, '').replace(/\\\n\s*/g, ' ').split('\n').filter((line) => line.trim() !== '');
  const stages: { base: string; name: string | null; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, verb = '', text = ''] = /^([A-Z]+)\s+(.+)$/.exec(line) ?? [];
    if (verb === 'FROM') {
      const [, base = '', name = null] = /^(\S+)(?: AS (\S+))?$/.exec(text) ?? [];
      stages.push({ base, name, instructions: [] });
      continue;
    }
    const stage = stages.at(-1);
    if (verb === '' || stage === undefined) throw new Error(`not an instruction: ${line}`);
    stage.instructions.push({ verb, text, words: text.startsWith('[') ? (JSON.parse(text) as string[]) : null });
  }
  return stages;
}

export interface Copy {
  /** Another stage; null: the context. */
  readonly from: string | null;
  readonly sources: readonly string[];
  readonly target: string;
}

export function copyOf({ text }: Instruction): Copy {
  const words = text.split(/\s+/);
  const from = words[0]?.startsWith('--from=') === true ? (words.shift() ?? '').slice('--from='.length) : null;
  const target = words.pop();
  if (target === undefined || words.length === 0 || words.some((word) => word.startsWith('--'))) throw new Error(`COPY ${text} is not understood`);
  return { from, sources: words, target };
}

/** Whether a path of the project is part of the context: the last rule that fits it, or a folder above it, counts. */
export function inContext(): (path: string) => boolean {
  const rules = readFileSync(join(PROJECT, '.dockerignore'), 'utf8').split('\n').filter((line) => line !== '' && !line.startsWith('#')).map((line) => {
    const lets = line.startsWith('!');
    const pattern = (lets ? line.slice(1) : line).replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*\*\/|\*\*|\*/g, (stars) => ({ '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*' })[stars] ?? '');
    return { lets, fits: new RegExp(`^${pattern}(?:/.*)?$`) };
  });
  return (path) => rules.reduce((inside, { lets, fits }) => (fits.test(path) ? lets : inside), true);
}
