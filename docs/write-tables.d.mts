/** The files that hold generated tables. */
export const FILES: readonly string[];

/** The text of one file with every generated table current. */
export function withCurrentTables(text: string): Promise<string>;
