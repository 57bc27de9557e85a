/**
 * What it is: what the stores of one KV cache group have told of it.
 * Owns: nothing; the facts of an engine hold these records.
 * Refuses: nothing; contradictions are found before.
 * Does not do: know what is stated or derived.
 */

/** One group. */
export interface LearntGroup {
  kind: string | undefined;
  windowTokens: number | undefined;
  /** Largest block size of a GPU store: partial entries are smaller and never define it. */
  largestBlockTokens: number;
  /** A recurrent group stored a block smaller than its own: proof of fine mode. */
  hasPartial: boolean;
  /** Its stores name no group: vLLM up to 0.19. */
  isUngrouped: boolean;
  isSeen: boolean;
}

/** A group of which nothing is known yet. */
export function newGroup(isUngrouped: boolean): LearntGroup {
  return {
    kind: undefined,
    windowTokens: undefined,
    largestBlockTokens: 0,
    hasPartial: false,
    isUngrouped,
    isSeen: false,
  };
}

/** Notes what a store says; true = something is new. `size` 0 = it says no block size. */
export function noteStore(
  group: LearntGroup,
  kind: string | undefined,
  window: number | undefined,
  size: number,
): boolean {
  const before = { ...group };
  group.isSeen = true;
  group.kind ??= kind;
  group.windowTokens ??= window;
  if (size > 0) {
    if (group.largestBlockTokens > 0 && size !== group.largestBlockTokens) group.hasPartial = true;
    group.largestBlockTokens = Math.max(group.largestBlockTokens, size);
  }
  return (
    group.isSeen !== before.isSeen ||
    group.kind !== before.kind ||
    group.windowTokens !== before.windowTokens ||
    group.largestBlockTokens !== before.largestBlockTokens ||
    group.hasPartial !== before.hasPartial
  );
}
