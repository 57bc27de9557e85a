import { describe, expect, test } from "vitest";
import {
  ASKED_FILE_LINES,
  casts,
  citesOnly,
  exportsByName,
  fileIsShort,
  functionsAreShort,
  hasHeader,
  hasNoAny,
  hasNoNonNull,
  hasNoSuppression,
  importCycles,
  importsInDirection,
  importsOf,
  isWithoutAmbient,
  lineCount,
  packageOf,
  type Rule,
  throwsNoBareError,
  type Violation,
  workplaceWords,
} from "./rules.ts";
import { sourceFile } from "./source-text.ts";
import { filesBelow, isInTree, productSources, readText, writtenTexts } from "./tree.ts";

/** Numbers that may only fall. */
interface Ratchets {
  readonly filesOver300Lines: number;
  readonly functionsOver70Lines: number;
  readonly casts: Readonly<Record<string, number>>;
}

const ratchets = JSON.parse(readText("test/tidy/ratchets.json")) as Ratchets;
const sources = productSources();

function broken(rule: Rule): readonly string[] {
  return sources.flatMap(rule).map(text);
}

function text(violation: Violation): string {
  return `${violation.where}: ${violation.what}`;
}

test("there is a product to check", () => {
  expect(sources.length).toBeGreaterThan(60);
});

describe("every file of src", () => {
  test("has at most 400 lines", () => {
    const long = sources.filter((file) => lineCount(file.text) > ASKED_FILE_LINES);
    for (const file of long)
      console.info(`${file.path}: ${lineCount(file.text)} lines, 300 are asked`);
    expect(broken(fileIsShort)).toEqual([]);
    expect(long.length).toBeLessThanOrEqual(ratchets.filesOver300Lines);
  });

  test("has a header that says what it is, owns, refuses and does not do", () => {
    expect(broken(hasHeader)).toEqual([]);
  });

  test("has no any, no non-null assertion and no suppressed diagnostics", () => {
    expect(broken(hasNoAny)).toEqual([]);
    expect(broken(hasNoNonNull)).toEqual([]);
    expect(broken(hasNoSuppression)).toEqual([]);
  });

  test("takes time, randomness and the process from the runtime only", () => {
    expect(broken(isWithoutAmbient)).toEqual([]);
  });

  test("throws typed errors only", () => {
    expect(broken(throwsNoBareError)).toEqual([]);
  });

  test("exports by name", () => {
    expect(broken(exportsByName)).toEqual([]);
  });

  test("cites only files of this repository", () => {
    expect(broken(citesOnly(isInTree))).toEqual([]);
  });
});

describe("ratchets", () => {
  test("functions over 70 lines only become fewer", () => {
    const long = broken(functionsAreShort);
    for (const line of long) console.info(`${line}, 70 are asked`);
    expect(long.length).toBeLessThanOrEqual(ratchets.functionsOver70Lines);
  });

  test.each(Object.entries(ratchets.casts))("casts in %s only become fewer", (name, most) => {
    const found = sources.filter((file) => packageOf(file.path) === name).flatMap(casts);
    expect(found.length, found.map(text).join("\n")).toBeLessThanOrEqual(most);
  });

  test("every package has a ratchet", () => {
    const packages = new Set(sources.map((file) => packageOf(file.path)));
    expect(Object.keys(ratchets.casts).sort()).toEqual([...packages].sort());
  });
});

describe("imports", () => {
  test("go in one direction between packages", () => {
    expect(broken(importsInDirection)).toEqual([]);
  });

  test("make no circle between files", () => {
    expect(importCycles(sources)).toEqual([]);
  });

  test("are what each package.json declares, no more and no less", () => {
    for (const manifest of filesBelow("src").filter((path) => path.endsWith("/package.json"))) {
      const folder = packageOf(manifest);
      const imported = sources
        .filter((file) => packageOf(file.path) === folder)
        .flatMap(importsOf)
        .filter((name) => !name.startsWith(".") && !name.startsWith("node:"))
        .map(packageOf);
      const { dependencies = {} } = JSON.parse(readText(manifest)) as {
        dependencies?: Record<string, string>;
      };
      expect([...new Set(imported)].sort(), manifest).toEqual(Object.keys(dependencies).sort());
    }
  });

  test("bring no native module into the gateway", () => {
    const seen = new Set<string>();
    const visit = (name: string): void => {
      if (seen.has(name) || !isInTree(`node_modules/${name}/package.json`)) return;
      seen.add(name);
      const manifest = JSON.parse(readText(`node_modules/${name}/package.json`)) as {
        dependencies?: Record<string, string>;
        scripts?: Record<string, string>;
        gypfile?: boolean;
      };
      const isNative = manifest.gypfile === true || manifest.scripts?.install !== undefined;
      expect(isNative, `${name} is native`).toBe(false);
      for (const inner of Object.keys(manifest.dependencies ?? {})) visit(inner);
    };
    visit("@kv-group-bridge/gateway");
    expect(seen.has("@connectrpc/connect-node")).toBe(true);
    expect(seen.has("zeromq")).toBe(false);
  });
});

describe("the tree", () => {
  test("names no path of a machine and no word of a workplace", () => {
    const found = writtenTexts()
      .filter(({ path }) => !path.startsWith("test/tidy/"))
      .flatMap(({ path, text: content }) => workplaceWords(path, content));
    expect(found.map(text)).toEqual([]);
  });

  test("suppresses no diagnostics in tests, scripts and docs either", () => {
    const found = ["test", "scripts", "docs"]
      .flatMap(filesBelow)
      .filter((path) => /\.(?:ts|mjs|js)$/.test(path))
      .flatMap((path) => hasNoSuppression(sourceFile(path, readText(path))));
    expect(found.map(text)).toEqual([]);
  });

  test("resolves every package from the public registry", () => {
    const hosts = [...readText("package-lock.json").matchAll(/"resolved": "(https?:\/\/[^/"]+)/g)];
    for (const host of hosts) expect(host[1]).toBe("https://registry.npmjs.org");
  });

  test("says of every fixture where it comes from, and of no other", () => {
    const provenance = readText("test/fixtures/PROVENANCE.md");
    const rows = [...provenance.matchAll(/^\| `?([\w./-]+\.[\w.]+)`? +\|/gm)].map(
      (row) => row[1] ?? "",
    );
    const files = filesBelow("test/fixtures")
      .map((path) => path.slice("test/fixtures/".length))
      .filter((path) => path !== "PROVENANCE.md");
    expect([...rows].sort()).toEqual([...files].sort());
  });
});
