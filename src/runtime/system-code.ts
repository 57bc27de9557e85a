/**
 * What it is: what the system calls its refusal ("EADDRINUSE"), for messages to people.
 * Owns: nothing.
 * Refuses: nothing; an error without a code has none.
 * Does not do: explain codes, or decide by them.
 */

/** The code of a system's error; undefined = it has none. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** `message`, with the system's code in brackets where there is one. */
export function withSystemCode(message: string, error: unknown): string {
  const code = systemCode(error);
  return code === undefined ? message : `${message} (${code})`;
}
