/**
 * What it is: the repository's files as texts.
 * Owns: what is left out: installed, built and generated files, and binaries.
 * Refuses: nothing.
 * Does not do: judge.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type SourceFile, sourceFile } from "./source-text.ts";

/** The repository's root. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

const SKIPPED: ReadonlySet<string> = new Set([
  ".git",
  ".cache",
  "node_modules",
  "dist",
  "coverage",
  "scratch",
]);
const BINARY = /\.(?:gz|png|jpg|tsbuildinfo|node|ico)$/;

/** Paths of all files below a folder, relative to the root, sorted. */
export function filesBelow(folder: string): readonly string[] {
  const found: string[] = [];
  const walk = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (SKIPPED.has(entry.name)) continue;
      const inner = join(path, entry.name);
      if (entry.isDirectory()) walk(inner);
      else if (entry.isFile()) found.push(relative(ROOT, inner).split(sep).join("/"));
    }
  };
  if (existsSync(join(ROOT, folder))) walk(join(ROOT, folder));
  return found.sort();
}

/** The text of a file. */
export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** True for a file or folder of the repository. */
export function isInTree(path: string): boolean {
  return existsSync(join(ROOT, path));
}

/** Every TypeScript file of the product. */
export function productSources(): readonly SourceFile[] {
  return filesBelow("src")
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".d.ts"))
    .map((path) => sourceFile(path, readText(path)));
}

/** Every text of the repository that people wrote. */
export function writtenTexts(): readonly { readonly path: string; readonly text: string }[] {
  return filesBelow(".")
    .filter((path) => !BINARY.test(path) && !path.startsWith("gen/es/"))
    .map((path) => ({ path, text: readText(path) }));
}
