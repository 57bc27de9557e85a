/**
 * What it is: the version of the product.
 * Owns: one constant; a test compares it with package.json.
 * Refuses: nothing.
 * Does not do: read files.
 */

/** Semantic version. */
export const VERSION = "0.1.0";
