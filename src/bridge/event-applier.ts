/**
 * What it is: one validated vLLM event → mirror, with the price of what could not be read.
 * Owns: whether the stream names groups (grouped) or not (ungrouped).
 * Refuses: stores that contradict what is known, and ungrouped stores in a grouped stream.
 * Does not do: order, epochs or messages.
 */
import { Withdraw_Reason as WithdrawReason } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { type GroupId, LIMITS, parseGroupId, type Refusal } from "@kv-group-bridge/protocol";
import { invariant, unreachable } from "@kv-group-bridge/runtime";
import type { BatchWriter } from "./batch-writer.ts";
import type { Grouping } from "./checkpoint-state.ts";
import type { Counters } from "./counters.ts";
import { type EngineFacts, GROUP_CONTRADICTIONS } from "./engine-facts.ts";
import type { Mirror } from "./mirror.ts";
import { isLocalGpu } from "./slot-table.ts";
import { isPlainStore } from "./store-extras.ts";
import type { RefusedEvent, RemoveEvent, StoreEvent, VllmEvent } from "./vllm-event.ts";

/** What the applier works on. */
export interface EventApplierParts {
  readonly facts: EngineFacts;
  readonly mirror: Mirror;
  readonly writer: BatchWriter;
  readonly counters: Counters;
  readonly refuse: (refusal: Refusal) => void;
  /** Empties the scope in the mirror and says so in the stream. */
  readonly withdraw: (
    reason: WithdrawReason,
    groupId: GroupId | undefined,
    medium: string | undefined,
  ) => void;
}

/** "cleared_all": nothing is held anywhere, so the view is complete from here on. */
export type ApplyOutcome = "applied" | "cleared_all";

/** One a rank. */
export class EventApplier {
  private readonly parts: EventApplierParts;
  private knownGrouping: Grouping = "unknown";
  private readonly unknownNames = new Set<string>();
  private readonly firstGroup: GroupId;

  constructor(parts: EventApplierParts) {
    this.parts = parts;
    const first = parseGroupId(0);
    invariant(first !== undefined, "0 is a group id");
    this.firstGroup = first;
  }

  /** What is known of it now. */
  get grouping(): Grouping {
    return this.knownGrouping;
  }

  /** Takes over what another process knew. */
  restore(grouping: Grouping): void {
    this.knownGrouping = grouping;
  }

  /** Begins a new epoch. */
  forget(): void {
    this.knownGrouping = "unknown";
  }

  /** Applies one event. */
  apply(event: VllmEvent): ApplyOutcome {
    switch (event.type) {
      case "stored":
        this.store(event);
        return "applied";
      case "removed":
        this.remove(event);
        return "applied";
      case "cleared":
        this.parts.counters.add("events_cleared");
        this.parts.mirror.clear(event.groupId, event.medium);
        return event.groupId === undefined && event.medium === undefined
          ? "cleared_all"
          : "applied";
      case "removal_unreadable":
        this.parts.refuse(event.refusal);
        if (event.hashes !== undefined) {
          this.parts.mirror.withdrawHashes(event.hashes, event.groupId, event.medium);
        } else {
          this.parts.withdraw(WithdrawReason.REMOVAL_UNREADABLE, event.groupId, event.medium);
        }
        return "applied";
      case "refused":
        this.refused(event);
        return "applied";
      default:
        return unreachable(event, "every event type is applied");
    }
  }

  private store(event: StoreEvent): void {
    const { facts, mirror, writer, counters } = this.parts;
    counters.add("events_stored");
    for (const note of event.notes) this.parts.refuse(note);
    const isLocal = isLocalGpu(event);
    const groupId = this.groupOf(event, isLocal);
    if (groupId === undefined) {
      this.parts.refuse({ reason: "group_missing", path: "group_idx" });
      return;
    }
    const learnt = facts.learn(event, groupId, isLocal);
    if (!learnt.ok) {
      this.parts.refuse(learnt.error);
      if (GROUP_CONTRADICTIONS.has(learnt.error.reason)) {
        this.parts.withdraw(WithdrawReason.GROUP_CONTRADICTED, groupId, undefined);
      }
      return;
    }
    if (learnt.value === "size_grown") {
      this.parts.withdraw(WithdrawReason.GROUP_CONTRADICTED, groupId, undefined);
    }
    counters.add("blocks_stored", event.hashes.length);
    const hashes = mirror.store(event, groupId, {
      lookaheadTokens: facts.lookaheadTokens ?? 0,
      wholeBlockTokens: isLocal ? facts.blockSizeTokens(groupId) : undefined,
    });
    if (!isLocal) return;
    const isMatchable = isPlainStore(event) && mirror.isPlainBelow(event.parent);
    writer.engineStored(event, { groupId, hashes, isMatchable });
  }

  /**
   * The group of a store. A stream without groups (vLLM up to 0.19) is one group, 0. Once a stream names groups,
   * what was filed before is withdrawn, and stores without a group belong nowhere.
   */
  private groupOf(event: StoreEvent, isLocal: boolean): GroupId | undefined {
    if (event.groupId === undefined) {
      if (this.knownGrouping === "grouped") return undefined;
      if (isLocal) this.knownGrouping = "ungrouped";
      return this.firstGroup;
    }
    if (this.knownGrouping === "ungrouped" && isLocal) {
      this.parts.withdraw(WithdrawReason.GROUPING_CHANGED, undefined, undefined);
    }
    if (isLocal) this.knownGrouping = "grouped";
    return event.groupId;
  }

  private remove(event: RemoveEvent): void {
    this.parts.counters.add("events_removed");
    for (const note of event.notes) this.parts.refuse(note);
    // In an ungrouped stream everything is filed under group 0, and copies are counted there as everywhere.
    // A removal that names another group there is odd: where its hash is cannot be told, so it goes everywhere.
    const isUngrouped = this.knownGrouping === "ungrouped";
    const isOdd = isUngrouped && event.groupId !== undefined && event.groupId !== this.firstGroup;
    const named = event.groupId ?? (isUngrouped ? this.firstGroup : undefined);
    const groupId = isOdd ? undefined : named;
    this.parts.mirror.remove(groupId === event.groupId ? event : { ...event, groupId });
  }

  private refused(event: RefusedEvent): void {
    this.parts.refuse(event.refusal);
    if (event.tag === undefined) return;
    const isNamed =
      this.unknownNames.has(event.tag) || this.unknownNames.size < LIMITS.unknownEventNames.value;
    if (isNamed) this.unknownNames.add(event.tag);
    this.parts.counters.add(`events_unknown.${isNamed ? event.tag : "other"}`);
  }
}
