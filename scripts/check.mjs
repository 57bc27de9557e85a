// Format, lint, schema and generated code. Prints one line a step; exit code 1 if any failed.
import { spawnSync } from "node:child_process";

const bin = (name) => `node_modules/.bin/${name}`;
const run = (command, args) => spawnSync(command, args, { stdio: "inherit" }).status === 0;
const quiet = (command, args) => spawnSync(command, args, { encoding: "utf8" });

/** The branch against which the schema must stay compatible; absent in a repository without one. */
function mainRef() {
  for (const ref of ["origin/main", "main"]) {
    const found = quiet("git", ["cat-file", "-e", `${ref}:buf.yaml`]);
    if (found.status === 0) return ref;
  }
  return undefined;
}

function isGeneratedCodeCurrent() {
  if (!run(bin("buf"), ["generate"])) return false;
  const changed = quiet("git", ["status", "--porcelain", "--", "gen"]).stdout.trim();
  if (changed !== "") console.error(`gen/ differs from what buf generates:\n${changed}`);
  return changed === "";
}

function isSchemaCompatible() {
  const ref = mainRef();
  if (ref === undefined) {
    console.log("(no main branch with a schema yet: nothing to be compatible with)");
    return true;
  }
  return run(bin("buf"), ["breaking", "--against", `.git#ref=${ref}`]);
}

const steps = [
  ["format and import order", () => run(bin("biome"), ["ci", "--error-on-warnings", "."])],
  ["types", () => run(bin("tsc"), ["-b"])],
  ["lint with types", () => run(bin("oxlint"), ["--type-aware", "--deny-warnings", "src", "test"])],
  ["buf lint", () => run(bin("buf"), ["lint"])],
  ["buf format", () => run(bin("buf"), ["format", "-d", "--exit-code", "proto"])],
  ["buf breaking", isSchemaCompatible],
  ["generated code", isGeneratedCodeCurrent],
];
let failed = 0;
for (const [name, step] of steps) {
  const isGood = step();
  console.log(`check ${name}: ${isGood ? "ok" : "FAILED"}`);
  if (!isGood) failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
