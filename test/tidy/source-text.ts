/**
 * What it is: a TypeScript file as text, with three views of it: code without strings, code with strings,
 * comments alone. Every view has the length and the line breaks of the text, so that places agree.
 * Owns: nothing.
 * Refuses: nothing; any text gives views.
 * Does not do: parse. It knows strings, templates, comments and, by what stands before them, regular
 * expressions; that is enough for rules over text.
 */

/** One file. `path` is relative to the root, with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** Comments and the insides of strings are blank. */
  readonly code: string;
  /** Comments are blank; strings are kept. */
  readonly codeWithStrings: string;
  /** All but comments is blank. */
  readonly comments: string;
}

type Kind = "code" | "string" | "comment";

/** A file from its path and text. */
export function sourceFile(path: string, text: string): SourceFile {
  const kinds = classify(text);
  const view = (keeps: ReadonlySet<Kind>): string => {
    let out = "";
    for (let i = 0; i < text.length; i++) {
      const char = text[i] ?? "";
      out += char === "\n" || keeps.has(kinds[i] ?? "code") ? char : " ";
    }
    return out;
  };
  return {
    path,
    text,
    code: view(new Set<Kind>(["code"])),
    codeWithStrings: view(new Set<Kind>(["code", "string"])),
    comments: view(new Set<Kind>(["comment"])),
  };
}

/** 1-based line of an offset. */
export function lineOf(text: string, offset: number): number {
  let line = 1;
  for (let i = 0; i < offset; i++) if (text[i] === "\n") line++;
  return line;
}

function classify(text: string): Kind[] {
  const kinds: Kind[] = Array.from({ length: text.length }, () => "code");
  /** Open braces of code inside templates: where the count comes back to, the template goes on. */
  const templates: number[] = [];
  let braces = 0;
  let at = 0;
  const mark = (from: number, to: number, kind: Kind): void => {
    for (let i = from; i < to && i < text.length; i++) kinds[i] = kind;
    at = to;
  };
  const template = (from: number): void => {
    let i = from;
    while (i < text.length) {
      if (text[i] === "\\") i += 2;
      else if (text[i] === "`") {
        mark(from, i, "string");
        at = i + 1;
        return;
      } else if (text[i] === "$" && text[i + 1] === "{") {
        mark(from, i, "string");
        templates.push(braces);
        braces++;
        at = i + 2;
        return;
      } else i++;
    }
    mark(from, text.length, "string");
  };
  while (at < text.length) {
    const char = text[at] ?? "";
    const next = text[at + 1];
    if (char === "/" && next === "/") {
      const end = text.indexOf("\n", at);
      mark(at, end < 0 ? text.length : end, "comment");
    } else if (char === "/" && next === "*") {
      const end = text.indexOf("*/", at + 2);
      mark(at, end < 0 ? text.length : end + 2, "comment");
    } else if (char === '"' || char === "'") {
      const end = endOfQuoted(text, at, char);
      mark(at + 1, end, "string");
      at = end + 1;
    } else if (char === "`") {
      template(at + 1);
    } else if (char === "/" && beginsRegExp(text, at)) {
      const end = endOfRegExp(text, at);
      mark(at + 1, end, "string");
      at = end + 1;
    } else {
      if (char === "{") braces++;
      if (char === "}") {
        braces--;
        if (templates.at(-1) === braces) {
          templates.pop();
          template(at + 1);
          continue;
        }
      }
      at++;
    }
  }
  return kinds;
}

function endOfQuoted(text: string, start: number, quote: string): number {
  let i = start + 1;
  while (i < text.length && text[i] !== quote && text[i] !== "\n") i += text[i] === "\\" ? 2 : 1;
  return Math.min(i, text.length);
}

/** After a value a slash divides; after an operator, a bracket or `return` it begins an expression. */
function beginsRegExp(text: string, at: number): boolean {
  let i = at - 1;
  while (i >= 0 && (text[i] === " " || text[i] === "\n" || text[i] === "\t")) i--;
  if (i < 0) return true;
  if (/[\w$)\]]/.test(text[i] ?? ""))
    return /\b(return|typeof|case)$/.test(text.slice(Math.max(0, i - 8), i + 1));
  return text[i] !== "}";
}

function endOfRegExp(text: string, start: number): number {
  let isInClass = false;
  for (let i = start + 1; i < text.length && text[i] !== "\n"; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "[") isInClass = true;
    else if (text[i] === "]") isInClass = false;
    else if (text[i] === "/" && !isInClass) return i;
  }
  return start;
}
