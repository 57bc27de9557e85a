/**
 * What it is: the laws of recomputed block hashes, over many engines and histories.
 * Method: a model engine (hashing-engine.ts) knows where each of its hashes stands. First law: whatever comes, recomputing
 * never gives a hash another place. Second: what the events of a batch show is placed when it ends. Third: what a stream
 * of batches tells of blocks without a place adds up to what a snapshot tells.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: bounds and single claims (test/unit/bridge/recomputer*.test.ts and others do).
 */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Block } from "../../src/bridge/dist/block.js";
import {
  type EngineConfig,
  UNSTATED_ENGINE,
  UNSTATED_HASHING,
} from "../../src/bridge/dist/engine-config.js";
import { PlaceBook } from "../../src/bridge/dist/place-book.js";
import type { NewPlace } from "../../src/bridge/dist/place-types.js";
import type { RemoveEvent, StoreEvent, VllmEvent } from "../../src/bridge/dist/vllm-event.js";
import { type BlockHash, HASH_ALGORITHMS, isBlockHash } from "../../src/protocol/dist/index.js";
import {
  drawTokens,
  HashingEngine,
  type ModelGroup,
  type ModelOptions,
  type ModelPrompt,
  mixed,
  type TrueEnd,
} from "../support/hashing-engine.ts";
import { PlayedRank } from "../support/played-rank.ts";
import { Dice } from "../support/random-caches.ts";
import { group } from "../support/typed-events.ts";

const RUNS = { numRuns: 250 };
/** Seeds that once broke a law. */
const KNOWN = [64_366_878, 1_333_731_042, 574_073_289, 973_766_839, 1_150_847_476];
const seeds = fc.integer({ min: 1, max: 2 ** 31 });

interface GivenPlace {
  readonly hash: BlockHash;
  readonly end: TrueEnd;
  /** The block before it, with its place at that moment. */
  readonly before: { readonly hash: BlockHash; readonly end: TrueEnd } | undefined;
}

let recomputed: GivenPlace[] = [];

beforeEach(() => {
  const give: unknown = Reflect.get(PlaceBook.prototype, "givePlace");
  if (typeof give !== "function") throw new RangeError("no such method");
  const spied = function (this: PlaceBook, block: Block, place: NewPlace): void {
    const { state, keyLow, keyHigh, before } = place;
    const { hash } = block;
    if (place.by === "recomputed") {
      const end = { endTokens: state.endTokens, keyLow, keyHigh };
      recomputed.push({ hash, end, before: before === undefined ? undefined : endOf(before) });
    }
    Reflect.apply(give, this, [block, place]);
  };
  vi.spyOn(PlaceBook.prototype, "givePlace").mockImplementation(spied);
});

function endOf({ hash, endTokens, keyLow, keyHigh }: Block): NonNullable<GivenPlace["before"]> {
  return { hash, end: { endTokens, keyLow, keyHigh } };
}

afterEach(() => {
  vi.restoreAllMocks();
});

function drawGroups(dice: Dice, isFine: boolean): { unit: number; groups: ModelGroup[] } {
  const unit = dice.pick([2, 4, 4, 8]);
  const kinds = ["full_attention", "sliding_window", "mamba"] as const;
  const groups: ModelGroup[] = [];
  const count = dice.int(1, 4);
  for (let id = 0; id < count; id++) {
    const kind = dice.pick(kinds);
    const blockSizeTokens = unit * dice.pick([1, 2, 4, 6]);
    const hasPartials = kind !== "sliding_window" && dice.chance(isFine ? 0.9 : 0.4);
    groups.push({
      id,
      kind,
      blockSizeTokens,
      hasPartials,
      ...(kind === "sliding_window" ? { windowTokens: unit * dice.int(1, 9) } : {}),
    });
  }
  return { unit, groups };
}

function drawPrompts(dice: Dice, mayHaveItems: boolean): ModelPrompt[] {
  const prompts: ModelPrompt[] = [];
  for (let count = dice.int(2, 8); count > 0; count--) {
    const earlier = prompts.length > 0 && dice.chance(0.4) ? dice.pick(prompts) : undefined;
    const own = drawTokens(dice, dice.int(3, 90));
    const shared =
      earlier?.tokens.subarray(0, dice.int(0, earlier.tokens.length)) ?? new Uint32Array(0);
    const tokens = Uint32Array.from([...shared, ...own]);
    const items = [];
    for (let at = dice.int(0, 20); mayHaveItems && dice.chance(0.5) && at < tokens.length; ) {
      const length = dice.int(1, 20);
      items.push({ identifier: `image ${dice.int(1, 3)}`, offset: at, length });
      at += length + dice.int(0, 9);
    }
    prompts.push({
      tokens,
      ...(dice.chance(0.2) ? { loraName: dice.pick(["a", "b"]) } : {}),
      ...(dice.chance(0.3) ? { cacheSalt: dice.pick(["s", "t", "u"]) } : {}),
      ...(items.length > 0 ? { items } : {}),
    });
  }
  return prompts;
}

const PATHS = new Map([
  ["a", "/adapters/a"],
  ["b", "/adapters/b"],
]);

function drawEngine(dice: Dice, isFine = false): HashingEngine {
  const { unit, groups } = drawGroups(dice, isFine);
  const options: ModelOptions = {
    groups,
    unitTokens: unit,
    lookaheadTokens: dice.chance(0.25) ? dice.int(1, 6) : 0,
    algorithm: dice.pick(HASH_ALGORITHMS),
    seedText: dice.pick(["0", "0", "vllm-none-hash", "nobody guesses this"]),
    form: dice.pick(["integer", "integer", "bytes"]),
    extraKeyForm: dice.pick(["tagged", "untagged"]),
    loraPaths: PATHS,
  };
  return new HashingEngine(options);
}

function configOf(engine: HashingEngine, dice: Dice, isWhollyStated: boolean): EngineConfig {
  const { algorithm, seedText, unitTokens } = engine.options;
  const isStated = (chance: number): boolean => isWhollyStated || dice.chance(chance);
  const wrong = new Map([["a", "/adapters/other"]]);
  return {
    ...UNSTATED_ENGINE,
    hashBlockSizeTokens: isStated(0.3) ? unitTokens : undefined,
    hashing: {
      ...UNSTATED_HASHING,
      algorithm: isStated(0.3) ? algorithm : undefined,
      seedText: isWhollyStated
        ? seedText
        : dice.pick([{}, { text: seedText }, { text: "wrong" }]).text,
      loraPaths: isStated(0.6) ? PATHS : dice.pick([new Map<string, string>(), wrong]),
    },
  };
}

/** Full attention keeps every block; of the others anything may be kept. */
function keepOf(engine: HashingEngine, dice: Dice): HashingEngine["usual"] {
  if (dice.chance(0.6)) return engine.usual;
  return (of) => of.kind === "full_attention" || dice.chance(0.4);
}

/** Every prompt of the engine computed in steps, a batch now and then. */
function* honestBatches(
  engine: HashingEngine,
  prompts: readonly ModelPrompt[],
  dice: Dice,
): Generator<StoreEvent[]> {
  for (const prompt of prompts) {
    const keep = keepOf(engine, dice);
    for (let at = 0; at < prompt.tokens.length; ) {
      const to = dice.chance(0.6)
        ? prompt.tokens.length
        : Math.min(prompt.tokens.length, at + dice.int(1, 40));
      yield mixed(engine.step(prompt, at, to, keep, to === prompt.tokens.length), dice);
      at = to;
    }
  }
}

function fakeHash(like: string, dice: Dice): BlockHash {
  const text = Array.from(like, () => String.fromCharCode(dice.int(0, 255))).join("");
  if (!isBlockHash(text)) throw new RangeError("no hash");
  return text;
}

/** A store that its engine never sent, fit to pass validation. `isInteger`: hashes are not whole digests. */
function twisted(
  event: StoreEvent,
  others: readonly StoreEvent[],
  engine: HashingEngine,
  dice: Dice,
): StoreEvent {
  const all = [...engine.truth.keys()];
  const like = all[0] ?? "12345678";
  let out = event;
  for (let turn = dice.int(1, 3); turn > 0; turn--) {
    const other = dice.pick(others);
    const anyHash = dice.chance(0.5) && all.length > 0 ? dice.pick(all) : fakeHash(like, dice);
    switch (dice.int(0, 7)) {
      case 0:
        out = {
          ...out,
          hashes: out.hashes.map((hash) => (dice.chance(0.5) ? fakeHash(like, dice) : hash)),
        };
        break;
      case 1:
        out = { ...out, parent: dice.chance(0.3) ? undefined : anyHash };
        break;
      case 2:
        out = {
          ...out,
          tokens: out.tokens.map((token) => (dice.chance(0.05) ? token + 1 : token)),
        };
        break;
      case 3:
        out = { ...out, tokens: other.tokens, blockSizeTokens: other.blockSizeTokens };
        break;
      case 4:
        out = { ...out, loraName: dice.pick([{}, { name: "a" }, { name: "b" }]).name };
        break;
      case 5:
        out = { ...out, extraKeys: dice.chance(0.5) ? undefined : out.hashes.map(() => undefined) };
        break;
      case 6:
        out = {
          ...out,
          hashes: all.length > 0 ? out.hashes.map(() => dice.pick(all)) : out.hashes,
        };
        break;
      case 7:
        out = {
          ...out,
          blockSizeTokens: dice.pick([1, 2, out.tokens.length, engine.options.unitTokens]),
        };
        break;
    }
  }
  return valid(out, engine, dice);
}

function valid(event: StoreEvent, engine: HashingEngine, dice: Dice): StoreEvent {
  const size = Math.max(1, event.blockSizeTokens);
  const count = Math.floor(event.tokens.length / size);
  let hashes = [...new Set(event.hashes)].slice(0, count);
  // Whole digests anchor what is computed below them, whatever place a dense store claimed for them.
  const isDense = hashes.length === count;
  if (engine.options.form === "bytes" && isDense)
    hashes = hashes.map((hash) => fakeHash(hash, dice));
  const ahead = engine.options.lookaheadTokens ?? 0;
  return {
    ...event,
    blockSizeTokens: size,
    tokens: event.tokens.slice(0, count * size),
    hashes,
    extraKeys:
      event.extraKeys === undefined ? undefined : hashes.map((_, at) => event.extraKeys?.[at]),
    lookaheadTokens:
      ahead === 0 || hashes.length === 0
        ? undefined
        : hashes.map((_, at) => event.lookaheadTokens?.[at] ?? drawTokens(dice, ahead)),
  };
}

function removalOf(event: StoreEvent, hashes: readonly BlockHash[]): RemoveEvent {
  const { groupId, medium, locality, ownership } = event;
  return {
    type: "removed",
    groupId,
    hashes,
    remainingCopies: undefined,
    medium,
    locality,
    ownership,
    notes: [],
  };
}

/** The law of every run begins with an empty record. */
function drawnFrom(seed: number): Dice {
  recomputed = [];
  return new Dice(seed);
}

function expectTrue(engine: HashingEngine): void {
  for (const { hash, end, before } of recomputed) {
    expect(end).toEqual(engine.truth.get(hash));
    if (before !== undefined) expect(before.end).toEqual(engine.truth.get(before.hash));
  }
  recomputed = [];
}

describe("no hash gets a place that is not its own by recomputing", () => {
  test("whatever is stated, and whoever sends events among the engine's own", () => {
    let places = 0;
    let proven = 0;
    const law = fc.property(seeds, fc.boolean(), (seed, isHostile) => {
      const dice = drawnFrom(seed);
      const engine = drawEngine(dice);
      const rank = new PlayedRank(configOf(engine, dice, dice.chance(0.3)));
      const sent: StoreEvent[] = [];
      for (const events of honestBatches(engine, drawPrompts(dice, true), dice)) {
        const batch: VllmEvent[] = [];
        for (const event of events) {
          sent.push(event);
          const isTwistedFirst = isHostile && dice.chance(0.15);
          if (isTwistedFirst) batch.push(twisted(event, sent, engine, dice));
          batch.push(event);
          if (isHostile && dice.chance(0.1))
            batch.push(twisted(dice.pick(sent), sent, engine, dice));
          const gone = dice.pick(sent);
          if (dice.chance(0.05)) batch.push(removalOf(gone, gone.hashes));
        }
        rank.apply(batch);
        rank.mirror.audit();
        places += recomputed.length;
        expectTrue(engine);
      }
      if (rank.recomputer.proven !== undefined) proven += 1;
    });
    fc.assert(law, { numRuns: 600 });
    expect(proven).toBeGreaterThan(100);
    expect(places).toBeGreaterThan(500);
  });
});

/** Hashes that the batch's events show: from the root, or from an end that is known, unit by unit. */
class Shown {
  private readonly ends = new Set<BlockHash>();
  private readonly engine: HashingEngine;
  private readonly hasLead: boolean;

  constructor(engine: HashingEngine) {
    this.engine = engine;
    this.hasLead = engine.options.groups.some(({ kind }) => kind === "full_attention");
  }

  /** Hashes listed by the batch's events that must have a place now. */
  batch(prompt: ModelPrompt, events: readonly StoreEvent[]): readonly BlockHash[] {
    const isSaltShown =
      prompt.cacheSalt === undefined ||
      events.some((event) => event.parent === undefined && this.showsSalt(event, prompt));
    const must = new Set<BlockHash>();
    const open = new Set(events);
    for (let before = -1; before !== open.size; ) {
      before = open.size;
      for (const event of open) {
        const isRoot = event.parent === undefined;
        if (isRoot ? !isSaltShown : !this.ends.has(event.parent ?? fail())) continue;
        open.delete(event);
        const start = this.startOf(event);
        const { unitTokens, lookaheadTokens = 0 } = this.engine.options;
        for (let end = start + unitTokens; end <= start + event.tokens.length; end += unitTokens) {
          const hash = this.engine.hashAt(prompt, end);
          if (hash === undefined) continue;
          const last = start + event.tokens.length;
          const isLast = end === last;
          // What a hash looks ahead to is told by tokens after it, or with the hash itself.
          const isListedLast = isLast && event.hashes.at(-1) === hash;
          if (end + lookaheadTokens > last && !isListedLast) break;
          const isKept = !this.hasLead || event.kind === "full_attention" || isLast;
          if (event.hashes.includes(hash)) must.add(hash);
          if (isKept || event.hashes.includes(hash)) this.ends.add(hash);
        }
      }
    }
    return [...must];
  }

  private startOf(event: StoreEvent): number {
    return event.parent === undefined ? 0 : (this.engine.truth.get(event.parent)?.endTokens ?? 0);
  }

  private showsSalt(event: StoreEvent, prompt: ModelPrompt): boolean {
    const first = this.engine.hashAt(prompt, event.blockSizeTokens);
    return first !== undefined && event.hashes[0] === first;
  }
}

function fail(): never {
  throw new RangeError("unreachable");
}

describe("what the events show is placed when the batch ends", () => {
  test("for every form, order of groups, chunk and kind of store", () => {
    let musts = 0;
    let byRecomputing = 0;
    const law = fc.property(seeds, (seed) => {
      const dice = drawnFrom(seed);
      const engine = drawEngine(dice);
      if (engine.options.groups.length === 0) return;
      const rank = new PlayedRank(configOf(engine, dice, true));
      prove(engine, rank, dice);
      if (rank.recomputer.proven === undefined) return;
      const shown = new Shown(engine);
      for (const prompt of drawPrompts(dice, false)) {
        const keep = keepOf(engine, dice);
        for (let at = 0; at < prompt.tokens.length; ) {
          const to = dice.chance(0.6)
            ? prompt.tokens.length
            : Math.min(prompt.tokens.length, at + dice.int(1, 40));
          const events = mixed(
            engine.step(prompt, at, to, keep, to === prompt.tokens.length),
            dice,
          );
          rank.apply(events);
          rank.mirror.audit();
          for (const hash of shown.batch(prompt, events)) {
            musts += 1;
            const block = rank.mirror.find(hash);
            expect(block?.isPlaced, `seed ${seed}`).toBe(true);
            expect({
              endTokens: block?.endTokens,
              keyLow: block?.keyLow,
              keyHigh: block?.keyHigh,
            }).toEqual(engine.truth.get(hash));
          }
          byRecomputing += recomputed.length;
          expectTrue(engine);
          at = to;
        }
      }
    });
    fc.assert(law, { ...RUNS, examples: KNOWN.map((seed) => [seed]) });
    expect(musts).toBeGreaterThan(2_000);
    expect(byRecomputing).toBeGreaterThan(500);
  });
});

/** Stores by which a way is found and its form of extra keys, before anything is judged. */
function prove(engine: HashingEngine, rank: PlayedRank, dice: Dice): void {
  const largest = Math.max(...engine.options.groups.map(({ blockSizeTokens }) => blockSizeTokens));
  const all = (): boolean => true;
  for (const more of [{}, { cacheSalt: "s" }, { loraName: "a" }]) {
    const prompt = { tokens: drawTokens(dice, largest * 2 + 6), ...more };
    rank.apply(engine.step(prompt, 0, prompt.tokens.length, all, false).flat());
  }
}

interface ToldBlocks {
  readonly groupId: number;
  readonly hashKeys: string;
  readonly tailKeys: string;
}

/** What a consumer knows of blocks without a place. */
class ToldConsumer {
  readonly told = new Map<string, string>();

  apply(said: readonly string[]): void {
    for (const line of said) {
      const isGone = line.startsWith("no more ");
      const text = isGone ? line.slice("no more ".length) : line;
      const [, scope] = /^withdraw \d+ (\w+)/u.exec(line) ?? [];
      if (scope !== undefined) this.clear(scope === "undefined" ? undefined : Number(scope));
      if (!text.startsWith("{") || !text.includes('"hashKeys"')) continue;
      this.take(JSON.parse(text) as ToldBlocks & { blockSize?: number }, isGone);
    }
  }

  clear(groupId: number | undefined): void {
    for (const name of this.told.keys()) {
      if (groupId === undefined || name.startsWith(`${groupId} `)) this.told.delete(name);
    }
  }

  private take(blocks: ToldBlocks, isGone: boolean): void {
    const keys = Buffer.from(blocks.hashKeys, "base64").toString("hex").match(/.{16}/gu) ?? [];
    const tails =
      Buffer.from(blocks.tailKeys ?? "", "base64")
        .toString("hex")
        .match(/.{16}/gu) ?? [];
    for (const [at, key] of keys.entries()) {
      const name = `${blocks.groupId ?? 0} ${key}`;
      if (isGone) this.told.delete(name);
      else this.told.set(name, tails[at] ?? "");
    }
  }
}

describe("what is told of blocks without a place", () => {
  test("adds up to what a snapshot tells, and is counted", () => {
    let told = 0;
    const law = fc.property(seeds, (seed) => {
      const dice = drawnFrom(seed);
      const engine = drawEngine(dice, true);
      const rank = new PlayedRank(configOf(engine, dice, dice.chance(0.7)));
      const consumer = new ToldConsumer();
      const sent: StoreEvent[] = [];
      for (const events of honestBatches(engine, drawPrompts(dice, true), dice)) {
        const batch: VllmEvent[] = [];
        for (const event of events) {
          batch.push(event);
          sent.push(event);
          const gone = dice.pick(sent);
          if (gone.hashes.length > 0 && dice.chance(0.25))
            batch.push(removalOf(gone, [dice.pick(gone.hashes)]));
          if (dice.chance(0.02)) {
            const scope = dice.chance(0.5) ? undefined : group(dice.int(0, 3));
            batch.push({ type: "cleared", groupId: scope, medium: undefined });
          }
        }
        // A clear stands among the events of the batch; unplaced blocks are told as of its end.
        const said = rank.apply(batch);
        for (const event of batch) if (event.type === "cleared") consumer.clear(event.groupId);
        consumer.apply(said);
        rank.mirror.audit();
        const late = new ToldConsumer();
        late.apply(rank.snapshot());
        expect(new Map([...consumer.told].sort()), `seed ${seed}`).toEqual(
          new Map([...late.told].sort()),
        );
        expect(rank.mirror.told).toBe(late.told.size);
        told += late.told.size;
      }
    });
    fc.assert(law, RUNS);
    expect(told).toBeGreaterThan(300);
  });
});
