/** The configuration contract (docs/configuration.md): see `config.ts`. */
export { ConfigError, loadConfig, type ColdKind, type Config, type ConfigSource, type JobsMode, type LogLevel, type S3Config } from './config.js';
export { configurationPage, describeConfig, type SettingDescription } from './describe.js';
export { httpUrl, isLoopback } from './net.js';
