// Goal: how a rank finds out how its engine names its blocks, keeps checking it, and takes it back.
// Method: model engines with real hashes under every algorithm, seed and unit; a recomputer that sees their stores.
import { describe, expect, test } from "vitest";
import { Counters } from "../../../src/bridge/dist/counters.js";
import { type HashingConfig, UNSTATED_HASHING } from "../../../src/bridge/dist/engine-config.js";
import { Recomputer } from "../../../src/bridge/dist/recomputer.js";
import type { StoreEvent } from "../../../src/bridge/dist/vllm-event.js";
import {
  type BlockHash,
  HASH_ALGORITHMS,
  isBlockHash,
  LIMITS,
} from "../../../src/protocol/dist/index.js";
import {
  drawTokens,
  HashingEngine,
  type ModelGroup,
  type ModelOptions,
  type ModelPrompt,
} from "../../support/hashing-engine.ts";
import { Dice } from "../../support/random-caches.ts";

const FULL: ModelGroup = { id: 0, kind: "full_attention", blockSizeTokens: 16 };
const MAMBA: ModelGroup = { id: 1, kind: "mamba", blockSizeTokens: 16 };
const all = (): boolean => true;
const dice = new Dice(3);

class Watched {
  readonly counters = new Counters();
  readonly refused: string[] = [];
  readonly reports: string[] = [];
  readonly wanted: string[] = [];
  readonly recomputer: Recomputer;

  constructor(config: Partial<HashingConfig> = {}, statedUnitTokens?: number) {
    this.recomputer = new Recomputer({
      config: { ...UNSTATED_HASHING, ...config },
      statedUnitTokens,
      counters: this.counters,
      refuse: (reason) => this.refused.push(reason),
      report: (message, fields) => this.reports.push(`${message} ${JSON.stringify(fields)}`),
      onLoraPathWanted: (name) => this.wanted.push(name),
    });
  }

  /** A store in a batch of its own. */
  see(event: StoreEvent, lookaheadTokens = 0): void {
    this.recomputer.see(event, lookaheadTokens, false);
    this.recomputer.endBatch();
  }

  get state(): string {
    return this.recomputer.status.state;
  }
}

function engineOf(more: Partial<ModelOptions> = {}): HashingEngine {
  return new HashingEngine({ groups: [FULL], unitTokens: 4, ...more });
}

function only(events: readonly (readonly StoreEvent[])[]): StoreEvent {
  const [event] = events.flat();
  if (event === undefined) throw new RangeError("no store");
  return event;
}

/** The store of a prompt of its own. */
function storeOf(engine: HashingEngine, more: Partial<ModelPrompt> = {}, count = 64): StoreEvent {
  const prompt = { tokens: drawTokens(dice, count), ...more };
  return only(engine.step(prompt, 0, count, engine.usual, false));
}

function fake(): BlockHash {
  const text = drawTokens(dice, 8).reduce(
    (made, word) => made + String.fromCharCode(word & 255),
    "",
  );
  if (!isBlockHash(text)) throw new RangeError("no hash");
  return text;
}

function withFake(event: StoreEvent): StoreEvent {
  return { ...event, hashes: event.hashes.map(fake) };
}

/** A rank that has found its engine's way. */
function proven(engine: HashingEngine, config: Partial<HashingConfig> = {}): Watched {
  const watched = new Watched(config);
  for (let i = 0; i < 400 && watched.state === "searching"; i++) watched.see(storeOf(engine));
  expect(watched.state).toBe("proven");
  return watched;
}

describe("searching", () => {
  const cases = HASH_ALGORITHMS.flatMap((algorithm) =>
    (["integer", "bytes"] as const).flatMap((form) =>
      [16, 8, 4].map((unitTokens) => ({ algorithm, form, unitTokens })),
    ),
  );

  test.each(cases)("finds $algorithm, $form, H = $unitTokens", (more) => {
    const engine = engineOf({ ...more, seedText: "1337" });
    const { proven: way } = proven(engine).recomputer;
    expect([way?.algorithm, way?.form, way?.unitTokens]).toEqual([
      more.algorithm,
      more.form,
      more.unitTokens,
    ]);
  });

  test.each([
    ["salts", { cacheSalt: "a salt" }],
    ["an adapter", { loraName: "adapter" }],
    ["an adapter and salts", { loraName: "adapter", cacheSalt: "a salt" }],
  ])(
    "finds the way of an engine whose every prompt has %s, and the form of its extra keys",
    (_, extra) => {
      for (const extraKeyForm of ["tagged", "untagged"] as const) {
        const loraPaths = new Map([["adapter", "/adapters/adapter"]]);
        const engine = engineOf({ extraKeyForm, loraPaths });
        const watched = new Watched({ loraPaths });
        watched.see(storeOf(engine, extra));
        expect(watched.state).toBe("proven");
        expect(watched.recomputer.status.scheme?.extraKeyForm).toBe(extraKeyForm);
      }
    },
  );

  test.each([1, 5, 9])("finds a unit smaller than the look-ahead of %i tokens", (lookahead) => {
    const engine = engineOf({ lookaheadTokens: lookahead });
    const watched = new Watched();
    const prompt = { tokens: drawTokens(dice, 16 + lookahead) };
    watched.see(only(engine.step(prompt, 0, 16 + lookahead, all, false)), lookahead);
    expect(watched.state).toBe("proven");
    expect(watched.recomputer.unitTokens).toBe(4);
    // And what checks it looks as far ahead.
    for (let i = 0; i <= LIMITS.hashCheckStores.value; i++) {
      const next = { tokens: drawTokens(dice, 16 + lookahead) };
      watched.see(only(engine.step(next, 0, 16 + lookahead, all, false)), lookahead);
    }
    expect([watched.counters.all().get("hash_checks"), watched.refused]).toEqual([1, []]);
  });

  test("a seed that nobody guesses is not found, and costs nothing from then on", () => {
    const engine = engineOf({ seedText: "nobody guesses this" });
    const watched = new Watched();
    let stores = 0;
    for (; watched.state === "searching" && stores < 3_000; stores++) watched.see(storeOf(engine));
    expect(watched.state).toBe("not_found");
    expect(stores).toBeGreaterThan(LIMITS.hashSearchRounds.value - 1);
    const { hashes } = watched.recomputer["search"];
    for (let i = 0; i < 50; i++) watched.see(storeOf(engine));
    expect(watched.recomputer["search"].hashes).toBe(hashes);
    expect(watched.reports.length).toBe(1);
    // Another engine is searched anew.
    watched.recomputer.forget();
    expect(watched.state).toBe("searching");
    watched.see(storeOf(engineOf()));
    expect(watched.state).toBe("proven");
  });

  test("the seed is found by a begin, where whole digests told the rest before", () => {
    const engine = engineOf({ form: "bytes", seedText: "42" });
    const watched = new Watched();
    const prompt = { tokens: drawTokens(dice, 64) };
    watched.see(only(engine.step(prompt, 32, 64, all, false)));
    expect(watched.recomputer.proven?.rootDigest).toBeUndefined();
    for (let i = 0; i < 200; i++) watched.see(storeOf(engine));
    expect(watched.recomputer.proven?.rootDigest).toBeDefined();
  });

  test("stores whose salt is not shown do not end the search for the others", () => {
    const engine = engineOf({ groups: [MAMBA, FULL] });
    const watched = new Watched();
    for (let i = 0; i < 2_000; i++) watched.see(storeOf(engine, { cacheSalt: `${i}` }));
    watched.see(storeOf(engineOf()));
    expect(watched.state).toBe("proven");
  });

  test.each(["integer", "bytes"] as const)(
    "%s: a batch costs no more than hashSearchHashes",
    (form) => {
      const most = LIMITS.hashSearchHashes.value;
      const watched = new Watched();
      const { recomputer } = watched;
      const engine = engineOf({ form });
      for (const blockSizeTokens of [55_440, 1 << 20, 4]) {
        const tokens = drawTokens(dice, blockSizeTokens * 2);
        const event = { ...withFake(storeOf(engine)), tokens, blockSizeTokens };
        const parent = form === "bytes" ? event.hashes[0] : undefined;
        const hashes = event.hashes.slice(1, 2);
        const before = recomputer["search"].hashes;
        for (let i = 0; i < 20; i++) {
          recomputer.see({ ...event, parent, hashes, extraKeys: [undefined] }, 0, false);
        }
        // A store that was begun when there was still time is tried to its end.
        expect(recomputer["search"].hashes - before).toBeLessThanOrEqual(2 * most);
        recomputer.endBatch();
      }
    },
  );

  test.each([
    [0, "proven"],
    [1, "searching"],
  ])("a block of %i units more than hashUnitsPerBlock: %s", (more, state) => {
    const blockSizeTokens = 4 * (LIMITS.hashUnitsPerBlock.value + more);
    const engine = engineOf({ groups: [{ ...FULL, blockSizeTokens }] });
    const watched = new Watched({}, 4);
    watched.see(storeOf(engine, {}, blockSizeTokens));
    expect(watched.state).toBe(state);
  });

  test("extra keys cost what they are long: a few of those stores use a batch's time up", () => {
    const { recomputer } = new Watched();
    const identifier = "x".repeat(1_000);
    const keys = Array.from({ length: 256 }, (_, offset) => ({
      type: "item" as const,
      identifier,
      offset,
    }));
    const event = { ...withFake(storeOf(engineOf())), extraKeys: [keys], blockSizeTokens: 512 };
    const store = { ...event, hashes: event.hashes.slice(0, 1), tokens: drawTokens(dice, 512) };
    for (let i = 0; i < 8; i++) recomputer.see(store, 0, false);
    // A hash of them is worth about 4,000 plain ones; most of what is counted are units that cannot be hashed.
    expect(recomputer["search"].hashes).toBeLessThanOrEqual(40);
    expect(recomputer["search"].hashes).toBeGreaterThan(0);
  });

  test("is off where nothing is to be recognised", () => {
    const watched = new Watched({ isRecognised: false });
    watched.see(storeOf(engineOf()));
    watched.recomputer.forget();
    expect([watched.state, watched.recomputer.proven]).toEqual(["off", undefined]);
  });
});

describe("proven", () => {
  test("one store in hashCheckStores is checked; a mismatch ends it, counted and told once", () => {
    const engine = engineOf();
    const watched = proven(engine);
    const every = LIMITS.hashCheckStores.value;
    for (let i = 0; i < every - 1; i++) watched.see(withFake(storeOf(engine)));
    expect([watched.state, watched.refused]).toEqual(["proven", []]);
    watched.see(withFake(storeOf(engine)));
    for (let i = 0; i < every * 2; i++) watched.see(withFake(storeOf(engine)));
    expect(watched.state).toBe("refuted");
    expect(watched.refused).toEqual(["hash_not_reproduced"]);
    expect(watched.counters.all().get("hash_checks")).toBe(1);
    expect(watched.reports.length).toBe(2);
    expect(watched.recomputer.proven).toBeUndefined();
    // What the same engine does later changes nothing; another engine is another matter.
    watched.see(storeOf(engine));
    expect(watched.state).toBe("refuted");
    watched.recomputer.forget();
    watched.see(storeOf(engine));
    expect(watched.state).toBe("proven");
  });

  test("what cannot be checked is not taken for a contradiction", () => {
    const engine = engineOf();
    const watched = proven(engine);
    const event = storeOf(engine);
    const odd: readonly StoreEvent[] = [
      { ...withFake(event), medium: "CPU" },
      { ...withFake(event), extraKeys: undefined },
      { ...withFake(event), parent: fake() },
      { ...event, hashes: [fake()], extraKeys: [undefined] },
      {
        ...event,
        hashes: [fake()],
        extraKeys: [undefined],
        tokens: drawTokens(dice, 1 << 17),
        blockSizeTokens: 1 << 17,
      },
      {
        ...event,
        hashes: [fake()],
        extraKeys: [undefined],
        tokens: drawTokens(dice, 6),
        blockSizeTokens: 6,
      },
    ];
    for (let i = 0; i < 2 * LIMITS.hashCheckStores.value; i++)
      for (const one of odd) watched.see(one);
    expect([watched.state, watched.refused]).toEqual(["proven", []]);
  });

  test("reports hold neither hashes nor tokens", () => {
    const watched = proven(engineOf());
    expect(watched.reports).toEqual([
      'block hashes: the engine\'s own were reproduced {"reason":"proven","algorithm":"sha256","seedOrigin":"default","unitTokens":4}',
    ]);
  });
});

describe("LoRA paths and forms of extra keys", () => {
  const loraStore = storeOf(engineOf({ loraPaths: new Map([["a", "/real"]]) }), { loraName: "a" });

  test("a path that is contradicted is used no more, until the name leads to another one", () => {
    const { recomputer, refused, wanted } = proven(engineOf(), { loraPaths: new Map() });
    recomputer.setLoraPaths(
      new Map([
        ["a", "/wrong"],
        ["b", "/b"],
      ]),
    );
    recomputer.extraKeysReproduced("tagged", undefined);
    expect(recomputer.loraPath("a")).toBe("/wrong");
    recomputer.contradicted(loraStore);
    expect([recomputer.loraPath("a"), recomputer.loraPath("b")]).toEqual([undefined, "/b"]);
    expect([refused, wanted]).toEqual([["hash_not_reproduced"], ["a"]]);
    const { revision } = recomputer;
    recomputer.setLoraPaths(
      new Map([
        ["a", "/wrong"],
        ["b", "/b"],
      ]),
    );
    expect([recomputer.loraPath("a"), recomputer.revision]).toEqual([undefined, revision]);
    recomputer.setLoraPaths(new Map([["a", "/real"]]));
    expect([recomputer.loraPath("a"), recomputer.loraPath("b")]).toEqual(["/real", undefined]);
    expect(recomputer.status).toMatchObject({ state: "proven" });
    // Another engine may have it where the one before did not.
    recomputer.forget();
    recomputer.setLoraPaths(new Map([["a", "/wrong"]]));
    expect(recomputer.loraPath("a")).toBe("/wrong");
  });

  test("a stated path wins over one that the engine tells", () => {
    const { recomputer } = proven(engineOf(), { loraPaths: new Map([["a", "/stated"]]) });
    recomputer.setLoraPaths(new Map([["a", "/told"]]));
    expect(recomputer.loraPath("a")).toBe("/stated");
  });

  test("where no path is hashed, what contradicts an adapter's store contradicts the form", () => {
    const { recomputer, reports } = proven(engineOf(), { loraPaths: new Map([["a", "/a"]]) });
    recomputer.extraKeysReproduced("untagged", undefined);
    recomputer.contradicted(loraStore);
    expect(recomputer.proven).toMatchObject({ isExtraKeyFormRefuted: true });
    expect(recomputer.loraPath("a")).toBe("/a");
    expect(reports.length).toBe(2);
  });

  test("a form that is contradicted leaves plain stores as they are", () => {
    const { recomputer } = proven(engineOf());
    recomputer.extraKeysReproduced("tagged", undefined);
    recomputer.contradicted(storeOf(engineOf(), { cacheSalt: "s" }));
    expect(recomputer.status.state).toBe("proven");
    expect(recomputer.proven).toMatchObject({
      extraKeyForm: undefined,
      isExtraKeyFormRefuted: true,
    });
    recomputer.forget();
    recomputer.see(storeOf(engineOf()), 0, false);
    expect(recomputer.proven).toMatchObject({ isExtraKeyFormRefuted: false });
  });
});

describe("memory", () => {
  test("another process goes on with what was found", () => {
    const engine = engineOf({ algorithm: "xxhash_cbor", seedText: "7" });
    const first = proven(engine);
    first.recomputer.extraKeysReproduced("untagged", undefined);
    const second = new Watched();
    second.recomputer.restore(first.recomputer.memory());
    expect(second.recomputer.proven).toEqual(first.recomputer.proven);
    expect(second.recomputer.status).toEqual(first.recomputer.status);
    for (let i = 0; i < LIMITS.hashCheckStores.value; i++) second.see(withFake(storeOf(engine)));
    expect(second.state).toBe("refuted");
    const third = new Watched();
    third.recomputer.restore(second.recomputer.memory());
    third.see(storeOf(engine));
    expect(third.state).toBe("refuted");
  });

  test("what is switched off stays off, and what was off is searched", () => {
    const found = proven(engineOf()).recomputer.memory();
    const off = new Watched({ isRecognised: false });
    off.recomputer.restore(found);
    expect(off.state).toBe("off");
    const on = new Watched();
    on.recomputer.restore(off.recomputer.memory());
    expect(on.state).toBe("searching");
  });
});
