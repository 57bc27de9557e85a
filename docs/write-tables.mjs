// Rewrites what stands between <!-- generated:NAME --> and <!-- /generated --> (limits) and between
// <!-- config:NAME --> and <!-- /config --> (configuration) from the compiled code. Run it after a build:
//   node docs/write-tables.mjs
// A test compares the files with what this would write, so it has no other way to be run.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const compiled = (path) => import(pathToFileURL(join(root, path)).href);

/** The files that hold generated tables. */
export const FILES = ["README.md", "docs/protocol.md"];

function number(value, unit) {
  const mebi = 1024 * 1024;
  if (unit === "bytes" && value >= mebi && value % mebi === 0) {
    return `${value / mebi} Mi`;
  }
  return String(value).replace(/\B(?=(\d{3})+$)/g, " ");
}

async function limitsTable() {
  const { LIMITS } = await compiled("src/protocol/dist/limits.js");
  const rows = Object.entries(LIMITS).map(
    ([name, { value, unit, reason, atBound }]) =>
      `| \`${name}\` | ${number(value, unit)} ${unit} | ${reason} | ${atBound} |`,
  );
  return ["| limit | value | reason | at the bound |", "|---|---|---|---|", ...rows].join("\n");
}

/** The definition that a program's config.js exports: the one thing in it with fields and a prefix. */
function definitionIn(module) {
  return Object.values(module).find(
    (value) =>
      typeof value === "object" &&
      value !== null &&
      "environmentPrefix" in value &&
      "fields" in value,
  );
}

async function configTables() {
  const found = {};
  const { configTable } = await compiled("src/protocol/dist/config-field.js");
  for (const name of ["bridge", "gateway"]) {
    const definition = definitionIn(await compiled(`src/${name}/dist/config.js`));
    if (definition !== undefined) found[name] = configTable(definition).trim();
  }
  return found;
}

/** The table with its columns padded, as the formatter wants it. */
function aligned(table) {
  const rows = table
    .trim()
    .split("\n")
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    );
  const isRule = (cell) => /^-+$/.test(cell);
  const widths = rows[0].map((_, column) =>
    Math.max(3, ...rows.map((row) => (isRule(row[column]) ? 0 : [...row[column]].length))),
  );
  const line = (row) =>
    row
      .map((cell, column) =>
        isRule(cell)
          ? "-".repeat(widths[column])
          : cell + " ".repeat(widths[column] - [...cell].length),
      )
      .join(" | ");
  return rows.map((row) => `| ${line(row)} |`).join("\n");
}

/** The text of one file with every generated table current. */
export async function withCurrentTables(text) {
  const generated = { limits: await limitsTable() };
  const config = await configTables();
  const fill = (kind, tables, end) => (whole, name) => {
    const table = tables[name];
    return table === undefined
      ? whole
      : `<!-- ${kind}:${name} -->\n${aligned(table)}\n<!-- /${end} -->`;
  };
  return text
    .replace(
      /<!-- generated:(\w+) -->[\s\S]*?<!-- \/generated -->/g,
      fill("generated", generated, "generated"),
    )
    .replace(/<!-- config:(\w+) -->[\s\S]*?<!-- \/config -->/g, fill("config", config, "config"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const file of FILES) {
    const path = join(root, file);
    if (!existsSync(path)) continue;
    const text = readFileSync(path, "utf8");
    const current = await withCurrentTables(text);
    if (current === text) continue;
    writeFileSync(path, current);
    console.log(`${file}: tables rewritten`);
  }
}
