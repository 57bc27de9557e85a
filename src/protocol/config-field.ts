/**
 * What it is: one definition per configuration value, and what follows from it: flag, variable,
 * table row.
 * Owns: the rule that makes flag and variable from the dotted name.
 * Refuses: nothing.
 * Does not do: read or merge sources (config-source.ts does), or know a validator: `type` is any
 * object with zod's `safeParse`.
 */

/** How text (a flag, a variable) becomes a value; a file has values already. */
export type FieldForm = "text" | "number" | "boolean" | "numbers" | "json";

/** The part of zod that is used. Messages must not contain the value. */
export interface FieldType<T> {
  safeParse(
    value: unknown,
  ):
    | { readonly success: true; readonly data: T }
    | { readonly success: false; readonly error: { readonly issues: readonly FieldIssue[] } };
}

/** Why a value is refused, and where inside it. */
export interface FieldIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** One configuration value. */
export interface ConfigField<T> {
  /** Dotted path in the file: words of a-z, 0-9 and _. */
  readonly name: string;
  readonly form: FieldForm;
  readonly type: FieldType<T>;
  /** The value when no source has one. */
  readonly fallback: T;
  /** "" = none. */
  readonly unit: string;
  /** One sentence for an operator. */
  readonly description: string;
  /** True = never printed. */
  readonly isSecret?: boolean;
}

/** All fields of a program, by the name that code uses. */
export type ConfigFields = Readonly<Record<string, ConfigField<unknown>>>;

/** The value types of `F`. */
export type ConfigValues<F extends ConfigFields> = {
  readonly [K in keyof F]: F[K] extends ConfigField<infer T> ? T : never;
};

/** A program's configuration: its fields and the prefix of its variables ("KVGROUP_BRIDGE_"). */
export interface ConfigDefinition<F extends ConfigFields> {
  readonly environmentPrefix: string;
  readonly fields: F;
}

/**
 * The field as given; its value type comes from `type` alone, so that `fallback` cannot widen it.
 */
export function configField<T>(
  field: Omit<ConfigField<T>, "fallback"> & { readonly fallback: NoInfer<T> },
): ConfigField<T> {
  return field;
}

/** "listen.tls.cert" → "listen-tls-cert"; given on the command line after "--". */
export function flagOf(field: { readonly name: string }): string {
  return field.name.replaceAll(/[._]/g, "-");
}

/** "listen.tls.cert" → prefix + "LISTEN_TLS_CERT". */
export function variableOf(prefix: string, field: { readonly name: string }): string {
  return prefix + field.name.replaceAll(".", "_").toUpperCase();
}

/**
 * The options of `util.parseArgs` for all fields; booleans also take "--no-…" with `allowNegative`.
 */
export function flagOptions(fields: ConfigFields): Record<string, { type: "string" | "boolean" }> {
  const options: Record<string, { type: "string" | "boolean" }> = {};
  for (const field of Object.values(fields)) {
    options[flagOf(field)] = { type: field.form === "boolean" ? "boolean" : "string" };
  }
  return options;
}

/** A Markdown table of all fields in their order of definition, with a newline at its end. */
export function configTable(definition: ConfigDefinition<ConfigFields>): string {
  const rows = [
    "| name | flag | variable | default | unit | meaning |",
    "| --- | --- | --- | --- | --- | --- |",
  ];
  for (const field of Object.values(definition.fields)) {
    const cells = [
      `\`${field.name}\``,
      `\`--${flagOf(field)}\``,
      `\`${variableOf(definition.environmentPrefix, field)}\``,
      field.fallback === undefined ? "" : `\`${JSON.stringify(field.fallback)}\``,
      field.unit,
      field.description,
    ];
    rows.push(`| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`);
  }
  return `${rows.join("\n")}\n`;
}
