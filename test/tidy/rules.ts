/**
 * What it is: the rules of the house that a text can be held against, one function each: file in, violations
 * out. A self-test feeds each of them a bad text.
 * Owns: the lists of what is banned, and what each package may import.
 * Refuses: nothing.
 * Does not do: read files (tree.ts does) or count ratchets (ratchets.json holds the numbers).
 */
import { posix } from "node:path";
import { lineOf, type SourceFile } from "./source-text.ts";

/** One broken rule. */
export interface Violation {
  readonly rule: string;
  readonly where: string;
  readonly what: string;
}

/** A rule over one file. */
export type Rule = (file: SourceFile) => readonly Violation[];

function find(rule: string, file: SourceFile, view: string, pattern: RegExp): Violation[] {
  const found: Violation[] = [];
  for (const match of view.matchAll(pattern)) {
    const where = `${file.path}:${lineOf(view, match.index)}`;
    found.push({ rule, where, what: match[0].trim().replace(/\s+/g, " ") });
  }
  return found;
}

/** The hard bound of lines in a file of src. */
export const MAX_FILE_LINES = 400;
/** Beyond this a file is reported, and counted by a ratchet. */
export const ASKED_FILE_LINES = 300;
/** The bound of lines in a function. */
export const MAX_FUNCTION_LINES = 70;

/** Lines of a text; a last line break begins no line. */
export function lineCount(text: string): number {
  const lines = text.split("\n").length;
  return text.endsWith("\n") ? lines - 1 : lines;
}

export const fileIsShort: Rule = (file) => {
  const lines = lineCount(file.text);
  if (lines <= MAX_FILE_LINES) return [];
  return [{ rule: "file length", where: file.path, what: `${lines} lines` }];
};

export const hasHeader: Rule = (file) => {
  if (posix.basename(file.path) === "index.ts") return [];
  const text = file.text.startsWith("#!")
    ? file.text.slice(file.text.indexOf("\n") + 1)
    : file.text;
  const header = /^\/\*\*\n([\s\S]*?)\*\//.exec(text)?.[1] ?? "";
  const parts = ["What it is:", "Owns:", "Refuses:", "Does not do:"];
  return parts
    .filter((part) => !header.includes(part))
    .map((part) => ({ rule: "header", where: file.path, what: `no "${part}"` }));
};

export const hasNoAny: Rule = (file) =>
  find("any", file, file.code, /(?:[:<|&,=]\s*|\bas\s+|\bextends\s+)any\b(?!\s*[(:.])|\bany\[\]/g);

export const hasNoNonNull: Rule = (file) => find("non-null", file, file.code, /[\w$)\]]!(?!=)/g);

export const hasNoSuppression: Rule = (file) =>
  find(
    "suppression",
    file,
    file.comments,
    /@ts-(?:ignore|expect-error|nocheck)|(?:eslint|oxlint|biome)-(?:disable|ignore)\S*|prettier-ignore/g,
  );

/** Casts that prove nothing: ` as T`; `as const` and renaming imports are none. */
export function casts(file: SourceFile): readonly Violation[] {
  const code = file.code.replace(
    /\b(?:import|export)\b[^;=]*?\bfrom\b|\bexport\s*\{[^}]*\}/g,
    (part) => part.replace(/[^\n]/g, " "),
  );
  return find("cast", file, code, /\sas\s+(?!const\b)[\w$({["'`]+/g);
}

const AMBIENT =
  /\b(?:Date\.now|new Date|performance\.now|setTimeout|setInterval|Math\.random|randomBytes|randomUUID|getRandomValues|process\.(?:env|exit|on|once|hrtime))\b/g;
/** What a command line has to do with its process. */
const TERMINAL = /\bprocess\.(?:exitCode|argv|stdout|stderr|stdin)\b|\bconsole\./g;

/** Time, randomness and the process belong to src/runtime; what a terminal sees, to src/cli as well. */
export const isWithoutAmbient: Rule = (file) => {
  if (file.path.startsWith("src/runtime/")) return [];
  const found = find("ambient", file, file.code, AMBIENT);
  if (file.path.startsWith("src/cli/")) return found;
  return [...found, ...find("ambient", file, file.code, TERMINAL)];
};

export const throwsNoBareError: Rule = (file) =>
  find("bare error", file, file.code, /\bnew\s+(?:Error|TypeError|RangeError)\s*\(/g);

export const exportsByName: Rule = (file) =>
  find("export form", file, file.code, /\bexport\s+\*|\bexport\s+default\b/g);

/** A comment may cite a file of this repository or a public address, nothing else. */
export function citesOnly(isKnown: (path: string) => boolean): Rule {
  return (file) => [
    ...find("citation", file, file.comments, /§\s*[\d.]+/g),
    ...find("citation", file, file.comments, /[\w./-]+\.md\b/g).filter(({ what }) => {
      const beside = posix.join(posix.dirname(file.path), what);
      return !isKnown(what) && !isKnown(beside);
    }),
  ];
}

/** Specifiers of every import and re-export, type-only ones included. */
export function importsOf(file: SourceFile): readonly string[] {
  const found: string[] = [];
  const pattern =
    /\b(?:import|export)\b[^;"'`]*?\bfrom\s*["']([^"']+)["']|\bimport\s*\(\s*["']([^"']+)["']|\bimport\s+["']([^"']+)["']/g;
  for (const match of file.codeWithStrings.matchAll(pattern)) {
    found.push(match[1] ?? match[2] ?? match[3] ?? "");
  }
  return found;
}

const SCOPE = "@kv-group-bridge/";

/** What each package may import beside its own files. `node:` = Node's own modules. */
export const ALLOWED_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  runtime: ["node:", "pino", "prom-client"],
  protocol: ["node:crypto", "node:net", "@bufbuild/protobuf", `${SCOPE}gen`, `${SCOPE}runtime`],
  "prefix-index": [`${SCOPE}runtime`],
  "engine-hash": ["node:crypto", "hash-wasm", `${SCOPE}protocol`, `${SCOPE}runtime`],
  bridge: [
    "node:",
    "zeromq",
    "@msgpack/msgpack",
    "zod",
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@connectrpc/connect-node",
    `${SCOPE}engine-hash`,
    `${SCOPE}gen`,
    `${SCOPE}protocol`,
    `${SCOPE}runtime`,
  ],
  gateway: [
    "node:",
    "zod",
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@connectrpc/connect-node",
    `${SCOPE}engine-hash`,
    `${SCOPE}gen`,
    `${SCOPE}prefix-index`,
    `${SCOPE}protocol`,
    `${SCOPE}runtime`,
  ],
  cli: [
    "node:",
    "commander",
    "@msgpack/msgpack",
    "zod",
    "zeromq",
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@connectrpc/connect-node",
    `${SCOPE}engine-hash`,
    `${SCOPE}gen`,
    `${SCOPE}prefix-index`,
    `${SCOPE}protocol`,
    `${SCOPE}runtime`,
    `${SCOPE}bridge`,
    `${SCOPE}gateway`,
  ],
};

/** What `protocol` and `prefix-index` may take from the runtime: the assertion, no seam to the world. */
const INVARIANT_NAMES: ReadonlySet<string> = new Set([
  "invariant",
  "unreachable",
  "InvariantViolation",
]);

/** The package of a path or of a specifier: "src/bridge/x.ts" is "bridge", "zod/v4" is "zod". */
export function packageOf(name: string): string {
  if (name.startsWith("src/")) return name.split("/")[1] ?? "";
  return name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
}

export const importsInDirection: Rule = (file) => {
  const allowed = ALLOWED_IMPORTS[packageOf(file.path)] ?? [];
  const found: Violation[] = [];
  for (const specifier of importsOf(file)) {
    if (specifier.startsWith(".")) {
      const target = posix.join(posix.dirname(file.path), specifier);
      const isOwn = target.startsWith(`src/${packageOf(file.path)}/`);
      if (!isOwn || !specifier.endsWith(".ts")) {
        found.push({ rule: "import direction", where: file.path, what: specifier });
      }
      continue;
    }
    const isNode = specifier.startsWith("node:");
    const isAllowed = isNode
      ? allowed.includes("node:") || allowed.includes(specifier)
      : allowed.includes(packageOf(specifier));
    if (!isAllowed) found.push({ rule: "import direction", where: file.path, what: specifier });
  }
  if (["protocol", "prefix-index", "engine-hash"].includes(packageOf(file.path)))
    found.push(...runtimeNames(file));
  return found;
};

function runtimeNames(file: SourceFile): readonly Violation[] {
  const found: Violation[] = [];
  const pattern = /\bimport\s+(?:type\s+)?\{([^}]*)\}\s*from\s*["']@kv-group-bridge\/runtime["']/g;
  for (const match of file.codeWithStrings.matchAll(pattern)) {
    for (const part of (match[1] ?? "").split(",")) {
      const name = part.trim().replace(/^type\s+/, "");
      if (name === "" || INVARIANT_NAMES.has(name)) continue;
      found.push({ rule: "import direction", where: file.path, what: `${name} of the runtime` });
    }
  }
  return found;
}

/** Circles of imports between files, each as its files in order; type-only imports count. */
export function importCycles(files: readonly SourceFile[]): readonly string[] {
  const targets = new Map<string, readonly string[]>();
  for (const file of files) {
    const own = importsOf(file).filter((specifier) => specifier.startsWith("."));
    targets.set(
      file.path,
      own.map((to) => posix.join(posix.dirname(file.path), to)),
    );
  }
  const cycles: string[] = [];
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (at: string): void => {
    const begin = path.indexOf(at);
    if (begin >= 0) {
      cycles.push([...path.slice(begin), at].join(" -> "));
      return;
    }
    if (done.has(at)) return;
    path.push(at);
    for (const target of targets.get(at) ?? []) visit(target);
    path.pop();
    done.add(at);
  };
  for (const file of files) visit(file.path);
  return cycles;
}

/** A function and its length. */
export interface FunctionLength {
  readonly where: string;
  readonly lines: number;
}

const CONTROL = /^(?:\}?\s*else\s+)?(?:if|for|while|switch|catch|with)\b/;
const NOT_FUNCTION = /\b(?:class|interface|enum|namespace)\s+\w+[^()]*$/;

/** Every function body by its braces: what stands before the brace has parameters or an arrow. */
export function functionLengths(file: SourceFile): readonly FunctionLength[] {
  const { code } = file;
  const found: FunctionLength[] = [];
  const open: { start: number; isFunction: boolean }[] = [];
  for (let i = 0; i < code.length; i++) {
    if (code[i] === "{") {
      const { header, start } = headerBefore(code, i);
      open.push({ start, isFunction: isFunctionHeader(header) });
    } else if (code[i] === "}") {
      const brace = open.pop();
      if (brace?.isFunction !== true) continue;
      const first = lineOf(code, brace.start);
      found.push({ where: `${file.path}:${first}`, lines: lineOf(code, i) - first + 1 });
    }
  }
  return found;
}

export const functionsAreShort: Rule = (file) =>
  functionLengths(file)
    .filter(({ lines }) => lines > MAX_FUNCTION_LINES)
    .map(({ where, lines }) => ({ rule: "function length", where, what: `${lines} lines` }));

function isFunctionHeader(header: string): boolean {
  if (header.endsWith("=>")) return true;
  if (CONTROL.test(header) || NOT_FUNCTION.test(header)) return false;
  // Parameters, then perhaps a result type; a call or an object in an expression has neither before a brace.
  return /\)\s*(?::[^=]*)?$/.test(header);
}

/** What stands between the end of the statement before and the brace; brackets in it are taken whole. */
function headerBefore(code: string, brace: number): { header: string; start: number } {
  let depth = 0;
  let i = brace - 1;
  for (; i >= 0; i--) {
    const char = code[i] ?? "";
    if (char === ")" || char === "]") depth++;
    else if (char === "(" || char === "[") {
      if (depth === 0) break;
      depth--;
    } else if (depth === 0 && (char === ";" || char === "{" || char === "}")) break;
  }
  const raw = code.slice(i + 1, brace);
  const skipped = raw.length - raw.trimStart().length;
  return { header: raw.trim(), start: i + 1 + skipped };
}

/** Words of the place where this was written; the project speaks of itself alone. */
const WORKPLACE = [
  String.raw`(?<![\w.-])/(?:work|tmp|home|root|Users|mnt/data)/[\w.$-]`,
  String.raw`\b(?:sub-?agents?|helper agents?|co-?founders?|founders)\b`,
  String.raw`\b(?:chatgpt|claude|copilot|language model session|ai assistant)\b`,
  String.raw`\b(?:npmmirror|artifactory|verdaccio)\b|\bregistry\.(?!npmjs\.org)[\w-]+\.[\w.-]+[/:]`,
  String.raw`\.\./shared/`,
];
const WORKPLACE_PATTERN = new RegExp(WORKPLACE.join("|"), "gi");

/** Paths of one machine and words of a workplace, anywhere in a text of the tree. */
export function workplaceWords(path: string, text: string): readonly Violation[] {
  const found: Violation[] = [];
  for (const match of text.matchAll(WORKPLACE_PATTERN)) {
    const where = `${path}:${lineOf(text, match.index)}`;
    found.push({ rule: "workplace", where, what: match[0] });
  }
  return found;
}
