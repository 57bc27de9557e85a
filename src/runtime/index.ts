export { BoundedQueue, type Offer, type QueueLimits } from "./bounded-queue.ts";
export {
  type Cancel,
  type Clock,
  checkDelay,
  systemClock,
  systemTimers,
  type TimerOptions,
  type Timers,
  yieldToEventLoop,
} from "./clock.ts";
export { InvariantViolation, invariant, unreachable } from "./invariant.ts";
export {
  createLogger,
  LOG_LEVELS,
  type Log,
  type LogFields,
  type LogLevel,
  type LogOptions,
  type RootLog,
  silentLog,
} from "./log.ts";
export {
  type CollectedMetric,
  createMetrics,
  type HistogramMetric,
  type Metrics,
  type Sample,
  type Scrape,
} from "./metrics.ts";
export { exitProcess, onShutdown, readEnvironment, type ShutdownSignal } from "./process.ts";
export { type Randomness, systemRandomness } from "./random.ts";
export { RateLimitedLog, type RateLimitOptions } from "./rate-limited-log.ts";
export { REDACTED, redactFields } from "./redact.ts";
export { type AuthorityRequest, repairAuthority } from "./request-authority.ts";
export { systemCode, withSystemCode } from "./system-code.ts";
export { readTlsFiles, type TlsFiles, type TlsMaterial, type TlsResult } from "./tls.ts";
