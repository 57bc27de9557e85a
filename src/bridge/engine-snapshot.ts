/**
 * What it is: the engine's words for what its GPU holds, piece by piece, while live batches go on.
 * Owns: its way through the words, and which blocks it told before their turn. Each piece tells what is held at the
 * moment it is taken; what changes afterwards is said by the batches that follow it.
 * Refuses: nothing.
 * Does not do: keep words alive, or hold the rank still.
 */
import type { KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { type BlockHash, type GroupId, LIMITS } from "@kv-group-bridge/protocol";
import { engineStore, type GroupFacts } from "./convert.ts";
import type { BlockWords, EngineWords, GroupWords } from "./engine-words.ts";
import type { SnapshotPiece, SnapshotReader } from "./rank-output.ts";

/** A block, or a group that holds nothing: it is told too, as a consumer must not act as if it did not exist. */
interface Step {
  readonly group: GroupWords;
  readonly words: BlockWords | undefined;
}

const NO_TOKENS = new Uint32Array(0);

/** One reader for one subscriber; forgotten when a new epoch begins. */
export class EngineSnapshot implements SnapshotReader {
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly maxTokens: number;
  private readonly steps: Iterator<Step>;
  private isDone = false;

  constructor(
    words: EngineWords,
    factsOf: (groupId: GroupId) => GroupFacts,
    maxTokens = LIMITS.engineSnapshotTokens.value,
  ) {
    this.factsOf = factsOf;
    this.maxTokens = maxTokens;
    this.steps = stepsOf(words);
  }

  next(maxBlocks: number): SnapshotPiece | undefined {
    if (this.isDone) return undefined;
    const runs = new StoreRuns(this.factsOf);
    while (runs.blocks < maxBlocks && (runs.blocks === 0 || runs.tokens < this.maxTokens)) {
      const step = this.steps.next();
      if (step.done === true) {
        this.isDone = true;
        break;
      }
      const { group, words } = step.value;
      if (words === undefined) runs.addEmpty(group);
      else runs.add(group, words);
    }
    const events = runs.take();
    return this.isDone && events.length === 0 ? undefined : { events, unplaced: [] };
  }
}

/** Every block that is held when its turn comes, behind the blocks that it stands on. */
function* stepsOf(all: EngineWords): Generator<Step, void, undefined> {
  for (const group of all.all()) {
    if (group.blocks.size === 0) yield { group, words: undefined };
    const early = new Set<BlockWords>();
    for (const turn of group.blocks.values()) {
      if (early.delete(turn)) continue;
      for (const words of standingBelow(group, turn, early)) {
        // Between two steps it may have been removed, or been stored anew, which a live batch says.
        if (group.blocks.get(words.hash) === words) yield { group, words };
      }
    }
  }
}

/**
 * The block whose turn it is, last, and before it those of its chain whose turn would come later: a parent that was
 * removed and stored again stands behind its children. They are noted in `early`.
 */
function standingBelow(
  group: GroupWords,
  turn: BlockWords,
  early: Set<BlockWords>,
): readonly BlockWords[] {
  const chain = [turn];
  let below = parentOf(group, turn);
  // Also ends where hashes stand on each other in a circle, which only a broken engine says.
  while (below !== undefined && below.serial > turn.serial && !early.has(below)) {
    early.add(below);
    chain.push(below);
    below = parentOf(group, below);
  }
  return chain.reverse();
}

function parentOf(group: GroupWords, { parent }: BlockWords): BlockWords | undefined {
  return parent === undefined ? undefined : group.blocks.get(parent);
}

/** Joins blocks of one chain, and hashes of sparse stores, into few events. */
class StoreRuns {
  blocks = 0;
  tokens = 0;
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly events: KvGroupEvent[] = [];
  private group: GroupWords | undefined = undefined;
  private run: BlockWords[] = [];

  constructor(factsOf: (groupId: GroupId) => GroupFacts) {
    this.factsOf = factsOf;
  }

  add(group: GroupWords, words: BlockWords): void {
    const last = this.run.at(-1);
    if (group !== this.group || last === undefined || !this.continues(last, words)) this.end();
    this.group = group;
    this.run.push(words);
    this.blocks += 1;
    this.tokens += words.tokens?.length ?? 0;
  }

  /** A store without hashes names the group and its metadata. */
  addEmpty({ groupId, blockSizeTokens }: GroupWords): void {
    this.end();
    const facts = this.factsOf(groupId);
    const event = {
      parent: undefined,
      tokens: NO_TOKENS,
      blockSizeTokens,
      loraName: undefined,
      loraId: undefined,
    };
    this.events.push(engineStore(event, { groupId, hashes: [], facts, isMatchable: false }));
  }

  take(): readonly KvGroupEvent[] {
    this.end();
    return this.events;
  }

  private continues(last: BlockWords, words: BlockWords): boolean {
    const isDense = words.tokens !== undefined;
    return (
      this.run.length < LIMITS.hashesPerEvent.value &&
      isDense === (last.tokens !== undefined) &&
      words.parent === (isDense ? last.hash : last.parent) &&
      words.blockSizeTokens === last.blockSizeTokens &&
      words.isMatchable === last.isMatchable &&
      words.loraName === last.loraName &&
      words.loraId === last.loraId
    );
  }

  private end(): void {
    const [first] = this.run;
    if (this.group === undefined || first === undefined) return;
    const { groupId } = this.group;
    const { parent, blockSizeTokens, loraName, loraId, isMatchable } = first;
    const hashes: BlockHash[] = this.run.map(({ hash }) => hash);
    const tokens = joined(this.run);
    const facts = this.factsOf(groupId);
    this.events.push(
      engineStore(
        { parent, tokens, blockSizeTokens, loraName, loraId },
        { groupId, hashes, facts, isMatchable },
      ),
    );
    this.run = [];
  }
}

/** The tokens of a run; none for hashes of sparse stores. */
function joined(run: readonly BlockWords[]): Uint32Array {
  const tokens = new Uint32Array(run.reduce((sum, words) => sum + (words.tokens?.length ?? 0), 0));
  let used = 0;
  for (const words of run) {
    if (words.tokens === undefined) continue;
    tokens.set(words.tokens, used);
    used += words.tokens.length;
  }
  return tokens;
}
