/**
 * The settings of the configuration contract as flags of a command.
 */
import type { Command } from 'commander';
import { describeConfig, loadConfig, type Config } from '../../shared/config/index.js';
import type { Context } from './context.js';

/** Settings that a command which only calls a node can use. */
const CLIENT_KEYS: ReadonlySet<string> = new Set(['host', 'port', 'adminHost', 'adminPort', 'adminToken', 'nodeAdminUrl', 'log']);

/** What a worker uses besides: its queue, its object store, and where webhooks may go from it. */
const WORKER_KEYS = /^(redisUrl|cold|s3\w*|webhook\w*)$/;

export type Role = 'node' | 'worker' | 'client';

function isUsed(role: Role, key: string): boolean {
  return role === 'node' || CLIENT_KEYS.has(key) || (role === 'worker' && WORKER_KEYS.test(key));
}

/** Adds a flag for each setting that the role uses: all of them for a node. */
export function withSettings(command: Command, role: Role): Command {
  command.optionsGroup('Settings (each is also an environment variable):');
  for (const setting of describeConfig()) {
    if (!isUsed(role, setting.key)) continue;
    command.option(`${setting.flag} ${setting.boolean ? '[value]' : '<value>'}`, `${setting.variable}; default: ${setting.defaultText.replaceAll('`', '')}`);
  }
  return command;
}

/** The configuration from the command's flags and the environment. Throws `ConfigError`. */
export function settingsOf(command: Command, context: Context, role: Role): Config {
  return loadConfig({ env: context.env, flags: command.opts<Record<string, unknown>>(), role: role === 'node' ? 'node' : 'client' });
}
