/**
 * What it is: the engine's own words for what its GPU holds: per group and hash the parent, the tokens and what else an
 * ENGINE subscriber was told. It is what a consumer of the ENGINE events holds that was there from the start.
 * Owns: prompts, in memory alone; the account of their bytes.
 * Invariants: the account equals the sum of what is kept and never passes its bound; serials rise in the order of
 * iteration.
 * Refuses: nothing; the words of a block that does not fit are not kept, and `blocks` is lower than what is held.
 * Does not do: count copies, write to a file or a log, or build messages (engine-snapshot.ts does).
 */
import type { BlockHash, GroupId } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { StoreEvent } from "./vllm-event.ts";

/** What the words say of one block. Never changed; a later store of the same hash puts others in their place. */
export interface BlockWords {
  /** In one group the smaller one comes first. */
  readonly serial: number;
  readonly hash: BlockHash;
  /** The block before it, or, where its tokens are not known, before the span it was stored with; undefined = root. */
  readonly parent: BlockHash | undefined;
  /** Its own tokens; undefined = a sparse store named it, and no ordinal says which tokens of the span are its own. */
  readonly tokens: Uint32Array | undefined;
  readonly blockSizeTokens: number;
  /** Equal tokens mean an equal block; false without tokens. */
  readonly isMatchable: boolean;
  readonly loraName: string | undefined;
  readonly loraId: bigint | undefined;
}

/** One group of an engine. */
export interface GroupWords {
  readonly groupId: GroupId;
  /** By hash; safe while it changes (Map iteration). */
  readonly blocks: Map<BlockHash, BlockWords>;
  /** Of the last store; > 0 once a store said so. */
  blockSizeTokens: number;
  /** What its blocks are charged. */
  bytes: number;
}

/** Charged for each block beside its tokens and the bytes of its hash: objects and their slots in maps. */
export const WORDS_OVERHEAD_BYTES = 352;
const TOKEN_BYTES = 4;

/** One rank's words. */
export class EngineWords {
  private readonly maxBytes: number;
  private readonly groups = new Map<GroupId, GroupWords>();
  private lastSerial = 0;
  private usedBytes = 0;
  private keptBlocks = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** Blocks whose words are kept; one hash in two groups is two blocks. */
  get blocks(): number {
    return this.keptBlocks;
  }

  /** What is kept, in bytes; never more than the bound. */
  get bytes(): number {
    return this.usedBytes;
  }

  /** Every group that was named since the last `reset`, also those that hold nothing; safe while it changes. */
  all(): IterableIterator<GroupWords> {
    return this.groups.values();
  }

  /** The engine's words for a store that the mirror took, in the GPU. `hashes`: those that were taken. */
  stored(
    event: StoreEvent,
    stored: {
      readonly groupId: GroupId;
      readonly hashes: readonly BlockHash[];
      readonly isMatchable: boolean;
    },
  ): void {
    const { hashes } = stored;
    const { tokens, blockSizeTokens, loraName, loraId } = event;
    const group = this.obtain(stored.groupId);
    if (blockSizeTokens > 0) group.blockSizeTokens = blockSizeTokens;
    // As every consumer of the events judges: with hashes left out, none of them says where its tokens are.
    const isDense = tokens.length > 0 && hashes.length * blockSizeTokens === tokens.length;
    let { parent } = event;
    for (const [index, hash] of hashes.entries()) {
      const known = group.blocks.get(hash);
      // A store that tells less takes nothing away: the same hash is the same block.
      if (!isDense && known?.tokens !== undefined) continue;
      const begin = index * blockSizeTokens;
      this.put(group, {
        serial: known?.serial ?? ++this.lastSerial,
        hash,
        parent,
        tokens: isDense ? tokens.slice(begin, begin + blockSizeTokens) : undefined,
        blockSizeTokens,
        isMatchable: isDense && stored.isMatchable,
        loraName,
        loraId,
      });
      if (isDense) parent = hash;
    }
  }

  /** The GPU holds a hash no more. */
  removed(groupId: GroupId, hash: BlockHash): void {
    const group = this.groups.get(groupId);
    const words = group?.blocks.get(hash);
    if (group !== undefined && words !== undefined) this.drop(group, words);
  }

  /** The GPU holds nothing of a group; undefined = of every group. The groups themselves stay known. */
  cleared(groupId: GroupId | undefined): void {
    for (const group of this.groups.values()) {
      if (groupId !== undefined && group.groupId !== groupId) continue;
      this.usedBytes -= group.bytes;
      this.keptBlocks -= group.blocks.size;
      group.blocks.clear();
      group.bytes = 0;
    }
  }

  /** Begins anew: not even a group is known. */
  reset(): void {
    this.groups.clear();
    this.usedBytes = 0;
    this.keptBlocks = 0;
  }

  /** Recomputes the account. For tests and debugging: linear in what is kept. */
  audit(): void {
    let bytes = 0;
    let blocks = 0;
    for (const group of this.groups.values()) {
      let last = 0;
      const before = bytes;
      for (const [hash, words] of group.blocks) {
        invariant(words.hash === hash, "words are filed under their hash");
        invariant(words.serial > last, "serials rise in the order of iteration");
        last = words.serial;
        bytes += costOf(words);
        blocks += 1;
      }
      invariant(bytes - before === group.bytes, "a group's account is the sum of its blocks");
    }
    invariant(bytes === this.usedBytes, "the account is the sum of what is kept");
    invariant(blocks === this.keptBlocks, "every block is counted");
    invariant(bytes <= this.maxBytes, "the words stay below their bound");
  }

  private obtain(groupId: GroupId): GroupWords {
    let group = this.groups.get(groupId);
    if (group === undefined) {
      group = { groupId, blocks: new Map(), blockSizeTokens: 0, bytes: 0 };
      this.groups.set(groupId, group);
    }
    return group;
  }

  /** In place of what was known of the hash, or nothing at all when it does not fit. */
  private put(group: GroupWords, words: BlockWords): void {
    const known = group.blocks.get(words.hash);
    const change = costOf(words) - (known === undefined ? 0 : costOf(known));
    if (this.usedBytes + change > this.maxBytes) {
      if (known !== undefined) this.drop(group, known);
      return;
    }
    this.usedBytes += change;
    group.bytes += change;
    if (known === undefined) this.keptBlocks += 1;
    group.blocks.set(words.hash, words);
  }

  private drop(group: GroupWords, words: BlockWords): void {
    group.blocks.delete(words.hash);
    group.bytes -= costOf(words);
    this.usedBytes -= costOf(words);
    this.keptBlocks -= 1;
  }
}

function costOf({ hash, tokens }: BlockWords): number {
  return WORDS_OVERHEAD_BYTES + hash.length + TOKEN_BYTES * (tokens?.length ?? 0);
}
