/**
 * What it is: the seam to the process: environment, signals, exit.
 * Owns: the two signal handlers while they are installed.
 * Refuses: nothing.
 * Does not do: parse what it reads (config.ts does), or shut anything down itself.
 */

/** The environment as it is now: a copy, so that later changes are not seen. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  return { ...process.env };
}

/** The signals that ask a process to end. */
export type ShutdownSignal = "SIGTERM" | "SIGINT";

/**
 * The first SIGTERM or SIGINT calls `callback`; a second one, of either kind, ends the process at
 * once with 128 + the signal's number, as a shell would say it. Returns a function that removes the
 * handlers.
 */
export function onShutdown(callback: (signal: ShutdownSignal) => void): () => void {
  let isAsked = false;
  const handle = (signal: ShutdownSignal): void => {
    if (isAsked) process.exit(signal === "SIGTERM" ? 143 : 130);
    isAsked = true;
    callback(signal);
  };
  const onTerm = (): void => handle("SIGTERM");
  const onInt = (): void => handle("SIGINT");
  process.on("SIGTERM", onTerm);
  process.on("SIGINT", onInt);
  return () => {
    process.removeListener("SIGTERM", onTerm);
    process.removeListener("SIGINT", onInt);
  };
}

/** Ends the process now. Flush the log first. */
export function exitProcess(code: number): never {
  process.exit(code);
}
