/**
 * What it is: configuration from its three sources: file (JSON) < environment < flags, over the
 * defaults.
 * Owns: nothing; it is a pure function of what it is given.
 * Refuses: unknown names in every source, by name and with the nearest known one; values that their
 * field's type refuses. All problems are told at once; values never stand in a message.
 * Does not do: read files or the environment, or judge fields together (each program's config.ts
 * does).
 */
import {
  type ConfigDefinition,
  type ConfigField,
  type ConfigFields,
  type ConfigValues,
  flagOf,
  variableOf,
} from "./config-field.ts";
import { KvEventsError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";
import { isServiceLink } from "./service-links.ts";

/** What a program was given. */
export interface ConfigSources {
  /** Text of the file; undefined = no file. */
  readonly fileText?: string | undefined;
  /** The whole environment; only names with the program's prefix are looked at. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Flags by name without "--". */
  readonly flags: Readonly<Record<string, string | boolean | undefined>>;
}

/** Where a value came from. */
export type ConfigOrigin = "default" | "file" | "environment" | "flag";

/** The effective configuration. */
export interface MergedConfig<F extends ConfigFields> {
  readonly values: ConfigValues<F>;
  readonly origins: { readonly [K in keyof F]: ConfigOrigin };
}

/** One value as a source has it; `text` values still need their form. */
interface Given {
  readonly value: unknown;
  readonly isText: boolean;
  readonly origin: ConfigOrigin;
  /** How the operator wrote its name. */
  readonly label: string;
}

/** More problems than this are counted, not listed. */
const MAX_PROBLEMS = 10;

/** Merges, checks and types. Fails with `config_invalid`, which lists what is wrong. */
export function mergeConfig<F extends ConfigFields>(
  sources: ConfigSources,
  definition: ConfigDefinition<F>,
): MergedConfig<F> {
  const problems: string[] = [];
  const given = new Map<string, Given>();
  readFile(sources.fileText, definition.fields, given, problems);
  readVariables(sources.environment, definition, given, problems);
  readFlags(sources.flags, definition.fields, given, problems);
  const merged = parseValues(definition.fields, given, problems);
  if (problems.length > 0) throw configInvalid(problems);
  return merged;
}

/** The error for a list of problems, each a sentence without a full stop. */
export function configInvalid(problems: readonly string[]): KvEventsError {
  const shown = problems.slice(0, MAX_PROBLEMS);
  if (problems.length > shown.length) shown.push(`${problems.length - shown.length} more`);
  return new KvEventsError("config_invalid", `configuration: ${shown.join("; ")}`);
}

/**
 * The effective configuration as JSON text, in the shape of a file. Secrets that are set are
 * masked; what is not set is left out.
 */
export function printConfig<F extends ConfigFields>(fields: F, values: ConfigValues<F>): string {
  const root: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(fields)) {
    const value: unknown = values[key];
    if (value === undefined) continue;
    setPath(root, field.name.split("."), field.isSecret === true ? "***" : value);
  }
  return JSON.stringify(root, undefined, 2);
}

function setPath(root: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [first, ...rest] = path;
  if (first === undefined) return;
  if (rest.length === 0) {
    root[first] = value;
    return;
  }
  const inner = root[first];
  const next: Record<string, unknown> = isObject(inner) ? inner : {};
  root[first] = next;
  setPath(next, rest, value);
}

function readFile(
  text: string | undefined,
  fields: ConfigFields,
  given: Map<string, Given>,
  problems: string[],
): void {
  if (text === undefined) return;
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch (error) {
    // The parser's message quotes the text, which may hold a secret: only the place is told.
    problems.push(`the file is not JSON${placeOf(error, text)}`);
    return;
  }
  if (!isObject(root)) problems.push("the file is not a JSON object");
  else readObject(root, "", Object.values(fields), given, problems);
}

function readObject(
  object: Readonly<Record<string, unknown>>,
  prefix: string,
  fields: readonly ConfigField<unknown>[],
  given: Map<string, Given>,
  problems: string[],
): void {
  for (const [key, value] of Object.entries(object)) {
    const name = prefix + key;
    if (fields.some((field) => field.name === name)) {
      given.set(name, { value, isText: false, origin: "file", label: name });
    } else if (!fields.some((field) => field.name.startsWith(`${name}.`))) {
      problems.push(
        unknownName(
          "key",
          name,
          fields.map((field) => field.name),
        ),
      );
    } else if (isObject(value)) {
      readObject(value, `${name}.`, fields, given, problems);
    } else {
      problems.push(`${name} is not an object`);
    }
  }
}

function readVariables(
  environment: ConfigSources["environment"],
  definition: ConfigDefinition<ConfigFields>,
  given: Map<string, Given>,
  problems: string[],
): void {
  const known = new Map<string, string>();
  for (const field of Object.values(definition.fields)) {
    known.set(variableOf(definition.environmentPrefix, field), field.name);
  }
  for (const [variable, value] of Object.entries(environment)) {
    if (value === undefined || !variable.startsWith(definition.environmentPrefix)) continue;
    if (isServiceLink(variable, environment)) continue;
    const name = known.get(variable);
    if (name === undefined) problems.push(unknownName("variable", variable, [...known.keys()]));
    else given.set(name, { value, isText: true, origin: "environment", label: variable });
  }
}

function readFlags(
  flags: ConfigSources["flags"],
  fields: ConfigFields,
  given: Map<string, Given>,
  problems: string[],
): void {
  const known = new Map(Object.values(fields).map((field) => [flagOf(field), field.name]));
  for (const [flag, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const name = known.get(flag);
    if (name === undefined) {
      problems.push(
        unknownName(
          "flag",
          `--${flag}`,
          [...known.keys()].map((key) => `--${key}`),
        ),
      );
    } else {
      given.set(name, {
        value,
        isText: typeof value === "string",
        origin: "flag",
        label: `--${flag}`,
      });
    }
  }
}

function parseValues<F extends ConfigFields>(
  fields: F,
  given: ReadonlyMap<string, Given>,
  problems: string[],
): MergedConfig<F> {
  const values: Record<string, unknown> = {};
  const origins: Record<string, ConfigOrigin> = {};
  for (const [key, field] of Object.entries(fields)) {
    const found = given.get(field.name);
    origins[key] = found?.origin ?? "default";
    values[key] = found === undefined ? field.fallback : parseValue(field, found, problems);
  }
  return { values, origins } as MergedConfig<F>;
}

function parseValue(field: ConfigField<unknown>, given: Given, problems: string[]): unknown {
  const label = given.origin === "file" ? given.label : `${field.name} (${given.label})`;
  const converted = given.isText ? fromText(field, String(given.value)) : given;
  if ("problem" in converted) {
    problems.push(`${label}: ${converted.problem}`);
    return undefined;
  }
  const parsed = field.type.safeParse(converted.value);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues) {
    const at = issue.path.map((part) =>
      typeof part === "number" ? `[${part}]` : `.${String(part)}`,
    );
    problems.push(`${label}${at.join("")}: ${issue.message}`);
  }
  return undefined;
}

/**
 * The value that a text stands for. Spaces are not trimmed: they are a mistake worth hearing of.
 */
function fromText(
  field: ConfigField<unknown>,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  switch (field.form) {
    case "text":
      return { value: text };
    case "number":
      return isNumberText(text) ? { value: Number(text) } : { problem: "not a whole number" };
    case "boolean":
      if (text === "true") return { value: true };
      return text === "false" ? { value: false } : { problem: "neither true nor false" };
    case "numbers": {
      const parts = text.split(",");
      if (!parts.every(isNumberText)) return { problem: "not whole numbers with commas between" };
      return { value: parts.map(Number) };
    }
    case "json":
      try {
        return { value: JSON.parse(text) };
      } catch (error) {
        return { problem: `not JSON${placeOf(error, text)}` };
      }
  }
}

function isNumberText(text: string): boolean {
  return /^-?[0-9]{1,15}$/.test(text);
}

function unknownName(what: string, name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`;
  return `unknown ${what} ${name.slice(0, 100)}${hint}`;
}

/** " (line l, column c)" of a syntax error, or "" when it does not say. */
function placeOf(error: unknown, text: string): string {
  const found = error instanceof SyntaxError ? /position (\d+)/.exec(error.message) : null;
  if (found === null) return "";
  const before = text.slice(0, Number(found[1])).split("\n");
  return ` (line ${before.length}, column ${(before.at(-1) ?? "").length + 1})`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
