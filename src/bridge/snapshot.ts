/**
 * What it is: what a mirror holds, piece by piece, while the mirror goes on.
 * Owns: an iterator over the mirror's blocks. Each piece tells what is held at the moment it is taken; what
 * changes afterwards is said by the batches that follow it, so the end state is the same (design: set-like).
 * Refuses: nothing.
 * Does not do: keep blocks alive or hold the mirror still.
 */
import type { KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { GroupId, HashKeys } from "@kv-group-bridge/protocol";
import type { Block } from "./block.ts";
import { type GroupFacts, KeyEvents } from "./convert.ts";
import type { Mirror } from "./mirror.ts";
import type { SnapshotPiece, SnapshotReader } from "./rank-output.ts";
import { UnplacedEvents } from "./unplaced-events.ts";

/** One reader for one subscriber; forgotten when a new epoch begins. */
export class MirrorSnapshot implements SnapshotReader {
  private readonly mirror: Mirror;
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly blocks: IterableIterator<Block>;
  private readonly unplaced: UnplacedEvents;
  private isDone = false;

  constructor(mirror: Mirror, hashKeys: HashKeys, factsOf: (groupId: GroupId) => GroupFacts) {
    this.mirror = mirror;
    this.factsOf = factsOf;
    this.unplaced = new UnplacedEvents(hashKeys, factsOf);
    this.blocks = mirror.all();
  }

  next(maxBlocks: number): SnapshotPiece | undefined {
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
      if (block.heldSlots === 0 || !(block.isPlaced || block.isTellable)) continue;
      for (const slot of this.mirror.allSlots()) {
        if (block.copiesIn(slot) === 0) continue;
        taken += 1;
        if (!block.isPlaced) {
          this.unplaced.stored(slot, block);
          continue;
        }
        let events = perSlot.get(slot.index);
        if (events === undefined) {
          events = new KeyEvents(this.factsOf);
          perSlot.set(slot.index, events);
        }
        events.stored(slot, block);
      }
    }
    const events: KvGroupEvent[] = [];
    for (const ofSlot of perSlot.values()) events.push(...ofSlot.take());
    const unplaced = this.unplaced.takeStored();
    return this.isDone && taken === 0 ? undefined : { events, unplaced };
  }
}
