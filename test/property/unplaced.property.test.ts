// Goal: a gateway that is told blocks without a place answers as one that was told every place, and says so where it
// cannot.
// Method: a random engine holds blocks of random prompts over a small alphabet, so that prefixes and tails agree often.
// Some blocks are told as events and some without a place, with decoys between them that share a tail and no hash; they
// come, go, get a place, are cleared and withdrawn, and what is known of the engine's scheme comes and goes. A twin gets
// every block as an event. Gateways join late, in pieces of a snapshot. At any query none is above the twin, and whoever
// does not say `unplaced_blocks` is equal to it.
import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type NamedPrompt, PromptKeys } from "../../src/gateway/dist/prompt-keys.js";
import { type HashScheme, hashSchemeToWire, writeKey } from "../../src/protocol/dist/index.js";
import { Dice } from "../support/random-caches.ts";
import { fakeScheme } from "../unit/gateway/fake-hashes.ts";
import {
  type EngineInit,
  type EventInit,
  engine,
  HASHER,
  start,
  withdraw,
} from "../unit/gateway/messages.ts";
import {
  batchWith,
  blockKeys,
  chunkWith,
  type UnplacedInit,
} from "../unit/gateway/unplaced-messages.ts";
import { Bench } from "../unit/gateway/view-bench.ts";

const RUNS = 150;
const STEPS = 120;
const MEDIA = ["GPU", "CPU"] as const;

/** A block that the engine holds. */
interface Held {
  readonly groupId: number;
  readonly medium: string;
  readonly endTokens: number;
  readonly prefixKey: Uint8Array;
  readonly hashKey: Uint8Array;
  readonly tailKey: Uint8Array;
  /** Not in the twin; no prompt has its hash. */
  readonly isDecoy: boolean;
  isPlaced: boolean;
}

/** What a batch says. */
interface Words {
  readonly removed?: readonly Held[];
  readonly events?: readonly EventInit[];
  readonly stored?: readonly Held[];
}

/** The engine, its bridge, gateways that hear what it says, and the twin that hears places alone. */
class World {
  readonly dice: Dice;
  readonly scheme: HashScheme;
  readonly lookahead: number;
  readonly prompts: readonly NamedPrompt[];
  readonly held = new Map<string, Held>();
  readonly twin = new Bench();
  readonly gateways: Bench[] = [];
  compared = 0;
  private known: EngineInit;
  private sequence = 0;

  constructor(seed: number) {
    this.dice = new Dice(seed);
    this.lookahead = this.dice.int(0, 2);
    const unitTokens = this.dice.int(2, 4);
    this.scheme = fakeScheme({ unitTokens, loraPaths: new Map([["a", "/a"]]) });
    this.known = this.description(this.scheme);
    this.prompts = Array.from({ length: 12 }, () => this.prompt());
    this.join(this.twin);
    this.joinLate();
  }

  step(): void {
    const { dice } = this;
    const turn = dice.int(0, 19);
    if (turn < 7) this.say(this.stores());
    else if (turn < 10) this.say(this.removals());
    else if (turn < 11) this.say(this.clear());
    else if (turn < 12) this.withdraw();
    else if (turn < 13) this.forgetScheme();
    else if (turn < 14 && this.gateways.length < 4) this.joinLate();
    else this.query();
  }

  query(): void {
    const { dice } = this;
    const asked = dice.pick(this.prompts);
    const hidden = asked.multimodalItems?.map(({ identifier, offset }) => ({ identifier, offset }));
    const prompt = dice.chance(0.2) ? { ...asked, multimodalItems: hidden } : asked;
    const expected = this.twin.score(prompt);
    for (const bench of this.gateways) {
      const reusable = bench.score(prompt);
      const { hasUnplacedBlocks, unplaced } = bench.view;
      const isLower = hasUnplacedBlocks || unplaced.obstructedQuery === bench.search.queryNumber;
      expect(reusable).toBeLessThanOrEqual(expected);
      if (isLower) continue;
      expect(reusable).toBe(expected);
      this.compared++;
    }
  }

  /** Every place that can be found was found, and nothing else. */
  settle(): void {
    this.known = this.description(this.scheme);
    for (const { view } of this.gateways) view.apply(engine(this.known));
    const reach = new Set<string>();
    for (const prompt of this.prompts) {
      for (const bench of this.gateways) bench.score(prompt);
      for (const end of this.ends(prompt)) reach.add(nameOf(this.keyAt(prompt, end)));
    }
    const unplaced = [...this.held.values()].filter((block) => !block.isPlaced);
    const findable = unplaced.filter(
      (block) => !block.isDecoy && reach.has(nameOf(block.prefixKey)),
    );
    for (const bench of this.gateways) {
      expect(bench.view.unplaced.toldBlocks).toBe(unplaced.length);
      expect(bench.view.unplaced.foundBlocks).toBe(findable.length);
      expect(entriesOf(bench)).toBe(entriesOf(this.twin));
    }
  }

  private prompt(): NamedPrompt {
    const { dice } = this;
    const tokens = Array.from({ length: dice.int(0, 24) }, () => dice.int(1, 2));
    const offset = dice.int(0, tokens.length - 1);
    const item = { identifier: `image ${dice.int(0, 1)}`, offset, length: dice.int(1, 3) };
    return {
      tokens,
      loraName: dice.chance(0.2) ? "a" : undefined,
      cacheSalt: dice.chance(0.2) ? "salt" : undefined,
      multimodalItems: tokens.length > 0 && dice.chance(0.3) ? [item] : undefined,
    };
  }

  private description(scheme: HashScheme | undefined): EngineInit {
    const block = this.scheme.unitTokens * 2;
    const group = { blockSize: block, isSeen: true };
    const state = scheme === undefined ? "searching" : "proven";
    return {
      groups: [
        { ...group, groupId: 0, kind: "full_attention" },
        { ...group, groupId: 1, kind: "mamba" },
      ],
      isRosterComplete: true,
      schedulerBlockSize: block,
      hashBlockSize: this.scheme.unitTokens,
      isFine: true,
      lookaheadTokens: this.lookahead,
      hashScheme: hashSchemeToWire({ state, scheme }),
    };
  }

  private ends({ tokens }: NamedPrompt): readonly number[] {
    const unit = this.scheme.unitTokens;
    const count = Math.max(0, Math.floor((tokens.length - this.lookahead) / unit));
    return Array.from({ length: count }, (_, i) => (i + 1) * unit);
  }

  private keyAt(prompt: NamedPrompt, endTokens: number): Uint8Array {
    const keys = new PromptKeys(HASHER);
    keys.begin(prompt);
    keys.seek(endTokens + this.lookahead);
    const bytes = new Uint8Array(8);
    writeKey(bytes, 0, keys.keyLow, keys.keyHigh);
    return bytes;
  }

  /** Blocks of one prompt, most of the way, in one medium and a group or two. */
  private stores(): Words {
    const { dice, scheme, lookahead } = this;
    const prompt = dice.pick(this.prompts);
    const events: EventInit[] = [];
    const stored: Held[] = [];
    const medium = dice.chance(0.8) ? MEDIA[0] : MEDIA[1];
    for (const endTokens of this.ends(prompt)) {
      for (const groupId of [0, 1]) {
        if (dice.chance(0.3)) continue;
        const isDecoy = dice.chance(0.1);
        const keys = blockKeys(scheme, lookahead, prompt, endTokens);
        const hashKey = isDecoy ? Uint8Array.from(keys.hashKey, (byte) => byte ^ 85) : keys.hashKey;
        const prefixKey = this.keyAt(prompt, endTokens);
        const isPlaced = !isDecoy && dice.chance(0.4);
        const place = { groupId, medium, endTokens, prefixKey, ...keys };
        const block = { ...place, hashKey, isDecoy, isPlaced };
        const name = `${groupId} ${medium} ${nameOf(hashKey)}`;
        if (this.held.has(name)) continue;
        this.held.set(name, block);
        if (isPlaced) events.push(this.event(block, Operation.STORE));
        else stored.push(block);
      }
    }
    return { events, stored };
  }

  /** Some blocks go, and some that had no place get one. */
  private removals(): Words {
    const { dice } = this;
    const events: EventInit[] = [];
    const removed: Held[] = [];
    for (const [name, block] of this.held) {
      if (!dice.chance(0.2)) continue;
      const learns = !block.isPlaced && !block.isDecoy && dice.chance(0.5);
      if (block.isPlaced) events.push(this.event(block, Operation.REMOVE));
      else removed.push(block);
      if (learns) {
        events.push(this.event(block, Operation.STORE));
        block.isPlaced = true;
      } else this.held.delete(name);
    }
    return { removed, events };
  }

  private clear(): Words {
    const { dice } = this;
    const groupId = dice.int(0, 1);
    const medium = dice.chance(0.5) ? "" : dice.pick(MEDIA);
    const clearsAllGroups = dice.chance(0.3);
    this.drop(clearsAllGroups ? undefined : groupId, medium === "" ? undefined : medium);
    const scope = { groupId, clearsAllGroups, medium };
    const { events, stored } = dice.chance(0.5) ? this.stores() : { events: [], stored: [] };
    return {
      events: [{ operation: Operation.CLEAR, ...scope }, ...(events ?? [])],
      stored: stored ?? [],
    };
  }

  private withdraw(): void {
    const { dice } = this;
    const groupId = dice.chance(0.5) ? undefined : dice.int(0, 1);
    const medium = dice.chance(0.5) ? undefined : dice.pick(MEDIA);
    this.drop(groupId, medium);
    for (const bench of [this.twin, ...this.gateways]) bench.take(withdraw(groupId, medium));
  }

  private drop(groupId: number | undefined, medium: string | undefined): void {
    for (const [name, block] of this.held) {
      const isIn = groupId === undefined || block.groupId === groupId;
      if (isIn && (medium === undefined || block.medium === medium)) this.held.delete(name);
    }
  }

  /** What is known of the scheme changes, or is known again. */
  private forgetScheme(): void {
    const { dice, scheme } = this;
    const known = dice.pick([
      [undefined],
      [scheme],
      [{ ...scheme, loraPaths: new Map() }],
      [{ ...scheme, rootDigest: undefined }],
      [{ ...scheme, extraKeyForm: undefined }],
    ])[0];
    this.known = this.description(known);
    for (const { view } of this.gateways) expect(view.apply(engine(this.known)).ok).toBe(true);
  }

  private say({ removed = [], events = [], stored = [] }: Words): void {
    const told = (blocks: readonly Held[]) => blocks.map((block) => this.told(block));
    const words = { removed: told(removed), events, stored: told(stored) };
    const message = batchWith(this.sequence, words);
    for (const bench of this.gateways) expect(bench.take(message)).toEqual([""]);
    const placed = (blocks: readonly Held[], operation: Operation) =>
      blocks.filter((block) => !block.isDecoy).map((block) => this.event(block, operation));
    const gone = placed(removed, Operation.REMOVE);
    const all = [...gone, ...events, ...placed(stored, Operation.STORE)];
    expect(this.twin.take(batchWith(this.sequence, { events: all }))).toEqual([""]);
    this.sequence++;
  }

  private join(bench: Bench): void {
    expect(bench.take(this.startNow(), chunkWith(0, true, [], []))).toEqual(["", ""]);
  }

  private joinLate(): void {
    const { dice } = this;
    const bench = new Bench();
    bench.take(this.startNow());
    const blocks = [...this.held.values()];
    let index = 0;
    while (blocks.length > 0) {
      const piece = blocks.splice(0, dice.int(1, 5));
      const placed = piece.filter((block) => block.isPlaced);
      const events = placed.map((block) => this.event(block, Operation.STORE));
      const told = piece.filter((block) => !block.isPlaced).map((block) => this.told(block));
      bench.take(chunkWith(index, false, events, told));
      index++;
      if (dice.chance(0.2)) bench.score(dice.pick(this.prompts));
    }
    expect(bench.take(chunkWith(index, true, [], []))).toEqual([""]);
    this.gateways.push(bench);
  }

  private startNow() {
    const sequenceNumber = BigInt(this.sequence - 1);
    const cursor = { epoch: 7n, ...(this.sequence === 0 ? {} : { sequenceNumber }) };
    return start({ engine: this.known, cursor });
  }

  private event(block: Held, operation: Operation): EventInit {
    const { groupId, medium, endTokens, prefixKey } = block;
    const place = { endTokens, blockSize: this.blockSizeAt(endTokens) };
    const isStore = operation === Operation.STORE;
    return { operation, groupId, medium, prefixKeys: prefixKey, ...(isStore ? place : {}) };
  }

  private told({ groupId, medium, endTokens, hashKey, tailKey }: Held): UnplacedInit {
    const blockSize = this.blockSizeAt(endTokens);
    return { groupId, medium, blockSize, hashKeys: hashKey, tailKeys: tailKey };
  }

  /** A whole block where one ends, else a partial entry. */
  private blockSizeAt(endTokens: number): number {
    const unit = this.scheme.unitTokens;
    return endTokens % (2 * unit) === 0 ? 2 * unit : unit;
  }
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key).toString("hex");
}

function entriesOf(bench: Bench): number {
  return bench.entries(0) + bench.entries(1);
}

test("whoever is told blocks without a place answers as one that is told every place", () => {
  let compared = 0;
  let reused = 0;
  fc.assert(
    fc.property(fc.nat(), (seed) => {
      const world = new World(seed);
      for (let step = 0; step < STEPS; step++) world.step();
      world.settle();
      compared += world.compared;
      for (const { view } of world.gateways) reused += view.unplaced.foundTotal;
    }),
    { numRuns: RUNS, seed: 20_260 },
  );
  expect(compared).toBeGreaterThan(RUNS * 20);
  expect(reused).toBeGreaterThan(RUNS * 20);
}, 120_000);
