/**
 * What it is: what a mirror holds, piece by piece, while the mirror goes on.
 * Owns: an iterator over the mirror's blocks. Each piece tells what is held at the moment it is taken; what
 * changes afterwards is said by the batches that follow it, so the end state is the same (design: set-like).
 * Refuses: nothing.
 * Does not do: keep blocks alive or hold the mirror still.
 */
import type { KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { GroupId } from "@kv-group-bridge/protocol";
import type { Block } from "./block.ts";
import { type GroupFacts, KeyEvents } from "./convert.ts";
import type { Mirror } from "./mirror.ts";
import type { SnapshotReader } from "./rank-output.ts";

/** One reader for one subscriber; forgotten when a new epoch begins. */
export class MirrorSnapshot implements SnapshotReader {
  private readonly mirror: Mirror;
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly blocks: IterableIterator<Block>;
  private isDone = false;

  constructor(mirror: Mirror, factsOf: (groupId: GroupId) => GroupFacts) {
    this.mirror = mirror;
    this.factsOf = factsOf;
    this.blocks = mirror.all();
  }

  next(maxBlocks: number): readonly KvGroupEvent[] | undefined {
    if (this.isDone) return undefined;
    const perSlot = new Map<number, KeyEvents>();
    let taken = 0;
    let visited = 0;
    // Removed blocks are visited too; they count for the time a piece takes, not for its size.
    while (taken < maxBlocks && visited < maxBlocks * 16) {
      const step = this.blocks.next();
      if (step.done === true) {
        this.isDone = true;
        break;
      }
      visited += 1;
      const block = step.value;
      if (!block.isPlaced || block.heldSlots === 0) continue;
      for (const slot of this.mirror.allSlots()) {
        if (block.copiesIn(slot) === 0) continue;
        let events = perSlot.get(slot.index);
        if (events === undefined) {
          events = new KeyEvents(this.factsOf);
          perSlot.set(slot.index, events);
        }
        events.stored(slot, block);
        taken += 1;
      }
    }
    const pieces: KvGroupEvent[] = [];
    for (const events of perSlot.values()) pieces.push(...events.take());
    return this.isDone && pieces.length === 0 ? undefined : pieces;
  }
}
