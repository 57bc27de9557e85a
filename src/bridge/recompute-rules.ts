/**
 * What it is: when an engine's hashes are worth recomputing: where its groups may hold what no dense store places.
 * Owns: the answer for the facts as they are; it is found anew when they change.
 * Refuses: nothing.
 * Does not do: recompute.
 */
import type { GroupId } from "@kv-group-bridge/protocol";
import type { EngineFacts } from "./engine-facts.ts";
import type { RecomputeRules } from "./place-types.ts";
import type { Recomputer } from "./recomputer.ts";

/** Kinds whose groups keep every block of a prompt: what they store is dense. */
const LEAD_KINDS: ReadonlySet<string> = new Set([
  "full_attention",
  "mla_attention",
  "sink_full_attention",
]);

/** The rules of one rank. */
export function recomputeRules(facts: EngineFacts, recomputer: Recomputer): RecomputeRules {
  let revision = 0;
  let leads: ReadonlySet<GroupId> = new Set();
  let leadSizes: ReadonlySet<number> = new Set();
  let hasOthers = false;
  const look = (): void => {
    if (facts.revision === revision) return;
    revision = facts.revision;
    const all = facts.describe().groups;
    hasOthers = all.length > 1;
    const groups = all.filter((group) => LEAD_KINDS.has(group.kind ?? ""));
    leads = new Set(groups.map((group) => group.groupId));
    leadSizes = new Set(groups.map((group) => group.blockSizeTokens ?? 0));
  };
  return {
    recomputer,
    // With a lead group of H every end of every other group is one of its: equal hashes place everything.
    needsRecomputing: (unitTokens) => {
      look();
      return !leadSizes.has(unitTokens);
    },
    // The spans of lead groups cover every prompt, and blocks of H list every end. Where there is no lead, any group's
    // spans may be all there is, and do not list every end: other groups may name one.
    keepsFineEnds: ({ blockSizeTokens, groupId }, unitTokens) => {
      look();
      const isFine = blockSizeTokens !== unitTokens;
      if (leads.size === 0) return isFine || hasOthers;
      return isFine && (groupId === undefined || leads.has(groupId));
    },
  };
}
