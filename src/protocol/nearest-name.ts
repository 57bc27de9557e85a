/**
 * What it is: the name that was probably meant, for messages about unknown ones.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: accept the name it finds.
 */

/** Longer names are compared by their beginning: the work stays bounded. */
const MAX_COMPARED = 100;

/**
 * The known name with the fewest edits, when they are at most a third of the name; else undefined.
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestEdits = Math.floor(Math.min(name.length, MAX_COMPARED) / 3) + 1;
  for (const candidate of known) {
    const edits = editCount(name.slice(0, MAX_COMPARED), candidate);
    if (edits < bestEdits) {
      best = candidate;
      bestEdits = edits;
    }
  }
  return best;
}

/** Levenshtein's distance. */
function editCount(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
