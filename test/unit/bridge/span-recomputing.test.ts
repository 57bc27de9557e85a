// Goal: the bounds of recomputing, each driven to where it acts; what an event may cost; whose places are trusted; which
// tokens a rank still reaches when a batch is over.
// Method: a model engine whose hashes are real, and a rank that is told its stores.
import { describe, expect, test } from "vitest";
import { UNSTATED_ENGINE, UNSTATED_HASHING } from "../../../src/bridge/dist/engine-config.js";
import type { StoreEvent } from "../../../src/bridge/dist/vllm-event.js";
import { type BlockHash, isBlockHash, LIMITS } from "../../../src/protocol/dist/index.js";
import {
  drawTokens,
  HashingEngine,
  type ModelGroup,
  type ModelOptions,
  type ModelPrompt,
  storeToWire,
} from "../../support/hashing-engine.ts";
import { PlayedRank } from "../../support/played-rank.ts";
import { Dice } from "../../support/random-caches.ts";
import { batchOf, framesOf, pipelineOf } from "../../support/smg-notation.ts";
import { group, removed } from "../../support/typed-events.ts";

const FULL: ModelGroup = { id: 0, kind: "full_attention", blockSizeTokens: 16 };
const MAMBA: ModelGroup = { id: 1, kind: "mamba", blockSizeTokens: 16 };
const GROUPS: readonly ModelGroup[] = [FULL, MAMBA];
const all = (): boolean => true;

function engineOf(more: Partial<ModelOptions> = {}): HashingEngine {
  return new HashingEngine({ groups: GROUPS, unitTokens: 4, ...more });
}

function rankOf(unitTokens = 4): PlayedRank {
  return new PlayedRank({ ...UNSTATED_ENGINE, hashBlockSizeTokens: unitTokens });
}

/** A rank whose engine's way is proven. */
function provenRank(engine: HashingEngine, dice: Dice): PlayedRank {
  const rank = rankOf(engine.options.unitTokens);
  const prompt = { tokens: drawTokens(dice, 64) };
  rank.apply(engine.step(prompt, 0, 64, all, false).flat());
  expect(rank.recomputer.proven).toBeDefined();
  return rank;
}

function sparse(engine: HashingEngine, prompt: ModelPrompt): StoreEvent {
  const [, [event] = []] = engine.step(prompt, 0, prompt.tokens.length, engine.usual, false);
  if (event === undefined) throw new RangeError("no store");
  return event;
}

function firstOf(event: StoreEvent): BlockHash {
  const [hash] = event.hashes;
  if (hash === undefined) throw new RangeError("no hash");
  return hash;
}

function isPlaced(rank: PlayedRank, hash: BlockHash): boolean | undefined {
  return rank.mirror.find(hash)?.isPlaced;
}

function fake(number: number): BlockHash {
  const text = `fake${String(number).padStart(4, "0")}`;
  if (!isBlockHash(text)) throw new RangeError("no hash");
  return text;
}

test("a partial entry that was stored before the way was proven is told once it is", () => {
  const dice = new Dice(11);
  const engine = engineOf();
  const rank = rankOf();
  const tail: StoreEvent = {
    ...sparse(engine, { tokens: drawTokens(dice, 16) }),
    hashes: [fake(1)],
    parent: fake(2),
    tokens: drawTokens(dice, 4),
    blockSizeTokens: 4,
    extraKeys: [undefined],
  };
  // The group's blocks are known to be larger, and no hash of it tells anything.
  rank.apply([{ ...tail, hashes: [fake(3)], tokens: drawTokens(dice, 16), blockSizeTokens: 16 }]);
  rank.apply([tail]);
  expect([rank.mirror.unplaced, rank.mirror.told]).toEqual([2, 0]);
  rank.apply(engine.step({ tokens: drawTokens(dice, 64) }, 0, 64, all, false).flat());
  expect(rank.recomputer.proven).toBeDefined();
  expect([rank.mirror.unplaced, rank.mirror.told]).toEqual([2, 1]);
  rank.mirror.audit();
});

describe("hashesPerBatch", () => {
  test("a long span goes on over batches; its entries are unplaced until then", () => {
    const dice = new Dice(1);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const before = rank.mirror.recomputing.hashes;
    const store = sparse(engine, { tokens: drawTokens(dice, 4 * 10_000) });
    rank.apply([store]);
    expect(isPlaced(rank, firstOf(store))).toBe(false);
    expect(rank.mirror.recomputing.backlogTokens).toBeGreaterThan(store.tokens.length);
    let batches = 1;
    for (; isPlaced(rank, firstOf(store)) !== true && batches < 9; batches++) {
      const computed = rank.mirror.recomputing.hashes;
      rank.apply([]);
      const most = LIMITS.hashesPerBatch.value;
      expect(rank.mirror.recomputing.hashes - computed).toBeLessThanOrEqual(most);
    }
    expect(batches).toBe(4);
    // Each of them once: what was computed is not computed again when the turn comes.
    expect(rank.mirror.recomputing.hashes - before).toBe(10_000);
    expect(rank.mirror.recomputing.backlogTokens).toBe(0);
    rank.mirror.audit();
  });

  test("what stands on a span that waits is resolved when its turn comes", () => {
    const dice = new Dice(2);
    const engine = engineOf({ groups: [MAMBA] });
    const rank = provenRank(engine, dice);
    const prompt = { tokens: drawTokens(dice, 4 * 8_000) };
    const half = prompt.tokens.length / 2;
    rank.apply(engine.step(prompt, 0, half, () => false, false).flat());
    const [[child] = []] = engine.step(prompt, half, prompt.tokens.length, engine.usual, false);
    if (child === undefined) throw new RangeError("no store");
    rank.apply([child]);
    for (let i = 0; i < 4; i++) rank.apply([]);
    expect(isPlaced(rank, firstOf(child))).toBe(true);
  });

  test("every span of a batch together: thousands of stores without hashes cost no more", () => {
    const dice = new Dice(3);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const empties = Array.from({ length: 3_000 }, () => ({
      ...sparse(engine, { tokens: drawTokens(dice, 64) }),
      hashes: [],
      extraKeys: undefined,
    }));
    const { hashes } = rank.mirror.recomputing;
    rank.apply(empties);
    expect(rank.mirror.recomputing.hashes - hashes).toBeLessThan(LIMITS.hashesPerBatch.value);
    expect(rank.mirror.recomputing.backlogTokens).toBeGreaterThan(64 * 1_000);
  });
});

describe("hashBacklogTokens", () => {
  test("a further span is counted and stays unplaced", () => {
    const dice = new Dice(4);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const store = sparse(engine, { tokens: drawTokens(dice, 64) });
    const huge = { ...store, hashes: [fake(1)], extraKeys: [undefined] };
    const half = new Uint32Array(LIMITS.hashBacklogTokens.value / 2);
    rank.apply([{ ...huge, tokens: half }, { ...huge, hashes: [fake(2)], tokens: half }, store]);
    expect(rank.mirror.recomputing.droppedSpans).toBe(1);
    expect(rank.mirror.recomputing.backlogTokens).toBeLessThanOrEqual(
      LIMITS.hashBacklogTokens.value + 512,
    );
    expect(isPlaced(rank, fake(2))).toBe(false);
  });

  test("short spans, their hashes and their keys count too", () => {
    const dice = new Dice(5);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const blocker = new Uint32Array(400_000);
    const store = sparse(engine, { tokens: drawTokens(dice, 64) });
    const plain = { ...store, hashes: [fake(1)], extraKeys: [undefined] };
    const key = { type: "item" as const, identifier: "i".repeat(1_000), offset: 0 };
    const keys = Array.from({ length: 250 }, () => key);
    const greedy = { ...plain, tokens: store.tokens.slice(0, 16), extraKeys: [keys] };
    const many = Array.from({ length: 100 }, (_, at) => ({ ...greedy, hashes: [fake(at)] }));
    rank.apply([{ ...plain, tokens: blocker }, ...many]);
    expect(rank.mirror.recomputing.droppedSpans).toBeGreaterThan(80);
  });
});

describe("what an event may cost", () => {
  const limit = LIMITS.hashTokens.value;

  test("hashes of more tokens than hashTokens are not recomputed", () => {
    const dice = new Dice(6);
    for (const [unit, isKnown] of [
      [limit, true],
      [limit * 2, false],
    ] as const) {
      const groups = [{ ...FULL, blockSizeTokens: unit }];
      const engine = new HashingEngine({ groups, unitTokens: unit, algorithm: "sha256_cbor" });
      const rank = rankOf(unit);
      rank.apply(engine.step({ tokens: drawTokens(dice, unit) }, 0, unit, all, false).flat());
      expect(rank.recomputer.proven !== undefined).toBe(isKnown);
    }
  });

  test("a block of millions of tokens costs a batch no more than others, also with many images", () => {
    const dice = new Dice(7);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const size = 1 << 21;
    const items = Array.from({ length: 256 }, (_, at) => ({
      type: "item" as const,
      identifier: `${at}`.padStart(1_000, "x"),
      offset: at * 4_000,
    }));
    const event = sparse(engine, { tokens: drawTokens(dice, 64) });
    const block = {
      ...event,
      hashes: [fake(1)],
      tokens: new Uint32Array(size * 2),
      blockSizeTokens: size,
      extraKeys: [items],
      groupId: group(7),
    };
    const { hashes } = rank.mirror.recomputing;
    rank.apply([block, { ...block, hashes: [fake(2), fake(3)], extraKeys: [items, items] }]);
    expect(rank.mirror.recomputing.hashes - hashes).toBeLessThan(LIMITS.hashesPerBatch.value);
    rank.mirror.audit();
  });

  test("units whose digest is not known cost too", () => {
    const dice = new Dice(8);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const prompt = { tokens: drawTokens(dice, 32) };
    // A place that an unknown hash claims: below it nothing can be computed.
    const lead = { ...sparse(engine, prompt), hashes: [fake(1), fake(2)], groupId: group(0) };
    rank.apply([
      { ...lead, medium: "CPU", kind: "full_attention", extraKeys: [undefined, undefined] },
    ]);
    expect(isPlaced(rank, fake(2))).toBe(true);
    const below = { ...sparse(engine, prompt), parent: fake(2), tokens: new Uint32Array(400_000) };
    rank.apply([below]);
    expect(rank.mirror.recomputing.backlogTokens).toBeGreaterThan(400_000);
  });
});

describe("hashRetryStores and hashRetryRounds", () => {
  test("stores beyond the bound are not tried again", () => {
    const dice = new Dice(9);
    const engine = engineOf({ groups: [MAMBA] });
    const rank = provenRank(engine, dice);
    const count = LIMITS.hashRetryStores.value + 1;
    const prompts = Array.from({ length: count }, () => ({ tokens: drawTokens(dice, 32) }));
    // The child comes before the span that tells where its parent ends.
    const pairs = prompts.map((prompt) => [
      ...engine.step(prompt, 16, 32, all, false).flat(),
      ...engine.step(prompt, 0, 16, () => false, false).flat(),
    ]);
    const children = pairs.map(([child]) => child as StoreEvent);
    rank.apply([...children, ...pairs.map(([, before]) => before as StoreEvent)]);
    for (let i = 0; i < 9; i++) rank.apply([]);
    const placed = children.filter((child) => isPlaced(rank, firstOf(child)) === true);
    expect(placed.length).toBeLessThan(count);
    expect(isPlaced(rank, firstOf(children[count - 1] as StoreEvent))).toBe(false);
  });

  test("a chain in reverse order is followed so many steps, and no further", () => {
    const dice = new Dice(10);
    const engine = engineOf({ groups: [MAMBA] });
    const rank = provenRank(engine, dice);
    const steps = LIMITS.hashRetryRounds.value + 3;
    const prompt = { tokens: drawTokens(dice, 16 * steps) };
    const chain = Array.from(
      { length: steps },
      (_, at) => engine.step(prompt, at * 16, (at + 1) * 16, all, false).flat()[0] as StoreEvent,
    );
    rank.apply(chain.toReversed().map((event) => ({ ...event, extraKeys: undefined })));
    expect(chain.filter((event) => isPlaced(rank, firstOf(event)) === true).length).toBeGreaterThan(
      LIMITS.hashRetryRounds.value,
    );
    rank.mirror.audit();
  });
});

describe("fineEnds", () => {
  test("the oldest end is forgotten; what names it stays unplaced and is told", () => {
    const dice = new Dice(11);
    const engine = engineOf({ groups: [{ ...FULL, hasPartials: true }] });
    const rank = provenRank(engine, dice);
    const old = { tokens: drawTokens(dice, 16) };
    rank.apply(engine.step(old, 0, 16, all, false).flat());
    const long = { tokens: drawTokens(dice, ((4 * LIMITS.fineEnds.value) / 3) * 4 + 64) };
    rank.apply(engine.step(long, 0, long.tokens.length, all, false).flat());
    for (let i = 0; i < 9; i++) rank.apply([]);
    // The end at 8 of the old prompt was known, and is not any more: the partial entry at 12 names it.
    const partial = engine.step({ tokens: old.tokens.slice(0, 12) }, 0, 12, all, true).flat();
    const told = rank.mirror.told;
    rank.apply(partial);
    expect(partial.map((event) => isPlaced(rank, firstOf(event)))).toEqual([false]);
    expect(rank.mirror.told).toBe(told + 1);
    rank.apply([
      { ...removed([]), groupId: group(0), hashes: partial.flatMap((event) => event.hashes) },
    ]);
    expect(rank.mirror.told).toBe(told);
  });
});

describe("saltsPerPrompt", () => {
  test("of more salts for one begin the oldest is forgotten", () => {
    const dice = new Dice(12);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const tokens = drawTokens(dice, 64);
    const salts = Array.from({ length: LIMITS.saltsPerPrompt.value + 1 }, (_, at) => `salt ${at}`);
    const stores = salts.map((cacheSalt) =>
      engine.step({ tokens, cacheSalt }, 0, 64, engine.usual, false),
    );
    // Group 1 comes after every salt was shown by group 0's first block, so that it matters which are remembered.
    const fine = { ...MAMBA, blockSizeTokens: 4 };
    const states = new HashingEngine({ groups: [fine], unitTokens: 4 });
    rank.apply(stores.flatMap(([full = []]) => full));
    const ends = salts.map((cacheSalt) => {
      const [[event] = []] = states.step({ tokens, cacheSalt }, 0, 60, states.usual, false);
      if (event === undefined) throw new RangeError("no store");
      return event;
    });
    rank.apply(ends);
    expect(ends.map((event) => isPlaced(rank, firstOf(event)))).toEqual([
      false,
      true,
      true,
      true,
      true,
    ]);
  });
});

describe("whose places are trusted", () => {
  test("what is proved is not mixed with a place that a dense store claimed", () => {
    const dice = new Dice(13);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const prompt = { tokens: drawTokens(dice, 32) };
    const [[full] = [], [state] = []] = engine.step(prompt, 0, 32, engine.usual, false);
    if (full === undefined || state === undefined) throw new RangeError("no store");
    const lie = { ...full, tokens: drawTokens(dice, 32), extraKeys: undefined };
    const child = engine.step(
      { tokens: Uint32Array.from([...prompt.tokens, ...drawTokens(dice, 32)]) },
      32,
      64,
      engine.usual,
      false,
    );
    rank.apply([lie, { ...state, tokens: prompt.tokens }]);
    const [, [below] = []] = child;
    if (below === undefined) throw new RangeError("no store");
    rank.apply([below]);
    const block = rank.mirror.find(firstOf(below));
    const truth = engine.truth.get(firstOf(below));
    const isTrue = block?.keyLow === truth?.keyLow && block?.keyHigh === truth?.keyHigh;
    expect(block?.isPlaced === false || isTrue).toBe(true);
    expect(rank.mirror.find(firstOf(state))?.digest).toBeUndefined();
    rank.mirror.audit();
  });

  test("other caches' names for blocks refute nothing", () => {
    const dice = new Dice(14);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const [[full] = []] = engine.step({ tokens: drawTokens(dice, 32) }, 0, 32, all, false);
    if (full === undefined) throw new RangeError("no store");
    rank.apply([{ ...full, medium: "CPU", hashes: [fake(1), fake(2)] }]);
    expect(rank.recomputer.status.state).toBe("proven");
    rank.apply([{ ...full, hashes: [fake(3), fake(4)] }]);
    expect(rank.recomputer.status.state).toBe("refuted");
  });

  test("nothing that waits goes on when the way is refuted", () => {
    const dice = new Dice(15);
    const engine = engineOf();
    const rank = provenRank(engine, dice);
    const [[full] = []] = engine.step({ tokens: drawTokens(dice, 32) }, 0, 32, all, false);
    if (full === undefined) throw new RangeError("no store");
    const long = sparse(engine, { tokens: drawTokens(dice, 4 * 10_000) });
    rank.apply([{ ...full, hashes: [fake(3), fake(4)] }, long]);
    expect(rank.mirror.recomputing.backlogTokens).toBe(0);
    for (let i = 0; i < 4; i++) rank.apply([]);
    expect(isPlaced(rank, firstOf(long))).toBe(false);
  });
});

/** Beyond every token that is drawn. */
const SECRET = 3_141_592_653;

describe("prompts", () => {
  test("no token is reached after a batch, but those of spans that wait", () => {
    const dice = new Dice(16);
    const engine = engineOf();
    const pipeline = pipelineOf({
      engine: { ...UNSTATED_ENGINE, hashing: UNSTATED_HASHING, hashBlockSizeTokens: 4 },
    });
    let sequence = 0;
    const send = (...events: readonly StoreEvent[]): void => {
      pipeline.receive(framesOf(sequence++, batchOf(events.map(storeToWire))), 0);
      pipeline.audit();
    };
    const secretOf = (count: number): ModelPrompt => {
      const tokens = drawTokens(dice, count);
      tokens[1] = SECRET;
      return { tokens };
    };
    send(...engine.step({ tokens: drawTokens(dice, 64) }, 0, 64, all, false).flat());
    expect(pipeline.counters().get("hash_proven")).toBe(1);
    const before = pipeline.counters().get("entries_placed.recomputed") ?? 0;
    send(sparse(engine, secretOf(64)));
    expect(pipeline.counters().get("entries_placed.recomputed")).toBe(before + 1);
    expect(reaches(pipeline, SECRET)).toBe(false);
    // The one that waits does not keep the one before it.
    const long = sparse(engine, { tokens: drawTokens(dice, 4 * 9_000) });
    send(sparse(engine, secretOf(64)), long);
    expect(pipeline.counters().get("hash_backlog_tokens")).toBeGreaterThan(0);
    expect(reaches(pipeline, SECRET)).toBe(false);
    const secret = sparse(engine, secretOf(64));
    send(secret);
    expect(reaches(pipeline, SECRET)).toBe(true);
    for (let i = 0; i < 4; i++) send();
    expect(pipeline.counters().get("hash_backlog_tokens")).toBe(0);
    expect(reaches(pipeline, SECRET)).toBe(false);
  });
});

/** Whether a number stands anywhere in what a value reaches, in lists, maps, bytes or texts. */
function reaches(root: unknown, wanted: number): boolean {
  const seen = new Set<unknown>();
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (value === wanted) return true;
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    if (ArrayBuffer.isView(value)) {
      const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
      for (let at = 0; at + 4 <= view.byteLength; at++) {
        if (view.getUint32(at, true) === wanted || view.getUint32(at) === wanted) return true;
      }
    } else if (value instanceof Map) open.push(...value.keys(), ...value.values());
    else if (value instanceof Set) open.push(...value);
    else open.push(...Reflect.ownKeys(value).map((name) => Reflect.get(value, name) as unknown));
  }
  return false;
}
