/**
 * What it is: claims about an engine that sends what no engine should, one thing each.
 * Goal: nothing throws, nothing is credited that was not soundly said, the bridge's own gateway is
 * never sent what it refuses, time and memory stay in proportion, no token reaches a log.
 * Method: multiparts through the whole path in one process; mirror and index are audited after each.
 */
import { toBinary } from "@bufbuild/protobuf";
import { RankDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import { Block } from "../../src/bridge/dist/block.js";
import { RankChains } from "../../src/prefix-index/dist/rank-chains.js";
import { LIMITS } from "../../src/protocol/dist/index.js";
import { createLogger, RateLimitedLog } from "../../src/runtime/dist/index.js";
import {
  batchOf,
  C,
  CLEAR,
  callsOf,
  every,
  framesOf,
  pipelineOf,
  q,
  R,
  rem,
  SmgWorker,
  span,
} from "../support/smg-notation.ts";
import { encodeWire, sequenceFrame, type WireFields } from "../support/wire-builder.ts";

const full = (ends: readonly number[], through: number, more: WireFields = {}): WireFields =>
  R(0, "full", 0, 4, ends, through, more);

/** Bytes as one payload. */
function raw(sequence: number, payload: Uint8Array): readonly Uint8Array[] {
  return [new TextEncoder().encode("kv-events"), sequenceFrame(BigInt(sequence)), payload];
}

/** The gateway of the path still follows: the bridge told it nothing that it refuses. */
function expectFollowed(worker: SmgWorker): void {
  expect(worker.path.gateway.workers()[0]).toMatchObject({
    subscriptionState: "live",
    lastError: undefined,
  });
}

describe("an adapter's name that is pointed at another adapter", () => {
  const lora = (h: readonly number[], start: number, more: WireFields = {}): WireFields =>
    full([], 0, {
      block_hashes: h,
      token_ids: span(start + 1, start + 4 * h.length),
      lora_name: "adapter",
      extra_keys: h.map(() => ["adapter"]),
      ...more,
    });
  const ask = { loraName: "adapter" };

  test("the older hash's block is withdrawn where a new hash stands", () => {
    const worker = new SmgWorker();
    worker.batch(0, lora([1, 2, 3], 0));
    worker.batch(1, lora([11, 12, 13], 0));
    // Once for all blocks of the adapter's name.
    expect(worker.counter("refused.hash_replaced")).toBe(1);
    worker.batch(2, rem(0, [], { block_hashes: [13] }));
    expect(worker.score(q(13), ask)).toBe(8);
  });

  test("older blocks behind the replaced one are withdrawn too: the engine cannot reach them", () => {
    const worker = new SmgWorker();
    worker.batch(0, lora([1, 2, 3], 0));
    worker.batch(1, lora([11], 0));
    expect(worker.score(q(13), ask)).toBe(4);
  });

  test("a later child of an older block is no child of the new chain", () => {
    const worker = new SmgWorker();
    worker.batch(0, lora([1, 2, 3], 0), lora([11], 0));
    worker.batch(1, lora([4], 12, { parent_block_hash: 3 }));
    expect(worker.score(q(17), ask)).toBe(4);
  });
});

describe("what the bridge tells, its own gateway takes", () => {
  test("two long runs of one chain in one batch", () => {
    const worker = new SmgWorker();
    const hashes = span(1, 140_000);
    const blocks = (from: number, to: number, parent: number | null): WireFields =>
      R(0, "full", 0, 1, [], 0, {
        block_hashes: hashes.slice(from, to),
        token_ids: hashes.slice(from, to),
        parent_block_hash: parent,
      });
    worker.batch(0, blocks(0, 70_000, null), blocks(70_000, 140_000, 70_000));
    expectFollowed(worker);
    expect(worker.path.score({ tokens: q(140_001) }).reusableTokens).toBe(140_000);
  });

  test("two long removals in one batch", () => {
    const worker = new SmgWorker();
    const halves = [span(1, 70_000), span(70_001, 140_000)];
    for (const [index, half] of halves.entries()) {
      const parent_block_hash = index === 0 ? null : 70_000;
      const more = { block_hashes: half, token_ids: half, parent_block_hash };
      worker.batch(index, R(0, "full", 0, 1, [], 0, more));
    }
    worker.batch(2, ...halves.map((half) => rem(0, [], { block_hashes: half })));
    expectFollowed(worker);
    expect([worker.placed, worker.q(9)]).toEqual([0, 0]);
  });

  for (const [name, medium] of [
    ["grows in upper case", "\u00df".repeat(1024)],
    ["has the longest length", "m".repeat(1024)],
    ["is empty", ""],
    ["holds a zero", "a\u0000b"],
  ] as const) {
    test(`a medium whose name ${name}`, () => {
      const worker = new SmgWorker();
      worker.batch(0, full([4], 4), C(0, "full", 0, 4, 8, { medium }));
      expectFollowed(worker);
      worker.batch(1, C(0, "full", 0, 4, 8));
      expectFollowed(worker);
      expect(worker.q(9)).toBe(8);
    });
  }

  test("more media than the limit, in stores, removals and clears", () => {
    const worker = new SmgWorker();
    const media = span(1, 40).map((n) => ({ medium: `tier-${n}` }));
    worker.batch(0, full([4], 4), ...media.map((more) => full([4], 4, more)));
    worker.batch(1, ...media.map((more) => rem(0, [4], more)));
    worker.batch(2, ...media.map((more) => ({ ...CLEAR, ...more })));
    expectFollowed(worker);
    expect(worker.q(5)).toBe(4);
    expect(worker.counter("refused.too_many_media")).toBe(24);
  });

  test("more groups than the limit", () => {
    const worker = new SmgWorker();
    worker.batch(0, ...span(0, 99).map((group) => R(group, "full", 0, 4, [4], 4)));
    expectFollowed(worker);
    expect(worker.counter("refused.too_many_groups")).toBe(100 - LIMITS.groupsPerRank.value);
  });

  test("a description that no layout can have", () => {
    const worker = new SmgWorker();
    worker.batch(0, full([4], 4), R(1, "full", 0, 2 ** 31 - 1, [8], 0));
    worker.batch(1, R(2, "mamba", 0, 7919, [12], 0), R(3, "swa", 2 ** 32 - 1, 104_729, [16], 0));
    expectFollowed(worker);
    expect(worker.answer(q(5)).state).toBe("unknown");
  });
});

describe("bombs", () => {
  const nest = (depth: number): Uint8Array => new Uint8Array(depth).fill(0x91);
  const bombs: readonly (readonly [string, Uint8Array])[] = [
    ["a list in a list, a million deep", nest(1_000_000)],
    ["a map in a map", new Uint8Array(100_000).fill(0x81)],
    ["a list that claims 2^32 - 1 elements", Uint8Array.of(0xdd, 255, 255, 255, 255)],
    ["a map that claims 2^32 - 1 pairs", Uint8Array.of(0xdf, 255, 255, 255, 255)],
    ["bytes that claim 2^32 - 1", Uint8Array.of(0x93, 0, 0xc6, 255, 255, 255, 255, 0)],
    ["nothing", new Uint8Array()],
    ["the unused code", Uint8Array.of(0xc1)],
    ["a payload beyond the limit", new Uint8Array(LIMITS.payloadBytes.value + 1)],
    ["twenty million empty lists", new Uint8Array(20_000_000).fill(0x90)],
  ];
  for (const [name, payload] of bombs) {
    test(`${name}: the batch is refused, the rank withdrawn, the next batch counts`, () => {
      const worker = new SmgWorker();
      worker.batch(0, full([4, 8], 8));
      worker.frames(raw(1, payload));
      expect(worker.q(9)).toBe(0);
      worker.batch(2, full([4], 4));
      expect(worker.q(9)).toBe(4);
      expectFollowed(worker);
    });
  }

  test("65,536 events in a batch are taken, one more refuses the batch", () => {
    const worker = new SmgWorker();
    const events = every(4, 4 * 65_536).map((end) => C(0, "full", 0, end - 4, end));
    worker.batch(0, ...events);
    expect(worker.path.score({ tokens: q(4 * 65_536 + 1) }).reusableTokens).toBe(4 * 65_536);
    worker.batch(1, ...events, CLEAR);
    expect(worker.counter("refused.too_many_events")).toBe(1);
    expect(worker.q(9)).toBe(0);
    expectFollowed(worker);
  });

  test("one batch never holds more blocks at a time than the mirror's limit and one event", () => {
    const maxBlocks = 1000;
    const perEvent = 10_000;
    let most = 0;
    const pipeline = pipelineOf({
      mirror: { maxBlocks },
      report: () => {
        const { placedBlocks, unplacedBlocks } = pipeline.describe(0);
        most = Math.max(most, Number(placedBlocks + unplacedBlocks));
      },
    });
    // Each store is followed by an unknown event, so that the state between them is seen.
    const events = span(0, 9).flatMap((turn) => [
      full([], 0, {
        block_hashes: span(turn * perEvent, (turn + 1) * perEvent - 1),
        parent_block_hash: 2 ** 30,
      }),
      { type: "Odd" },
    ]);
    pipeline.receive(framesOf(0, batchOf(events)), 0);
    expect(pipeline.counters().get("withdrawn.limit_reached")).toBe(10);
    expect(most).toBeLessThanOrEqual(maxBlocks + perEvent);
  });
});

describe("numbers", () => {
  test("gaps of nearly 2^64 again and again leave a description that can be sent", () => {
    const pipeline = pipelineOf();
    for (const sequence of [0n, 2n ** 64n - 2n, 0n, 2n ** 64n - 2n, 0n]) {
      pipeline.receive(framesOf(sequence, batchOf([])), 0);
    }
    expect(toBinary(RankDescriptionSchema, pipeline.describe(0)).length).toBeGreaterThan(0);
  });

  test("time stamps that are no time, and ranks that are no rank, cost what they must", () => {
    const worker = new SmgWorker();
    for (const [index, stamp] of [-1, 2n ** 63n, null, "now", []].entries()) {
      worker.frames(framesOf(index, [stamp, [full([4], 4)], 0]));
      expect(worker.q(5)).toBe(4);
    }
    worker.frames(framesOf(5, [0, [full([4], 4)], "zero"]));
    expect(worker.q(5)).toBe(0);
  });
});

describe("work in proportion", () => {
  const held = 4000;
  const flood = 300;
  const bystander = R(1, "full", 0, 4, [], 0, {
    block_hashes: span(1, held),
    token_ids: q(4 * held),
  });
  const floods: readonly (readonly [string, WireFields])[] = [
    ["removals that cannot be read", rem(0, [], { block_hashes: [true] })],
    ["clears of one group", { ...CLEAR, group_idx: 0 }],
    ["stores of another kind", R(0, "mamba", 0, 4, [4], 4)],
  ];
  for (const [name, event] of floods) {
    test(`${flood} ${name} do not walk each time over what another group holds`, () => {
      const worker = new SmgWorker();
      worker.batch(0, bystander, full([], 4, { block_hashes: [9_000], token_ids: [9, 9, 9, 9] }));
      const frames = framesOf(1, batchOf(Array.from({ length: flood }, () => event)));
      let inIndex = 0;
      const inMirror = callsOf(Block.prototype, "copiesIn", () => {
        inIndex = callsOf(RankChains.prototype, "recordsOf", () => worker.path.receive(frames));
      });
      expect(worker.placed).toBeGreaterThanOrEqual(held);
      // Once over all is fair: some four steps a block and slot.
      const fair = 10 * (held + flood);
      expect([inMirror > fair, inIndex > fair], `${inMirror}, ${inIndex}`).toEqual([false, false]);
    });
  }
});

test("no token id, hash or name of a prompt reaches a log, whatever is refused", () => {
  const lines: string[] = [];
  const log = createLogger({ level: "debug", destination: { write: (line) => lines.push(line) } });
  const limited = new RateLimitedLog({ log, intervalMs: 1, maxKeys: 256 });
  let nowMs = 0;
  const pipeline = pipelineOf({
    report: (message, fields) => {
      nowMs += 1000;
      limited.warn(`${message}:${fields["reason"]}`, nowMs, fields, message);
    },
  });
  const secret = 987_654_321;
  const tokens = [secret, secret + 1, secret + 2, secret + 3];
  const hash = { block_hashes: [secret] };
  const odd: readonly unknown[] = [
    full([], 0, { ...hash, token_ids: tokens }),
    full([], 0, { ...hash, token_ids: [...tokens, "x"] }),
    full([], 0, { ...hash, token_ids: tokens, block_size: 3 }),
    full([], 0, { ...hash, token_ids: tokens, extra_keys: [[`${secret}`], []] }),
    full([], 0, { ...hash, token_ids: [secret, -secret] }),
    full([], 0, { ...hash, token_ids: tokens, parent_block_hash: secret }),
    full([], 0, { ...hash, token_ids: tokens, lora_name: [`${secret}`] }),
    full([], 0, { ...hash, token_ids: tokens, medium: tokens }),
    full([], 0, { ...hash, token_ids: tokens, lora_name: `${secret}`.repeat(200) }),
    full([], 0, { block_hashes: [[secret]], token_ids: tokens }),
    full([], 0, { ...hash, token_ids: tokens, kv_cache_spec_kind: "mamba" }),
    full([], 0, { ...hash, token_ids: tokens, lookahead_token_ids: [[secret]] }),
    full([], 0, { ...hash, token_ids: tokens, block_size: 2, group_idx: 9 }),
    rem(0, [], { block_hashes: [secret, `${secret}`] }),
    [secret, tokens],
    { type: secret, token_ids: tokens },
    { [`${secret}`]: tokens },
  ];
  for (const [index, event] of odd.entries()) {
    pipeline.receive(framesOf(index, batchOf([event])), 0);
  }
  pipeline.receive(framesOf(90, batchOf([full([], 0, { ...hash, token_ids: tokens })], secret)), 0);
  pipeline.receive(raw(91, encodeWire(tokens)), 0);
  expect(lines.length).toBeGreaterThan(12);
  const forms = [
    `${secret}`.slice(0, 8),
    secret.toString(16),
    Buffer.from(`${secret}`).toString("hex"),
  ];
  for (const form of forms) expect(lines.join("")).not.toContain(form);
});
