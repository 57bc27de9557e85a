/**
 * What it is: the log: JSON lines by pino, every field through `redactFields`.
 * Owns: the destination's buffer, bounded; beyond the bound lines are lost and counted, nothing
 * waits.
 * Refuses: levels outside its list.
 * Does not do: decide what is worth a line, or keep time. Never call it per event: a line costs
 * microseconds.
 */
import { type DestinationStream, type Logger, destination as openDestination, pino } from "pino";
import { redactFields } from "./redact.ts";

/** From the most to the least talkative; "silent" writes nothing. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** One of `LOG_LEVELS`. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Named values of a line. Names say units; values are never prompts, token ids or secrets. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What components log with. `message` is a constant text; what varies goes into `fields`. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A log whose lines all carry `fields` too. */
  child(fields: LogFields): Log;
}

/** The process's log. */
export interface RootLog extends Log {
  /** Lines lost because the destination did not keep up. */
  lostLines(): number;
  /** Writes what is buffered, synchronously: before an exit. */
  flush(): void;
}

/** How to log. */
export interface LogOptions {
  readonly level: LogLevel;
  /** Gets one line a call, with its newline. Default: standard error, without blocking. */
  readonly destination?: { write(line: string): void };
}

/** What standard error may owe before lines are lost. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** A log to `options.destination`. Opens nothing but the standard error stream. */
export function createLogger(options: LogOptions): RootLog {
  if (options.destination !== undefined) {
    return rootLog(
      options.level,
      options.destination,
      () => 0,
      () => {},
    );
  }
  let lost = 0;
  const stream = openDestination({ dest: 2, sync: false, maxLength: MAX_BUFFERED_BYTES });
  stream.on("drop", () => {
    lost += 1;
  });
  return rootLog(
    options.level,
    stream,
    () => lost,
    () => stream.flushSync(),
  );
}

/** A log that writes nothing: for tests and for callers who do not care. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

function rootLog(
  level: LogLevel,
  stream: DestinationStream,
  lostLines: () => number,
  flush: () => void,
): RootLog {
  const options = {
    level,
    base: null,
    timestamp: true,
    messageKey: "msg",
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return { ...wrap(pino(options, stream)), lostLines, flush };
}

function wrap(logger: Logger): Log {
  const write = (level: "debug" | "info" | "warn" | "error") => {
    return (fields: LogFields, message: string): void => {
      if (logger.isLevelEnabled(level)) logger[level](redactFields(fields), message);
    };
  };
  return {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => wrap(logger.child(redactFields(fields))),
  };
}
