/**
 * What it is: vLLM's own derivation of scheduler block size, hash unit and fine mode from its groups.
 * Owns: nothing.
 * Refuses: to guess while a group's block size is unknown (the values stay undefined).
 * Does not do: learn. Source of the rules: vLLM 0.33.0 v1/core/kv_cache_utils.py (resolve_kv_cache_block_sizes)
 * and v1/core/kv_cache_coordinator.py (when partial hits are on).
 */

/** What the derivation needs of one group. */
export interface DerivationGroup {
  readonly kind: string | undefined;
  readonly blockSizeTokens: number | undefined;
  readonly isPrivate: boolean;
  /** It stored blocks smaller than its own. */
  readonly hasPartial: boolean;
}

/** What is stated, and the unit that events showed. */
export interface LayoutHints {
  readonly schedulerBlockSizeTokens: number | undefined;
  readonly hashBlockSizeTokens: number | undefined;
  readonly isFine: boolean | undefined;
  /** Greatest common divisor of all block sizes in GPU stores, partial ones included; 0 = none yet. */
  readonly smallestUnitTokens: number;
}

/** S, H and fine mode; undefined = not known yet. */
export interface DerivedLayout {
  readonly schedulerBlockSizeTokens: number | undefined;
  readonly hashBlockSizeTokens: number | undefined;
  readonly isFine: boolean | undefined;
  /** All three were stated. */
  readonly isStated: boolean;
}

/** Sizes are uint32 in every contract. */
const MAX_TOKENS = 0xffff_ffff;

/** Kinds that cannot search inside a block. */
const WHOLE_BLOCK_KINDS: ReadonlySet<string> = new Set([
  "sliding_window",
  "sliding_window_mla",
  "chunked_local_attention",
]);

/** Derives what is not stated. */
export function deriveLayout(
  groups: readonly DerivationGroup[],
  hints: LayoutHints,
): DerivedLayout {
  const isStated =
    hints.schedulerBlockSizeTokens !== undefined &&
    hints.hashBlockSizeTokens !== undefined &&
    hints.isFine !== undefined;
  let scheduler = 1;
  let unit = 0;
  let isKnown = groups.length > 0;
  for (const group of groups) {
    const size = group.blockSizeTokens;
    if (size === undefined) {
      isKnown = false;
      continue;
    }
    scheduler = (scheduler / greatestCommonDivisor(scheduler, size)) * size;
    // No engine schedules such blocks, and no message could carry the number: there is no layout.
    if (scheduler > MAX_TOKENS) isKnown = false;
    if (!Number.isSafeInteger(scheduler)) scheduler = size;
    if (!group.isPrivate) unit = greatestCommonDivisor(unit, size);
  }
  const isSingle = groups.length === 1;
  const isMambaPartial = groups.some((group) => group.kind === "mamba" && group.hasPartial);
  // A recurrent group's partial entry proves a unit finer than its block; an attention group's does not.
  if (isMambaPartial && hints.smallestUnitTokens > 0) {
    unit = greatestCommonDivisor(unit, hints.smallestUnitTokens);
  }
  const hash = hints.hashBlockSizeTokens ?? (isKnown ? (isSingle ? scheduler : unit) : undefined);
  return {
    schedulerBlockSizeTokens: hints.schedulerBlockSizeTokens ?? (isKnown ? scheduler : undefined),
    hashBlockSizeTokens: hash,
    isFine: hints.isFine ?? (isKnown && hash !== undefined ? isFineMode(groups, hash) : undefined),
    isStated,
  };
}

function isFineMode(groups: readonly DerivationGroup[], hash: number): boolean {
  const cacheable = groups.filter((group) => !group.isPrivate);
  const hasFinerMamba = cacheable.some(
    (group) => group.kind === "mamba" && (group.blockSizeTokens ?? 0) > hash,
  );
  return (
    hasFinerMamba &&
    cacheable.every(
      (group) =>
        group.kind === undefined ||
        !WHOLE_BLOCK_KINDS.has(group.kind) ||
        group.blockSizeTokens === hash,
    )
  );
}

/** Of two sizes in tokens; 0 and b give b. */
export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
