/**
 * What it is: what the gateway knows of one rank: the facts of its stream, and the only writer of
 * its entries in the index. One message is applied whole or not at all.
 * Owns: cursor, completeness, engine description, media, unplaced blocks, the rank's handle.
 * Invariants: the entries of the index are those of `epoch` up to `cursor`, less what was forgotten, and the found
 * unplaced blocks; if something was forgotten that the bridge counts as sent, `isWithdrawn` says so until the next start.
 * Refuses: what breaks the contract, by a reason from a closed list; nothing of such a message is applied.
 * Does not do: open streams, look at clocks, score.
 */
import {
  type Batch,
  Completeness,
  type Heartbeat,
  type SnapshotChunk,
  type Start,
  type SubscribeResponse,
  type Withdraw,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { EngineDescription as WireEngine } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { ALL, type PrefixIndex, type RankHandle } from "@kv-group-bridge/prefix-index";
import {
  contains,
  type EngineDescription,
  engineDescriptionFromWire,
  parseCursor,
  parseSequenceNumber,
  type ResumePoint,
  succession,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { LayoutReason, ViewFacts } from "./answer.ts";
import { type Applied, NOTHING, RESUMED, refuse, STARTED, WHOLE } from "./applied.ts";
import { type ApplyTarget, applyContents, clearScope, withdrawScope } from "./apply.ts";
import type { ApplyCounts } from "./apply-counts.ts";
import type { EventRefusal } from "./check-events.ts";
import { checkStart, type ExpectedStart } from "./check-start.ts";
import { checkContents, type MessageContents } from "./check-unplaced.ts";
import { MediaTable } from "./media.ts";
import type { PlaceSearch } from "./place-search.ts";
import { giveLayout, rankLayout, usableScheme } from "./rank-layout.ts";
import { RankUnplaced } from "./rank-unplaced.ts";
import { ViewCursor } from "./view-cursor.ts";

/** What a view needs. */
export interface RankViewOptions extends ExpectedStart {
  readonly index: PrefixIndex;
  /** Finds places of blocks that were told without one; shared by all views of the index. */
  readonly search: PlaceSearch;
  /** Counted here; may be shared by many views. */
  readonly counts: ApplyCounts;
}

const NO_KINDS: ReadonlyMap<number, string> = new Map();

/** One rank's view. Made empty; `retire` ends it. */
export class RankView implements ViewFacts {
  readonly rank: RankHandle;
  hasView = false;
  layoutReasons: readonly LayoutReason[] = ["no_groups"];
  engine: EngineDescription | undefined = undefined;
  isEngineConnected = false;
  isCatchingUp = false;
  isSnapshotWhole = false;
  isComplete = false;
  /** There are blocks that the bridge cannot tell, or that cannot be searched. */
  hasUnplacedBlocks = false;
  isWithdrawn = false;
  isLimited = false;
  /** Grows whenever a fact above changes. */
  factsRevision = 0;
  /** Kinds of the scored groups, as vLLM calls them. */
  groupKinds: ReadonlyMap<number, string> = NO_KINDS;
  readonly unplaced: RankUnplaced;
  private readonly options: RankViewOptions;
  private readonly target: ApplyTarget;
  private readonly place = new ViewCursor();
  private nextChunk = 0;
  private expectsStart = true;
  private hasUntoldBlocks = false;

  constructor(options: RankViewOptions) {
    const { index, search, counts } = options;
    const rank = index.addRank(undefined);
    this.options = options;
    this.rank = rank;
    this.unplaced = new RankUnplaced({ search, index, rank, counts, view: this });
    this.target = { index, rank, media: new MediaTable(), unplaced: this.unplaced, counts };
  }

  /** The last sequence number applied; undefined = none. */
  get sequenceNumber(): bigint | undefined {
    return this.place.current?.sequence;
  }

  /** Gives the rank's entries and handle back to the index. Nothing may follow. */
  retire(): void {
    this.unplaced.retire();
    this.options.index.retireRank(this.rank);
  }

  /** Where a new stream may go on: the view is whole for that cursor. Else only a snapshot will do. */
  get resumePoint(): ResumePoint | undefined {
    const isWhole = this.isSnapshotWhole && !this.isWithdrawn && !this.isLimited;
    return isWhole ? this.place.resumePoint : undefined;
  }

  /** There is no `resumePoint` any more until the next snapshot. What is known stays. */
  forgetCursor(): void {
    this.place.forget();
  }

  /** A new stream begins; until its start all stays. It is to be asked to go on from the result. */
  beginStream(): ResumePoint | undefined {
    const resume = this.resumePoint;
    this.expectsStart = true;
    this.place.ask(resume);
    return resume;
  }

  /** Takes one message. */
  apply(response: SubscribeResponse): Applied {
    const applied = this.take(response.message);
    const hasUnplacedBlocks = this.hasUntoldBlocks || this.unplaced.isUnsearchable;
    if (hasUnplacedBlocks !== this.hasUnplacedBlocks) this.factsRevision++;
    this.hasUnplacedBlocks = hasUnplacedBlocks;
    return applied;
  }

  private take(message: SubscribeResponse["message"]): Applied {
    if (message.case === "start") return this.start(message.value);
    if (this.expectsStart) return refuse("start_missing");
    switch (message.case) {
      case "batch":
        return this.batch(message.value);
      case "snapshotChunk":
        return this.snapshotChunk(message.value);
      case "heartbeat":
        return this.heartbeat(message.value);
      case "withdraw":
        return this.withdraw(message.value);
      case "engine":
        return this.engineChanged(message.value);
      default:
        // A message of a newer bridge; the contract says: ignore it.
        this.options.counts.unknownMessages++;
        return NOTHING;
    }
  }

  private start(start: Start): Applied {
    const checked = checkStart(start, this.options, this.place.asked);
    if (typeof checked === "string") return refuse(checked);
    const { cursor, engine } = checked;
    if (!start.isResumed) this.forget();
    this.place.start(cursor, start.instance, start.isResumed);
    this.expectsStart = false;
    // A start that goes on tells of the bridge's present; this view's doubts are of its own cursor, until a batch comes.
    this.hasUntoldBlocks ||= start.unplacedBlocks > start.toldUnplacedBlocks;
    const isComplete = this.isComplete && start.completeness === Completeness.COMPLETE;
    this.settle(isComplete, start.isEngineConnected, start.isCatchingUp);
    this.factsRevision++;
    if (this.adopt(engine)) return start.isResumed ? RESUMED : STARTED;
    invariant(start.isResumed, "an empty rank takes any layout");
    this.isWithdrawn = true;
    return refuse("engine_changed");
  }

  /** Everything known is void; a snapshot follows. */
  private forget(): void {
    clearScope(this.target, ALL, ALL);
    this.unplaced.foundTotal = 0;
    this.target.media.reset();
    this.nextChunk = 0;
    this.hasView = true;
    this.hasUntoldBlocks = false;
    this.isComplete = true;
    this.isSnapshotWhole = false;
    this.isWithdrawn = false;
    this.isLimited = false;
  }

  private snapshotChunk(chunk: SnapshotChunk): Applied {
    if (this.isSnapshotWhole || chunk.index !== this.nextChunk) return refuse("chunk_misplaced");
    const { events, unplaced } = chunk;
    const refusal = this.write({ events, unplacedRemoved: [], unplacedStored: unplaced }, true);
    if (refusal !== undefined) return refuse(refusal);
    this.nextChunk++;
    if (!chunk.isLast) return NOTHING;
    this.isSnapshotWhole = true;
    this.factsRevision++;
    return WHOLE;
  }

  private batch(message: Batch): Applied {
    const cursor = this.place.current;
    invariant(cursor !== undefined, "a start sets the cursor");
    const { batch } = message;
    const sequence = batch === undefined ? undefined : parseSequenceNumber(batch.sequenceNumber);
    if (batch === undefined || sequence === undefined) return refuse("batch_invalid");
    if (message.epoch !== cursor.epoch) return refuse("epoch_differs");
    switch (succession(cursor.sequence, sequence)) {
      case "gap":
        return refuse("sequence_gap");
      case "repeat":
      case "older":
        // Contained already: applying it again could bring back what was removed since.
        this.options.counts.repeatedBatches++;
        return NOTHING;
      default:
        break;
    }
    const refusal = this.write(batch, false);
    if (refusal !== undefined) return refuse(refusal);
    this.place.advance(sequence);
    this.hasUntoldBlocks = message.unplacedBlocks > message.toldUnplacedBlocks;
    const isComplete = message.completeness === Completeness.COMPLETE;
    this.settle(isComplete, this.isEngineConnected, message.isCatchingUp);
    return NOTHING;
  }

  private heartbeat(heartbeat: Heartbeat): Applied {
    const theirs = parseCursor(heartbeat.cursor);
    const ours = this.place.current;
    invariant(ours !== undefined, "a start sets the cursor");
    if (theirs === undefined || !contains(ours, theirs)) return refuse("cursor_behind");
    this.settle(this.isComplete, heartbeat.isEngineConnected, heartbeat.isCatchingUp);
    return NOTHING;
  }

  private withdraw(message: Withdraw): Applied {
    withdrawScope(this.target, message);
    this.options.counts.withdrawals++;
    this.place.pass();
    // The next batch says what the bridge thinks of its view since.
    this.settle(false, this.isEngineConnected, this.isCatchingUp);
    return NOTHING;
  }

  /**
   * Takes a changed description. Entries that would mean something else under it are forgotten, and the stream begins
   * anew to have them again: then this view equals that of a gateway that joins now.
   */
  private engineChanged(wire: WireEngine): Applied {
    const engine = engineDescriptionFromWire(wire);
    if (engine === undefined) return refuse("engine_invalid");
    const isKept = this.adopt(engine);
    this.factsRevision++;
    if (isKept) return NOTHING;
    this.isWithdrawn = true;
    return refuse("engine_changed");
  }

  /** Sets engine and layout; false = the rank's entries had to be cleared for it. */
  private adopt(engine: EngineDescription | undefined): boolean {
    const result = engine === undefined ? undefined : rankLayout(engine);
    this.engine = engine;
    const layout = result?.ok === true ? result.layout : undefined;
    this.layoutReasons = result === undefined ? ["no_groups"] : result.ok ? [] : result.reasons;
    this.groupKinds = result?.ok === true ? result.groupKinds : NO_KINDS;
    const lookahead = layout?.lookaheadTokens ?? 0;
    this.unplaced.setScheme(layout && usableScheme(engine, lookahead), lookahead);
    if (giveLayout(this.options.index, this.rank, layout)) return true;
    clearScope(this.target, ALL, ALL);
    invariant(this.options.index.setLayout(this.rank, layout), "an empty rank takes any layout");
    return false;
  }

  /** Applies a message's contents, or says why they are refused. */
  private write(contents: MessageContents, isSnapshot: boolean): EventRefusal | undefined {
    const verdict = checkContents(contents, isSnapshot);
    if (verdict === "unknown_operation") this.withdrawAll();
    else if (verdict !== "sound") return verdict;
    else if (!applyContents(this.target, contents)) this.limit();
    return undefined;
  }

  /** It cannot be told what an unknown operation took away: all of this rank is forgotten. */
  private withdrawAll(): void {
    clearScope(this.target, ALL, ALL);
    this.options.counts.unknownOperations++;
    this.isWithdrawn = true;
    this.factsRevision++;
  }

  /** A block of the GPU was lost at a bound. */
  limit(): void {
    if (this.isLimited) return;
    this.isLimited = true;
    this.factsRevision++;
  }

  private settle(isComplete: boolean, isConnected: boolean, isCatchingUp: boolean): void {
    const isSame = isComplete === this.isComplete && isConnected === this.isEngineConnected;
    if (isSame && isCatchingUp === this.isCatchingUp) return;
    this.isComplete = isComplete;
    this.isEngineConnected = isConnected;
    this.isCatchingUp = isCatchingUp;
    this.factsRevision++;
  }
}
