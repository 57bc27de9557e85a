/**
 * What it is: tables of the documentation as data.
 * Owns: nothing.
 * Refuses: a table that is not there.
 * Does not do: judge.
 */

/** Rows of the table between `<!-- table:NAME -->` and `<!-- /table -->`, head and rule left out. */
export function tableRows(text: string, name: string): readonly (readonly string[])[] {
  const block = new RegExp(`<!-- table:${name} -->\\n([\\s\\S]*?)<!-- /table -->`).exec(text)?.[1];
  if (block === undefined) throw new RangeError(`no table ${name}`);
  return block
    .trim()
    .split("\n")
    .slice(2)
    .map((line) =>
      line
        .replace(/^\||\|$/g, "")
        .split("|")
        .map((cell) => cell.trim()),
    );
}

/** The first cell of each row without its backticks. */
export function tableNames(text: string, name: string): readonly string[] {
  return tableRows(text, name).map((row) => (row[0] ?? "").replaceAll("`", ""));
}

/** Everything in backticks in a text. */
export function backticked(text: string): readonly string[] {
  return [...text.matchAll(/`([^`\n]+)`/g)].map((match) => match[1] ?? "");
}
