/** Log and metrics of a process: see `logger.ts` and `metrics.ts`. */
export { createLogger, type Logger } from './logger.js';
export { createMetrics, type Metrics, type MetricSources, type RouteClass } from './metrics.js';
export { Tally } from './tally.js';
