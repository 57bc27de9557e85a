/**
 * What it is: what is known of one rank's engine: stated facts, facts learnt from its events, and what vLLM's
 * own rules derive from both.
 * Owns: the groups seen, their kinds, windows and block sizes, the look-ahead; one revision number.
 * Refuses: a store that contradicts what is known. Stated facts win over learnt ones, the first learnt one
 * over later ones; nothing is overwritten by a contradiction.
 * Does not do: count blocks (the mirror does) or turn kinds into reuse rules (the gateway does).
 */
import {
  type EngineDescription,
  type GroupDescription,
  type GroupId,
  LIMITS,
  ok,
  type RefusalReason,
  type Result,
  refuse,
} from "@kv-group-bridge/protocol";
import type { FactsMemory } from "./checkpoint-state.ts";
import { type DerivationGroup, deriveLayout, greatestCommonDivisor } from "./derive-layout.ts";
import type { EngineConfig, GroupConfig } from "./engine-config.ts";
import { type LearntGroup, newGroup, noteStore } from "./learnt-group.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What a refused store says about what was known: its group may be over-stated. */
export const GROUP_CONTRADICTIONS: ReadonlySet<RefusalReason> = new Set([
  "kind_contradicts",
  "window_contradicts",
]);

/** What a store changed. */
export type Learnt = "known" | "size_grown";

const TOO_MANY_GROUPS = `more than ${LIMITS.groupsPerRank.value} KV cache groups`;

/** Kinds that say nothing: vLLM's name for what it cannot name. */
const NO_KIND = "unknown";

/** Facts of one rank in one epoch; `forget` begins a new one. */
export class EngineFacts {
  private readonly config: EngineConfig;
  private readonly stated: ReadonlyMap<GroupId, GroupConfig>;
  private readonly learnt = new Map<GroupId, LearntGroup>();
  private learntLookahead: number | undefined = undefined;
  private learntUnit = 0;
  private hasTooManyGroups = false;
  private currentRevision = 1;

  constructor(config: EngineConfig) {
    this.config = config;
    this.stated = new Map(config.groups.map((group) => [group.groupId, group]));
  }

  /** Grows whenever `describe` would answer differently. */
  get revision(): number {
    return this.currentRevision;
  }

  /** L as far as known; undefined before the first store that tells. */
  get lookaheadTokens(): number | undefined {
    return this.config.lookaheadTokens ?? this.learntLookahead;
  }

  /** b of a group as far as known. */
  blockSizeTokens(groupId: GroupId): number | undefined {
    const learnt = this.learnt.get(groupId)?.largestBlockTokens ?? 0;
    return this.stated.get(groupId)?.blockSizeTokens ?? (learnt > 0 ? learnt : undefined);
  }

  /** What a STORE says of a group. */
  group(groupId: GroupId): {
    readonly kind: string | undefined;
    readonly windowTokens: number | undefined;
    readonly blockSizeTokens: number | undefined;
  } {
    const stated = this.stated.get(groupId);
    const learnt = this.learnt.get(groupId);
    return {
      kind: stated?.kind ?? learnt?.kind,
      windowTokens: stated?.windowTokens ?? learnt?.windowTokens,
      blockSizeTokens: this.blockSizeTokens(groupId),
    };
  }

  /** Forgets what was learnt; stated facts stay. */
  forget(): void {
    this.learnt.clear();
    this.learntLookahead = undefined;
    this.learntUnit = 0;
    this.hasTooManyGroups = false;
    this.currentRevision += 1;
  }

  /** What was learnt, as a value. */
  memory(): FactsMemory {
    return {
      groups: [...this.learnt].map(([groupId, group]) => ({ groupId, ...group })),
      lookaheadTokens: this.learntLookahead,
      unitTokens: this.learntUnit,
      hasTooManyGroups: this.hasTooManyGroups,
    };
  }

  /** Takes over what another process learnt, in place of everything; stated facts stay. */
  restore(memory: FactsMemory): void {
    this.forget();
    for (const { groupId, ...group } of memory.groups) this.learnt.set(groupId, group);
    this.learntLookahead = memory.lookaheadTokens;
    this.learntUnit = memory.unitTokens;
    this.hasTooManyGroups = memory.hasTooManyGroups;
  }

  /**
   * Learns from a store that names `groupId` (0 stands for "no group" in an ungrouped stream), or refuses it
   * whole. `isLocal`: the blocks are in the GPU; only such stores define block sizes and look-ahead.
   * "size_grown": the group's blocks are larger than those stored so far, which were no whole blocks then.
   */
  learn(event: StoreEvent, groupId: GroupId, isLocal: boolean): Result<Learnt> {
    const stated = this.stated.get(groupId);
    if (stated?.isPrivate === true) return refuse("group_private", "group_idx");
    if (stated === undefined && this.config.isRosterComplete) {
      return refuse("roster_contradicts", "group_idx");
    }
    let group = this.learnt.get(groupId);
    if (
      group === undefined &&
      stated === undefined &&
      this.groupCount() >= LIMITS.groupsPerRank.value
    ) {
      this.noteTooManyGroups();
      return refuse("too_many_groups", "group_idx");
    }
    const kind = event.kind === NO_KIND && stated?.kind !== undefined ? undefined : event.kind;
    const knownKind = stated?.kind ?? group?.kind;
    if (kind !== undefined && knownKind !== undefined && kind !== knownKind) {
      return refuse("kind_contradicts", "kv_cache_spec_kind");
    }
    const knownWindow = stated?.windowTokens ?? group?.windowTokens;
    const window = event.windowTokens;
    if (window !== undefined && knownWindow !== undefined && window !== knownWindow) {
      return refuse("window_contradicts", "kv_cache_spec_sliding_window");
    }
    const lookahead = isLocal ? this.learnLookahead(event) : ok(undefined);
    if (!lookahead.ok) return lookahead;
    const size = isLocal ? event.blockSizeTokens : 0;
    const fits = this.checkSize(event, groupId, size);
    if (!fits.ok) return fits;
    if (group === undefined) {
      group = newGroup(event.groupId === undefined);
      this.learnt.set(groupId, group);
    }
    // A store without hashes stores nothing, and one without tokens says nothing that could be checked: such a
    // size never becomes the group's.
    const told = event.hashes.length > 0 && size <= event.tokens.length ? size : 0;
    const isGrown = group.largestBlockTokens > 0 && told > group.largestBlockTokens;
    this.note(group, kind, window, told);
    return ok(isGrown && stated?.blockSizeTokens === undefined ? "size_grown" : "known");
  }

  /** Whether a GPU store's block size can be the group's own or that of a partial entry. */
  private checkSize(event: StoreEvent, groupId: GroupId, size: number): Result<undefined> {
    if (size === 0) return ok(undefined);
    const stated = this.stated.get(groupId)?.blockSizeTokens;
    const known = this.blockSizeTokens(groupId);
    const detail = `${size}, known ${known ?? "none"}`;
    if (stated !== undefined && size > stated) {
      return refuse("block_size_contradicts", "block_size", detail);
    }
    // A partial entry is announced alone (vLLM 0.24 and later, cache_partial_block): several blocks of a smaller
    // size in one store are another cache under the same group.
    if (known !== undefined && size < known && event.hashes.length > 1) {
      return refuse("block_size_contradicts", "block_size", detail);
    }
    const unit = this.config.hashBlockSizeTokens;
    if (unit !== undefined && size % unit !== 0) {
      return refuse("block_size_contradicts", "block_size", `${size}, hash unit ${unit}`);
    }
    return ok(undefined);
  }

  /** The whole description, derived values included. `provenUnitTokens`: H as recomputing proved it. */
  describe(provenUnitTokens?: number): EngineDescription {
    const groups: GroupDescription[] = [];
    for (const groupId of this.groupIds()) groups.push(this.describeGroup(groupId));
    const derivation: DerivationGroup[] = groups.map((group) => ({
      kind: group.kind,
      blockSizeTokens: group.blockSizeTokens,
      isPrivate: group.isPrivate,
      hasPartial: this.learnt.get(group.groupId)?.hasPartial ?? false,
    }));
    const layout = deriveLayout(derivation, {
      schedulerBlockSizeTokens: this.config.schedulerBlockSizeTokens,
      hashBlockSizeTokens: this.config.hashBlockSizeTokens ?? provenUnitTokens,
      isFine: this.config.isFine,
      smallestUnitTokens: this.learntUnit,
    });
    const isStated =
      this.config.isRosterComplete && this.config.lookaheadTokens !== undefined && layout.isStated;
    return {
      vllmVersion: this.config.vllmVersion,
      groups,
      isRosterComplete: this.config.isRosterComplete,
      schedulerBlockSizeTokens: layout.schedulerBlockSizeTokens,
      hashBlockSizeTokens: layout.hashBlockSizeTokens,
      isFine: layout.isFine,
      lookaheadTokens: this.lookaheadTokens ?? 0,
      eagleBound: this.config.eagleBound ?? "hash_end",
      replayTokens: this.config.replayTokens ?? 0,
      retentionInterval: this.config.retentionInterval,
      unsupportedReason:
        this.config.unsupportedReason ?? (this.hasTooManyGroups ? TOO_MANY_GROUPS : undefined),
      layoutCertainty: isStated ? "configured" : "assumed",
      hashScheme: undefined,
    };
  }

  /** A group that is left out would count as if it did not exist: such an engine has no answer. */
  private noteTooManyGroups(): void {
    if (this.hasTooManyGroups) return;
    this.hasTooManyGroups = true;
    this.currentRevision += 1;
  }

  private groupIds(): readonly GroupId[] {
    const ids = new Set<GroupId>([...this.stated.keys(), ...this.learnt.keys()]);
    return [...ids].sort((a, b) => a - b);
  }

  private groupCount(): number {
    return this.groupIds().length;
  }

  private describeGroup(groupId: GroupId): GroupDescription {
    const stated = this.stated.get(groupId);
    const learnt = this.learnt.get(groupId);
    const isKindStated = stated?.kind !== undefined;
    return {
      groupId,
      kind: stated?.kind ?? learnt?.kind ?? this.ungroupedKind(groupId),
      blockSizeTokens: this.blockSizeTokens(groupId),
      windowTokens: stated?.windowTokens ?? learnt?.windowTokens,
      chunkTokens: stated?.chunkTokens,
      isPrivate: stated?.isPrivate ?? false,
      dropsBlock: stated?.dropsBlock ?? false,
      specClass: stated?.specClass,
      certainty: isKindStated ? "configured" : learnt?.kind === undefined ? "assumed" : "learnt",
      isSeen: learnt?.isSeen ?? false,
    };
  }

  /**
   * Up to 0.19 vLLM turned its hybrid manager off for events: one attention group, whose kind it does not name.
   * Full attention is assumed (and said to be assumed); a sliding window accepts more, never less.
   */
  private ungroupedKind(groupId: GroupId): string | undefined {
    return this.learnt.get(groupId)?.isUngrouped === true ? "full_attention" : undefined;
  }

  private learnLookahead(event: StoreEvent): Result<undefined> {
    // A placeholder without tokens says nothing of what its hash covers.
    if (event.hashes.length === 0 || event.tokens.length === 0) return ok(undefined);
    const said = event.lookaheadTokens?.[0]?.length ?? 0;
    const known = this.lookaheadTokens;
    if (known !== undefined) {
      return known === said
        ? ok(undefined)
        : refuse("lookahead_contradicts", "lookahead_token_ids");
    }
    this.learntLookahead = said;
    if (said > 0) this.currentRevision += 1;
    return ok(undefined);
  }

  private note(
    group: LearntGroup,
    kind: string | undefined,
    window: number | undefined,
    size: number,
  ): void {
    const unitBefore = this.learntUnit;
    if (size > 0) this.learntUnit = greatestCommonDivisor(this.learntUnit, size);
    const isNews = noteStore(group, kind, window, size);
    if (isNews || this.learntUnit !== unitBefore) this.currentRevision += 1;
  }
}
