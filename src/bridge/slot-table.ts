/**
 * What it is: the residency slots of one rank: (group, medium, locality, ownership), interned.
 * Owns: the slots; their indexes are dense and never reused within an epoch.
 * Refuses: more distinct media (with locality and ownership) than the bound.
 * Does not do: count blocks.
 */
import type { GroupId } from "@kv-group-bridge/protocol";
import type { Slot } from "./block.ts";
import type { Residency } from "./vllm-event.ts";

/** True for what the engine's own lookup reads. "LOCAL" and nothing said are the same. */
export function isLocalGpu(residency: Residency): boolean {
  return residency.medium === "GPU" && localityOf(residency) === "" && residency.ownership === "";
}

function localityOf(residency: Residency): string {
  return residency.locality === "LOCAL" ? "" : residency.locality;
}

function residencyKey(residency: Residency): string {
  return JSON.stringify([residency.medium, localityOf(residency), residency.ownership]);
}

function isIn(slot: Slot, residency: Residency): boolean {
  return (
    slot.medium === residency.medium &&
    slot.locality === localityOf(residency) &&
    slot.ownership === residency.ownership
  );
}

/** Interns slots; `maxMedia` bounds the media beside the GPU. */
export class SlotTable {
  private readonly maxMedia: number;
  private readonly slots: Slot[] = [];
  private readonly byKey = new Map<string, Slot>();
  private readonly media = new Set<string>();
  /** The slot that was asked for last: most events name the same one. */
  private last: Slot | undefined = undefined;

  constructor(maxMedia: number) {
    this.maxMedia = maxMedia;
  }

  /** The slot of a group and residency; undefined when a further medium would pass the bound. */
  intern(groupId: GroupId, residency: Residency): Slot | undefined {
    const known = this.find(groupId, residency);
    if (known !== undefined) return known;
    const media = residencyKey(residency);
    // The GPU always has its place: names that others invent must not keep it out.
    const isForeign = !isLocalGpu(residency) && !this.media.has(media);
    if (isForeign && this.media.size >= this.maxMedia) return undefined;
    if (isForeign) this.media.add(media);
    const slot: Slot = {
      index: this.slots.length,
      groupId,
      medium: residency.medium,
      locality: localityOf(residency),
      ownership: residency.ownership,
      isLocalGpu: isLocalGpu(residency),
    };
    this.slots.push(slot);
    this.byKey.set(`${groupId} ${media}`, slot);
    return slot;
  }

  /** Slots of exactly this residency; `groupId` undefined = of every group. */
  matching(groupId: GroupId | undefined, residency: Residency): readonly Slot[] {
    if (groupId === undefined) return this.slots.filter((slot) => isIn(slot, residency));
    const slot = this.find(groupId, residency);
    return slot === undefined ? [] : [slot];
  }

  /** Slots of a group and medium, whatever locality and ownership; undefined = every one. */
  inScope(groupId: GroupId | undefined, medium: string | undefined): readonly Slot[] {
    return this.slots.filter(
      (slot) =>
        (groupId === undefined || slot.groupId === groupId) &&
        (medium === undefined || slot.medium === medium),
    );
  }

  /** Every slot, by index. */
  all(): readonly Slot[] {
    return this.slots;
  }

  /** Forgets every slot. */
  clear(): void {
    this.slots.length = 0;
    this.byKey.clear();
    this.media.clear();
    this.last = undefined;
  }

  private find(groupId: GroupId, residency: Residency): Slot | undefined {
    const { last } = this;
    if (last !== undefined && last.groupId === groupId && isIn(last, residency)) return last;
    const slot = this.byKey.get(`${groupId} ${residencyKey(residency)}`);
    this.last = slot ?? last;
    return slot;
  }
}
