/**
 * What it is: the public names of the prefix index.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: export the structures inside.
 */
export { checkRankLayout, MAX_GROUPS, MAX_POSITION_TOKENS } from "./check-rank-layout.ts";
export { type CompiledLayout, compileLayout, type LookupClass } from "./compiled-layout.ts";
export { EndRuns } from "./end-runs.ts";
export { MAX_NODES } from "./key-table.ts";
export type { GroupLayout, RankLayout, ReuseRule } from "./layout.ts";
export type { RemoveOutcome, StoreOutcome } from "./outcomes.ts";
export { ALL, PrefixIndex, type PrefixIndexLimits } from "./prefix-index.ts";
export { MAX_RANKS } from "./rank-roster.ts";
export type { RankHandle } from "./rank-state.ts";
export { MEDIA_COUNT } from "./record.ts";
export {
  closeGroup,
  computeOwnPosition,
  computeReuse,
  type ReuseResult,
} from "./reuse-rules.ts";
export { GroupPositions, ScoreBuffer } from "./score-buffer.ts";
export type { PrefixKeyReader } from "./score-walk.ts";
