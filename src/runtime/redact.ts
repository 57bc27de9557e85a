/**
 * What it is: the second line of defence against prompts in logs; the first is that nobody logs
 * them.
 * Owns: the list of names that never reach a log, and the bounds of what one line may carry.
 * Refuses: values under those names at any depth, long lists of numbers under any name, and bytes;
 * each is replaced by a note, so that the line still tells what was tried.
 * Does not do: read texts: a message must not contain a prompt to begin with.
 */

/** Stands where a value was. */
export const REDACTED = "[redacted]";

/** Names, compared without case, `_` and `-`. */
const NAMES: ReadonlySet<string> = new Set([
  "token",
  "tokens",
  "tokenid",
  "tokenids",
  "lookaheadtokenids",
  "prompt",
  "prompts",
  "prompttokens",
  "prompttokenids",
  "seed",
  "cachesalt",
  "salt",
  "authorization",
  "cookie",
  "password",
  "secret",
  "privatekey",
]);

/** A longer list of numbers is taken for tokens. */
const MAX_NUMBERS = 16;
const MAX_DEPTH = 6;
const MAX_ENTRIES = 256;

/** Values that one line may still take. */
interface Budget {
  left: number;
}

/**
 * A copy of `fields` that is safe to log: plain JSON values, at most 6 levels and 256 values,
 * errors as type, message, code, stack and cause, bigints as decimal text. Never throws, also on
 * cycles and getters.
 */
export function redactFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  try {
    return redactNested(fields, 0, { left: MAX_ENTRIES });
  } catch {
    return { unreadable: true };
  }
}

/** A count named "tokens" is no prompt: single numbers and booleans pass. */
function isForbidden(name: string, value: unknown): boolean {
  if (value === undefined || value === null || typeof value === "boolean") return false;
  if (!NAMES.has(name.toLowerCase().replaceAll(/[_-]/g, ""))) return false;
  return typeof value !== "number";
}

function redactValue(value: unknown, depth: number, budget: Budget): unknown {
  switch (typeof value) {
    case "bigint":
      return value.toString();
    case "function":
    case "symbol":
      return `[${typeof value}]`;
    case "object":
      return value === null ? null : redactObject(value, depth, budget);
    default:
      return value;
  }
}

function redactObject(value: object, depth: number, budget: Budget): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[date]" : value.toISOString();
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    return `[${value.byteLength} bytes]`;
  }
  if (depth >= MAX_DEPTH) return "[deeper]";
  if (value instanceof Error) return describeError(value, depth, budget);
  if (Array.isArray(value)) return redactList(value, depth, budget);
  if (value instanceof Map || value instanceof Set) return `[${value.size} entries]`;
  return redactNested(value, depth, budget);
}

function redactNested(value: object, depth: number, budget: Budget): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) {
    if (budget.left-- <= 0) {
      out["more"] = true;
      break;
    }
    out[name] = isForbidden(name, inner) ? REDACTED : redactValue(inner, depth + 1, budget);
  }
  return out;
}

function redactList(list: readonly unknown[], depth: number, budget: Budget): unknown {
  const first = list.slice(0, MAX_NUMBERS + 1);
  const numbers = first.filter((entry) => typeof entry === "number" || typeof entry === "bigint");
  if (numbers.length > MAX_NUMBERS) return `[${list.length} numbers]`;
  const out: unknown[] = [];
  for (const entry of list) {
    if (budget.left-- <= 0) {
      out.push(`[${list.length - out.length} more]`);
      break;
    }
    out.push(redactValue(entry, depth + 1, budget));
  }
  return out;
}

/** Other fields of an error are left out: libraries put whole requests there. */
function describeError(error: Error, depth: number, budget: Budget): Record<string, unknown> {
  const out: Record<string, unknown> = { type: error.name, message: error.message };
  if ("code" in error && (typeof error.code === "string" || typeof error.code === "number")) {
    out["code"] = error.code;
  }
  if (error.stack !== undefined) out["stack"] = error.stack;
  if (error.cause !== undefined) out["cause"] = redactValue(error.cause, depth + 1, budget);
  return out;
}
