/**
 * Limits of the settings themselves, with units and the relations between them.
 *
 * Owns: the numbers of the configuration schema. Promises: every relation stated here was checked when the module was loaded (invariant I11).
 */

/** Most partitions of a store: a partition takes 10 bits of an incarnation token. */
export const PARTITIONS_MAX = 1_024;
/** Largest body of one append or create that may be configured, bytes; bodies are held in memory until they are durable. */
export const REQUEST_BYTES_CEILING = 268_435_456;
/** Largest snapshot that may be configured, bytes. */
export const SNAPSHOT_BYTES_CEILING = 1_073_741_824;
/** Largest snapshot without a cold tier, bytes: it stays in the hot tier for its whole life. */
export const SNAPSHOT_BYTES_MAX_WITHOUT_COLD = 33_554_432;
/** Longest configurable period, ms: a year; also what a sealed copy may be kept hot. */
export const PERIOD_MS_MAX = 31_536_000_000;
/** Most entries of a list setting. */
export const LIST_ENTRIES_MAX = 256;

if (SNAPSHOT_BYTES_MAX_WITHOUT_COLD > SNAPSHOT_BYTES_CEILING) throw new Error('a snapshot without a cold tier cannot be larger than one with it');
if (SNAPSHOT_BYTES_MAX_WITHOUT_COLD > REQUEST_BYTES_CEILING) throw new Error('a snapshot without a cold tier has to fit into one request');
