/**
 * What it is: planted bugs of recomputed hashes: of the bridge's places and tails, and of the gateway's unplaced blocks.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: touch any other object than the pipeline or gateway that it is given.
 */
import type { RankPipeline } from "@kv-group-bridge/bridge";
import type { Gateway } from "@kv-group-bridge/gateway";

/** What is reached into: the types of a package's private parts do not leave it. */
interface ToldBlock {
  ownsEntry: boolean;
}

interface Contents {
  readonly events: unknown[];
  readonly unplacedRemoved: unknown[];
  readonly unplacedStored: unknown[];
}

interface Unplaced {
  unplace(block: ToldBlock): void;
  clear(groupId: number, mediumId: number): void;
  setScheme(scheme: undefined, lookaheadTokens: number): void;
  retire(): void;
}

interface View {
  readonly unplaced: Unplaced;
  write(contents: Contents, isSnapshot: boolean): unknown;
}

type MakeFollower = (this: Gateway, ...settings: unknown[]) => { readonly view: View };

interface HeldEntries {
  lostTail(block: object): void;
}

interface BlockLink {
  readonly block: object;
  readonly next: BlockLink | undefined;
}

interface Search {
  take(tail: { readonly first: BlockLink | undefined; readonly scheme: object }): readonly object[];
  remove(block: object, scheme: object): void;
}

const EVERY = -1;

/** Equal last tokens are enough to place a block. */
export function trustsTails(gateway: Gateway): void {
  const search: Search = gateway["search"];
  search.take = ({ first, scheme }) => {
    const blocks: object[] = [];
    for (let link = first; link !== undefined; link = link.next) blocks.push(link.block);
    for (const block of blocks) search.remove(block, scheme);
    return blocks;
  };
}

/** Unplaced blocks that go are taken away after the events, which may have just stored them with a place. */
export function removesUnplacedLate(gateway: Gateway): void {
  changeViews(gateway, (view) => {
    const write = view.write.bind(view);
    view.write = ({ events, unplacedRemoved, unplacedStored }, isSnapshot) => {
      const refusal = write({ events, unplacedRemoved: [], unplacedStored: [] }, isSnapshot);
      if (refusal !== undefined) return refusal;
      write({ events: [], unplacedRemoved, unplacedStored: [] }, isSnapshot);
      return write({ events: [], unplacedRemoved: [], unplacedStored }, isSnapshot);
    };
  });
}

/** Where a block was found, its entry stays when the block goes. */
export function keepsFoundBlocks(gateway: Gateway): void {
  changeUnplaced(gateway, (unplaced) => {
    const unplace = unplaced.unplace.bind(unplaced);
    unplaced.unplace = (block) => {
      block.ownsEntry = false;
      unplace(block);
    };
  });
}

/** What empties a scope leaves its unplaced blocks. */
export function keepsClearedUnplaced(gateway: Gateway): void {
  changeUnplaced(gateway, (unplaced) => {
    const clear = unplaced.clear.bind(unplaced);
    unplaced.clear = () => undefined;
    unplaced.retire = () => {
      clear(EVERY, EVERY);
      unplaced.setScheme(undefined, 0);
    };
  });
}

/** A bridge that goes on from a checkpoint has forgotten which blocks it could tell without a place. */
export function losesTails(pipeline: RankPipeline): void {
  const { mirror } = pipeline;
  const held: HeldEntries = mirror["held"];
  for (const block of mirror.all()) {
    if (!block.isTellable) continue;
    held.lostTail(block);
    block.hasTail = false;
  }
}

/** A block is given the digest of the block before it in the engine's stores, whatever its chain. */
export function mixesDigests(pipeline: RankPipeline): void {
  const places: { giveDigest(block: object, digest: string): void } = pipeline.mirror["places"];
  const giveDigest = places.giveDigest.bind(places);
  let last: string | undefined;
  places.giveDigest = (block, digest) => {
    giveDigest(block, last ?? digest);
    last = digest;
  };
}

function changeUnplaced(gateway: Gateway, change: (unplaced: Unplaced) => void): void {
  changeViews(gateway, ({ unplaced }) => change(unplaced));
}

/** Changes the view of every rank that is followed from now on. */
function changeViews(gateway: Gateway, change: (view: View) => void): void {
  const makeFollower: MakeFollower = gateway["makeFollower"];
  gateway["makeFollower"] = (...settings: unknown[]) => {
    const follower = makeFollower.apply(gateway, settings);
    change(follower.view);
    return follower;
  };
}
