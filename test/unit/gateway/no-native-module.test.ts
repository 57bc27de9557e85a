import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

// Goal: the gateway installs everywhere without a compiler.
// Method: walk package.json files from the gateway through node_modules, as Node resolves them.

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../../..");

interface Manifest {
  readonly name?: string;
  readonly gypfile?: boolean;
  readonly binary?: unknown;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

function parseManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

/** The folder of a dependency as Node finds it from `folder`; undefined = not installed. */
function resolve(folder: string, name: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const candidate = join(at, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) return realpathSync(candidate);
    if (dirname(at) === at) return undefined;
  }
}

function walk(start: string): ReadonlyMap<string, Manifest> {
  const found = new Map<string, Manifest>();
  const open = [realpathSync(start)];
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    if (found.has(folder)) continue;
    const manifest = parseManifest(folder);
    found.set(folder, manifest);
    const names = Object.keys({
      ...manifest.dependencies,
      ...manifest.optionalDependencies,
      ...manifest.peerDependencies,
    });
    for (const name of names) {
      const next = resolve(folder, name);
      if (next !== undefined) open.push(next);
      else if (manifest.dependencies?.[name] !== undefined) found.set(`missing ${name}`, {});
    }
  }
  return found;
}

/** What shows that a package is native or builds something; "" = nothing. */
function nativeTrace(folder: string, manifest: Manifest): string {
  if (folder.startsWith("missing ")) return "is not installed";
  if (manifest.gypfile === true || manifest.binary !== undefined) return "names a native build";
  const install = ["preinstall", "install", "postinstall"].filter(
    (name) => manifest.scripts?.[name],
  );
  if (install.length > 0) return `runs ${install.join(", ")}`;
  for (const entry of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (/(^|[/\\])node_modules[/\\]/.test(entry)) continue;
    const name = entry.split(/[/\\]/).at(-1) ?? "";
    if (name === "binding.gyp" || name === "prebuilds" || name.endsWith(".node")) return entry;
  }
  return "";
}

test("nothing that the gateway depends on is native, builds or runs at install", () => {
  const packages = walk(join(ROOT, "src/gateway"));
  const traces = [...packages].map(([folder, manifest]) => [folder, nativeTrace(folder, manifest)]);
  expect(traces.filter(([, trace]) => trace !== "")).toEqual([]);
  const names = [...packages.values()].map((manifest) => manifest.name);
  expect(names).toContain("@connectrpc/connect-node");
  expect(names).toContain("pino");
  expect(names).not.toContain("zeromq");
  expect(names).not.toContain("@kv-group-bridge/bridge");
});

test("the walk sees a native module where there is one", () => {
  const packages = walk(join(ROOT, "src/bridge"));
  const traces = [...packages].map(([folder, manifest]) => nativeTrace(folder, manifest));
  expect(traces.filter((trace) => trace !== "")).not.toEqual([]);
});

test("every package that the gateway's code imports is one of its dependencies", () => {
  const folder = join(ROOT, "src/gateway");
  const allowed = new Set(Object.keys(parseManifest(folder).dependencies ?? {}));
  const strange: string[] = [];
  for (const file of readdirSync(folder)) {
    if (!file.endsWith(".ts")) continue;
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, specifier = ""] of text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)) {
      if (specifier.startsWith("./") || specifier.startsWith("node:")) continue;
      const [scope = "", name = ""] = specifier.split("/");
      const dependency = scope.startsWith("@") ? `${scope}/${name}` : scope;
      if (!allowed.has(dependency)) strange.push(`${file}: ${specifier}`);
    }
  }
  expect(strange).toEqual([]);
});
