/**
 * What it is: the flags of a program's configuration fields, on the command line library.
 * Owns: nothing.
 * Refuses: nothing (the configuration judges values).
 * Does not do: read files or the environment.
 */
import { type ConfigFields, type ConfigSources, flagOf } from "@kv-group-bridge/protocol";
import { type Command, Option } from "commander";

/** What a run of a service was asked on its command line. */
export interface ServiceFlags {
  readonly flags: ConfigSources["flags"];
  /** Path of the configuration file; undefined = none. */
  readonly configPath: string | undefined;
  /** Print the effective configuration and end. */
  readonly isPrintAsked: boolean;
}

/** One flag a field, and --config and --print-config. */
export function addConfigFlags(command: Command, fields: ConfigFields): void {
  command.option("--config <file>", "configuration file (JSON)");
  command.option("--print-config", "print the effective configuration, secrets masked, and end");
  for (const field of Object.values(fields)) {
    const value = field.form === "boolean" ? "" : " <value>";
    command.addOption(new Option(`--${flagOf(field)}${value}`, field.description));
  }
}

/** What was given. */
export function flagsOf(command: Command, fields: ConfigFields): ServiceFlags {
  const given = command.opts<Record<string, string | boolean | undefined>>();
  const flags: Record<string, string | boolean | undefined> = {};
  for (const field of Object.values(fields)) {
    const flag = flagOf(field);
    const value = given[new Option(`--${flag}`).attributeName()];
    if (value !== undefined) flags[flag] = value;
  }
  const path = given["config"];
  return {
    flags,
    configPath: typeof path === "string" ? path : undefined,
    isPrintAsked: given["printConfig"] === true,
  };
}
