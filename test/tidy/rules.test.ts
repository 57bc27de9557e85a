// The judges are judged: each rule is fed a text that breaks it, and one like it that does not.
import { describe, expect, test } from "vitest";
import {
  casts,
  citesOnly,
  exportsByName,
  fileIsShort,
  functionLengths,
  functionsAreShort,
  hasHeader,
  hasNoAny,
  hasNoNonNull,
  hasNoSuppression,
  importCycles,
  importsInDirection,
  isWithoutAmbient,
  type Rule,
  throwsNoBareError,
  workplaceWords,
} from "./rules.ts";
import { sourceFile } from "./source-text.ts";

const HEADER = "/**\n * What it is: a.\n * Owns: b.\n * Refuses: c.\n * Does not do: d.\n */\n";

interface Planted {
  readonly name: string;
  readonly rule: Rule;
  readonly bad: readonly string[];
  readonly good: readonly string[];
  readonly path?: string;
}

const PLANTED: readonly Planted[] = [
  {
    name: "file length",
    rule: fileIsShort,
    bad: ["a;\n".repeat(401)],
    good: ["a;\n".repeat(400)],
  },
  {
    name: "header",
    rule: hasHeader,
    bad: ["export const a = 1;\n", HEADER.replace("Refuses", "Takes")],
    good: [HEADER, `#!/usr/bin/env node\n${HEADER}`],
  },
  {
    name: "any",
    rule: hasNoAny,
    bad: ["let a: any;", "f<any>()", "x as any", "const a: any[] = []", "type A = B | any;"],
    good: ["// any of them", 'const a = "any"; b(any)', "const many: number = 1;"],
  },
  {
    name: "non-null assertion",
    rule: hasNoNonNull,
    bad: ["a!.b", "f()!", "a[0]!", "private a!: string;"],
    good: ["a !== b", "!a", "a != b", "if (!a) b();", "// a!", '"a!"'],
  },
  {
    name: "suppressed diagnostics",
    rule: hasNoSuppression,
    bad: [
      "// @ts-ignore",
      "/* eslint-disable */",
      "// biome-ignore lint: x",
      "// oxlint-disable-next-line",
    ],
    good: ['const a = "@ts-ignore";', "// a comment"],
  },
  {
    name: "cast",
    rule: casts,
    bad: ["const a = b as number;", "f(a as B[])", "x as { a: 1 }"],
    good: [
      "const a = [1] as const;",
      'import { a as b } from "c";',
      'import * as a from "b";',
      "// as is",
    ],
  },
  {
    name: "ambient",
    rule: isWithoutAmbient,
    bad: [
      "Date.now()",
      "setTimeout(f, 1)",
      "process.env.A",
      "process.exit(1)",
      "process.exitCode = 1",
      "Math.random()",
      "new Date()",
    ],
    good: ["clock.nowMs()", "// Date.now()", "processes.envelope"],
  },
  {
    name: "ambient in the command line",
    rule: isWithoutAmbient,
    path: "src/cli/main.ts",
    bad: ["process.env.A", "process.exit(1)"],
    good: ["process.exitCode = 1"],
  },
  {
    name: "ambient in the runtime",
    rule: isWithoutAmbient,
    path: "src/runtime/clock.ts",
    bad: [],
    good: ["Date.now()"],
  },
  {
    name: "bare error",
    rule: throwsNoBareError,
    bad: ['throw new Error("a")', 'reject(new TypeError("a"))'],
    good: ['throw new KvEventsError("trace_invalid", "a")', "class A extends Error {}"],
  },
  {
    name: "export form",
    rule: exportsByName,
    bad: ['export * from "./a.ts";', "export default 1;"],
    good: ["export const a = 1;", 'export { a } from "./a.ts";'],
  },
  {
    name: "citation",
    rule: citesOnly((path) => path === "docs/protocol.md"),
    bad: ["// see notes.md", "/* rule 5 (§3.3) */"],
    good: ["// see docs/protocol.md", 'const a = "notes.md";'],
  },
  {
    name: "import direction from the bridge",
    rule: importsInDirection,
    path: "src/bridge/a.ts",
    bad: [
      'import { a } from "@kv-group-bridge/gateway";',
      'import { a } from "pino";',
      'import type { A } from "../gateway/a.ts";',
      'import { a } from "./b.js";',
      'const a = await import("left-pad");',
    ],
    good: ['import { z } from "zod";', 'import { a } from "./b.ts";', 'import a from "node:net";'],
  },
  {
    name: "import direction from the index",
    rule: importsInDirection,
    path: "src/prefix-index/a.ts",
    bad: [
      'import { a } from "@kv-group-bridge/protocol";',
      'import { createHash } from "node:crypto";',
      'import { invariant, systemClock } from "@kv-group-bridge/runtime";',
    ],
    good: ['import { invariant } from "@kv-group-bridge/runtime";'],
  },
  {
    name: "function length",
    rule: functionsAreShort,
    bad: [
      `function f(): void {\n${"  a();\n".repeat(69)}}\n`,
      `class A {\n  m(a: { b: 1 }): void {\n${"    a();\n".repeat(69)}  }\n}\n`,
      `const f = (a: number) => {\n${"  a();\n".repeat(69)}};\n`,
    ],
    good: [
      `function f(): void {\n${"  a();\n".repeat(68)}}\n`,
      `class A {\n${"  a = 1;\n".repeat(100)}}\n`,
      `const a = {\n${"  b: 1,\n".repeat(100)}};\n`,
    ],
  },
];

describe.each(PLANTED)("the rule of $name", ({ rule, bad, good, path = "src/bridge/a.ts" }) => {
  test("catches what is planted", () => {
    for (const text of bad) expect(rule(sourceFile(path, text)), text).not.toEqual([]);
  });

  test("lets sound texts pass", () => {
    for (const text of good) expect(rule(sourceFile(path, text)), text).toEqual([]);
  });
});

test("a circle of three files is found, a tree is not", () => {
  const file = (name: string, target: string) =>
    sourceFile(`src/bridge/${name}.ts`, `import type { A } from "./${target}.ts";\n`);
  const circle = [file("a", "b"), file("b", "c"), file("c", "a")];
  expect(importCycles(circle)).toHaveLength(1);
  expect(importCycles(circle.slice(0, 2))).toEqual([]);
});

test("control blocks are no functions, nested functions are counted apart", () => {
  const text =
    "function f(a: number): void {\n  for (let i = 0; i < a; i++) {\n    g(() => {\n      h();\n    });\n  }\n}\n";
  const lengths = functionLengths(sourceFile("src/a.ts", text));
  expect(lengths.map(({ lines }) => lines)).toEqual([3, 7]);
});

test("braces in strings, templates, comments and regular expressions do not count", () => {
  const text =
    'function f(): void {\n  a("}"); b(`}$' +
    '{c({ d: "`" })}}`); /* } */ e(/[/}]/); // }\n}\nfunction g() {\n}\n';
  const lengths = functionLengths(sourceFile("src/a.ts", text));
  expect(lengths.map(({ lines }) => lines)).toEqual([3, 2]);
});

test("paths of a machine and words of a workplace are found, others are not", () => {
  const home = ["", "home", "me", "a"].join("/");
  const bad = [
    home,
    `see ${["", "tmp", "x"].join("/")}`,
    "written by a sub-agent",
    "../shared/traces",
  ];
  for (const text of bad) expect(workplaceWords("a", text), text).not.toEqual([]);
  const good = [
    "an HTTP/2 session",
    "/var/run/kvgroup",
    "the network/work/place",
    "https://registry.npmjs.org/a",
  ];
  for (const text of good) expect(workplaceWords("a", text), text).toEqual([]);
});
