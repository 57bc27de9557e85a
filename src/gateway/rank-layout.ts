/**
 * What it is: an engine description turned into the layout that scoring needs, or the reasons why
 * it cannot.
 * Owns: the translation of vLLM's kinds into reuse rules. Source: vLLM 0.33.0,
 * v1/core/kv_cache_utils and v1/core/kv_cache_coordinator.
 * Refuses: kinds it does not know, and anything that a rule needs and nobody told; nothing is
 * guessed.
 * Does not do: learn (the bridge does), score, judge certainty (answer.ts does).
 */
import {
  checkRankLayout,
  type GroupLayout,
  type PrefixIndex,
  type RankHandle,
  type RankLayout,
  type ReuseRule,
} from "@kv-group-bridge/prefix-index";
import {
  type EngineDescription,
  type GroupDescription,
  type HashScheme,
  LIMITS,
} from "@kv-group-bridge/protocol";
import { LAYOUT_REASONS, type LayoutReason } from "./answer.ts";

/**
 * A layout, or why there is none; reasons are in the order of `LAYOUT_REASONS`, without repeats.
 */
export type LayoutResult =
  | {
      readonly ok: true;
      readonly layout: RankLayout;
      readonly groupKinds: ReadonlyMap<number, string>;
    }
  | { readonly ok: false; readonly reasons: readonly LayoutReason[] };

/** Rule of each kind that has one. Everything else is unsupported. */
const RULES: ReadonlyMap<string, ReuseRule> = new Map([
  ["full_attention", "full"],
  ["mla_attention", "full"],
  ["sink_full_attention", "full"],
  ["sliding_window", "sliding_window"],
  ["sliding_window_mla", "sliding_window"],
  ["mamba", "mamba"],
  ["chunked_local_attention", "chunked_local"],
]);

/** The layout of an engine. */
export function rankLayout(engine: EngineDescription): LayoutResult {
  const reasons = new Set<LayoutReason>();
  if (engine.unsupportedReason !== undefined) reasons.add("unsupported_report_mode");
  const groups: GroupLayout[] = [];
  const groupKinds = new Map<number, string>();
  const classes = new Map<string, number>();
  let hasListed = false;
  for (const group of engine.groups) {
    if (group.isPrivate) continue;
    hasListed = true;
    const layout = groupLayout(group, engine.lookaheadTokens > 0, classes, reasons);
    if (layout === undefined) continue;
    groups.push(layout);
    groupKinds.set(group.groupId, group.kind ?? "");
  }
  if (!hasListed) reasons.add("no_groups");
  const scheduler = engine.schedulerBlockSizeTokens ?? leastCommonMultiple(engine.groups);
  if (scheduler === undefined) reasons.add("block_size_unknown");
  if (reasons.size > 0 || scheduler === undefined) return refused(reasons);

  const hash = engine.hashBlockSizeTokens ?? hashUnit(groups);
  const isUnitary = engine.groups.length === 1;
  const layout: RankLayout = {
    groups,
    coordinator: isUnitary ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: scheduler,
    hashBlockSizeTokens: hash,
    // vLLM's coordinator of one group knows no partial hits.
    isFine: !isUnitary && (engine.isFine ?? isFineMode(groups, hash)),
    lookaheadTokens: engine.lookaheadTokens,
    eagleBound: engine.eagleBound,
    replayTokens: engine.replayTokens,
  };
  if (checkRankLayout(layout) !== undefined) {
    reasons.add("layout_invalid");
    return refused(reasons);
  }
  return { ok: true, layout, groupKinds };
}

/**
 * Gives a layout to a rank of the index; false, and nothing changed, when its entries must be cleared first.
 */
export function giveLayout(
  index: PrefixIndex,
  rank: RankHandle,
  layout: RankLayout | undefined,
): boolean {
  // A roster that grew is taken in two steps: without a layout the index admits further groups.
  return (
    index.setLayout(rank, layout) ||
    (index.setLayout(rank, undefined) && index.setLayout(rank, layout))
  );
}

/** The scheme under which prompts can be hashed; undefined = none, or one whose hashes would cost too much. */
export function usableScheme(
  engine: EngineDescription | undefined,
  lookaheadTokens: number,
): HashScheme | undefined {
  const scheme = engine?.hashScheme?.scheme;
  if (scheme === undefined) return undefined;
  return scheme.unitTokens + lookaheadTokens <= LIMITS.hashTokens.value ? scheme : undefined;
}

/** b of a group in tokens as a description says it; undefined = not known. */
export function blockTokensOf(
  engine: EngineDescription | undefined,
  groupId: number,
): number | undefined {
  return engine?.groups.find((group) => group.groupId === groupId)?.blockSizeTokens;
}

function refused(reasons: ReadonlySet<LayoutReason>): LayoutResult {
  return { ok: false, reasons: LAYOUT_REASONS.filter((reason) => reasons.has(reason)) };
}

function groupLayout(
  group: GroupDescription,
  hasLookahead: boolean,
  classes: Map<string, number>,
  reasons: Set<LayoutReason>,
): GroupLayout | undefined {
  const rule = group.kind === undefined ? undefined : RULES.get(group.kind);
  if (group.kind === undefined) reasons.add("kind_unknown");
  else if (rule === undefined) reasons.add("kind_unsupported");
  const blockSizeTokens = group.blockSizeTokens;
  if (blockSizeTokens === undefined) reasons.add("block_size_unknown");
  const windowTokens = rule === "sliding_window" ? group.windowTokens : 0;
  if (windowTokens === undefined) reasons.add("window_unknown");
  const chunkTokens = rule === "chunked_local" ? group.chunkTokens : 0;
  if (chunkTokens === undefined) reasons.add("chunk_unknown");
  if (
    rule === undefined ||
    blockSizeTokens === undefined ||
    windowTokens === undefined ||
    chunkTokens === undefined
  ) {
    return undefined;
  }
  // With look-ahead hashing nothing drops (vLLM 0.33.0). A mark on a recurrent group is kept: it
  // gives up nothing there, but the index needs it for the others' search.
  const dropsBlock = group.dropsBlock && !hasLookahead;
  const name =
    group.specClass === undefined
      ? `${group.kind}/${blockSizeTokens}/${windowTokens}/${chunkTokens}/${dropsBlock}`
      : `class ${group.specClass}`;
  let specClass = classes.get(name);
  if (specClass === undefined) {
    specClass = classes.size;
    classes.set(name, specClass);
  }
  return {
    groupId: group.groupId,
    rule,
    blockSizeTokens,
    windowTokens,
    chunkTokens,
    specClass,
    dropsBlock,
  };
}

/** S by vLLM's rule, private groups included; undefined while a block size is unknown. */
function leastCommonMultiple(groups: readonly GroupDescription[]): number | undefined {
  let multiple = 1;
  for (const group of groups) {
    const size = group.blockSizeTokens;
    if (size === undefined) return undefined;
    multiple = (multiple / greatestCommonDivisor(multiple, size)) * size;
    // Beyond this no product is exact any more; `layout_invalid` is reported for it.
    if (!Number.isSafeInteger(multiple)) return Number.POSITIVE_INFINITY;
  }
  return multiple;
}

/** H by vLLM's rule: the unit that divides every block. */
function hashUnit(groups: readonly GroupLayout[]): number {
  let unit = 0;
  for (const group of groups) unit = greatestCommonDivisor(unit, group.blockSizeTokens);
  return unit;
}

/** Fine mode by vLLM's rule (v1/core/kv_cache_coordinator). */
function isFineMode(groups: readonly GroupLayout[], hash: number): boolean {
  let hasFinerMamba = false;
  for (const { rule, blockSizeTokens } of groups) {
    if (rule === "mamba" && blockSizeTokens > hash) hasFinerMamba = true;
    const searchesWholeBlocks = rule === "sliding_window" || rule === "chunked_local";
    if (searchesWholeBlocks && blockSizeTokens !== hash) return false;
  }
  return hasFinerMamba;
}

function greatestCommonDivisor(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y > 0) [x, y] = [y, x % y];
  return x;
}
