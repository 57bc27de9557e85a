import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Block } from "../../../src/bridge/dist/block.js";
import { BlockHistory } from "../../../src/bridge/dist/block-history.js";
import { checkpointFingerprint } from "../../../src/bridge/dist/checkpoint-fingerprint.js";
import {
  type ExpectedCheckpoint,
  readCheckpoint,
} from "../../../src/bridge/dist/checkpoint-reader.js";
import type { CheckpointHead } from "../../../src/bridge/dist/checkpoint-state.js";
import { CheckpointWriter } from "../../../src/bridge/dist/checkpoint-writer.js";
import { UNSTATED_ENGINE } from "../../../src/bridge/dist/engine-config.js";
import { MIRROR_DEFAULTS } from "../../../src/bridge/dist/mirror.js";
import { PayloadDigests } from "../../../src/bridge/dist/payload-digests.js";
import {
  KeyedHasher,
  LIMITS,
  parseDpRank,
  parseSequenceNumber,
  type SequenceNumber,
} from "../../../src/protocol/dist/index.js";
import { headOf, PlayedRank } from "../../support/played-rank.ts";
import { group, hash, removed, span, stored } from "../../support/typed-events.ts";

const EXPECTED: ExpectedCheckpoint = { fingerprint: "print", dpRank: headOf().dpRank };

function rankOf(blocks: number): PlayedRank {
  const rank = new PlayedRank(UNSTATED_ENGINE);
  for (let i = 0; i < blocks; i++) rank.apply([stored([i], span(i * 10, i * 10 + 3))]);
  return rank;
}

function written(rank: PlayedRank, head: Partial<CheckpointHead> = {}): Buffer {
  return Buffer.from(new CheckpointWriter(rank.mirror).finish({ ...rank.head(), ...head }));
}

function reasonOf(bytes: Uint8Array, expected: Partial<ExpectedCheckpoint> = {}): string {
  const read = readCheckpoint(bytes, { ...EXPECTED, ...expected });
  return read.ok ? "taken" : read.error.reason;
}

function resealed(bytes: Buffer): Buffer {
  const end = bytes.length - 32;
  createHash("sha256").update(bytes.subarray(0, end)).digest().copy(bytes, end);
  return bytes;
}

function at(value: bigint): SequenceNumber {
  const parsed = parseSequenceNumber(value);
  if (parsed === undefined) throw new RangeError("not a sequence number");
  return parsed;
}

describe("a checkpoint is refused by name", () => {
  test("when it is of another rank or configuration", () => {
    const bytes = written(rankOf(3));
    expect(reasonOf(bytes)).toBe("taken");
    expect(reasonOf(bytes, { fingerprint: "other" })).toBe("checkpoint_foreign");
    const other = parseDpRank(1);
    expect(other === undefined ? "" : reasonOf(bytes, { dpRank: other })).toBe(
      "checkpoint_foreign",
    );
  });

  test("when it has another format, even with a right checksum", () => {
    const bytes = written(rankOf(3));
    bytes.writeUInt32LE(1, 8);
    expect(reasonOf(bytes)).toBe("checkpoint_version");
    expect(reasonOf(resealed(bytes))).toBe("checkpoint_version");
  });

  test("when it is no checkpoint, empty, or longer than it says", () => {
    expect(reasonOf(new Uint8Array())).toBe("checkpoint_damaged");
    expect(reasonOf(Buffer.from("#!/bin/sh\nexit 0\n"))).toBe("checkpoint_damaged");
    const longer = Buffer.concat([written(rankOf(3)), Buffer.alloc(1)]);
    expect(reasonOf(longer)).toBe("checkpoint_damaged");
  });

  test("when it holds more than the mirror may", () => {
    const rank = rankOf(4);
    rank.apply([removed([0, 1])]);
    const bytes = written(rank);
    const within = { maxBlocks: 2, maxHistory: 2 };
    expect(reasonOf(bytes, { mirror: within })).toBe("taken");
    expect(reasonOf(bytes, { mirror: { ...within, maxBlocks: 1 } })).toBe("checkpoint_too_large");
    expect(reasonOf(bytes, { mirror: { ...within, maxHistory: 1 } })).toBe("checkpoint_too_large");
    rank.apply([stored([9], span(90, 93), { medium: "CPU" })]);
    expect(reasonOf(written(rank), { mirror: { maxMedia: 0 } })).toBe("checkpoint_too_large");
  });

  test("when it is larger than checkpointBytes, before anything of it is read", () => {
    // Never touched, so it takes no memory.
    const most = new Uint8Array(LIMITS.checkpointBytes.value + 1);
    expect(reasonOf(most)).toBe("checkpoint_too_large");
    expect(reasonOf(most.subarray(1))).toBe("checkpoint_damaged");
  });

  test("when its head holds more than the gate or the facts may", () => {
    const rank = rankOf(1);
    const last = at(BigInt(LIMITS.duplicateDigests.value));
    const known = (first: number): CheckpointHead["gate"]["digests"] =>
      Array.from({ length: Number(last) - first + 1 }, (_, i) => [
        at(BigInt(first + i)),
        "x".repeat(44),
      ]);
    const digests = known(1);
    expect(reasonOf(written(rank, { gate: { last, digests } }))).toBe("taken");
    const more = known(0);
    expect(reasonOf(written(rank, { gate: { last, digests: more } }))).toBe("checkpoint_damaged");
  });
});

describe("a head is refused", () => {
  const sequences = (last: bigint, ...known: readonly bigint[]): Pick<CheckpointHead, "gate"> => ({
    gate: { last: at(last), digests: known.map((number) => [at(number), "digest"]) },
  });

  test.each([
    ["without the digest of its last number", sequences(9n, 7n, 8n)],
    ["without any digest", sequences(9n)],
    ["with numbers that do not grow", sequences(9n, 8n, 7n, 9n)],
    ["with the number that no batch has", sequences((1n << 64n) - 1n, (1n << 64n) - 1n)],
  ])("%s", (_, more) => {
    expect(reasonOf(written(new PlayedRank(UNSTATED_ENGINE), more))).toBe("checkpoint_damaged");
  });
});

test("digests of a process whose numbers went back do not mix with those of the one before", () => {
  const digests = new PayloadDigests(10);
  digests.add(at(1n), "a1");
  digests.add(at(2n), "a2");
  digests.add(at(0n), "b0");
  digests.add(at(1n), "b1");
  expect(digests.entries()).toEqual([
    [0n, "b0"],
    [1n, "b1"],
  ]);
  expect(digests.compare(at(2n), "a2")).toBe("unknown");
});

describe("a cut", () => {
  test("that a new beginning overtook is void and can be abandoned", () => {
    const rank = rankOf(10);
    const cut = new CheckpointWriter(rank.mirror);
    expect(cut.piece(4)).toBeDefined();
    rank.mirror.reset(true);
    expect(cut.isVoid).toBe(true);
    expect(() => cut.piece(4)).toThrow("a cut of what is gone gives nothing");
    cut.abandon();
    expect(readCheckpoint(written(rank), EXPECTED).ok).toBe(true);
  });

  test("is one at a time", () => {
    const rank = rankOf(1);
    const cut = new CheckpointWriter(rank.mirror);
    expect(() => new CheckpointWriter(rank.mirror)).toThrow("one cut at a time");
    cut.abandon();
    expect(written(rank).length).toBeGreaterThan(0);
  });

  test("takes at most the asked blocks a piece, and leaves no more than that to its end", () => {
    const most = LIMITS.checkpointPieceBlocks.value;
    const rank = rankOf(2 * most + 5);
    const cut = new CheckpointWriter(rank.mirror);
    const pieces: number[] = [];
    let changes = 0;
    for (;;) {
      const piece = cut.piece(most);
      if (piece === undefined) break;
      pieces.push(piece.length);
      if (changes > 0) continue;
      changes += 1;
      rank.apply([removed(Array.from({ length: most }, (_, i) => i))]);
    }
    // Three for all blocks; what the first piece had and changed since is few enough for the end.
    expect(pieces).toHaveLength(3);
    expect(pieces[0]).toBeGreaterThan(pieces[2] ?? 0);
    const end = cut.finish(rank.head());
    expect(end.length).toBeLessThan((pieces[0] ?? 0) * 1.5);
  });

  test("whose blocks change as fast as they are written ends all the same", () => {
    const rank = rankOf(60);
    const cut = new CheckpointWriter(rank.mirror);
    let pieces = 0;
    const all = Array.from({ length: 60 }, (_, i) => i);
    while (cut.piece(5) !== undefined) {
      pieces += 1;
      rank.apply([removed(all)]);
      rank.apply(all.map((i) => stored([i], span(i * 10, i * 10 + 3))));
    }
    expect(pieces).toBeGreaterThan(12);
    expect(pieces).toBeLessThan(40);
    const bytes = cut.finish(rank.head());
    expect(bytes.length).toBeGreaterThan(0);
  });

  test("keeps every field of the head", () => {
    const rank = rankOf(2);
    rank.apply([
      stored([5], span(100, 103), { kind: "sliding_window", windowTokens: 8, groupId: group(3) }),
    ]);
    const head = { ...rank.head(), isComplete: false, grouping: "ungrouped" as const };
    const read = readCheckpoint(written(rank, head), EXPECTED);
    expect(read.ok ? read.value.head : read.error).toEqual(head);
    expect(head.facts.groups).toHaveLength(2);
  });

  test("keeps an adapter's name of any characters", () => {
    const rank = new PlayedRank(UNSTATED_ENGINE);
    const loraName = "ä\ud800漢";
    const extraKeys = [[{ type: "text", value: loraName } as const]];
    rank.apply([stored([1], span(1, 4), { loraName, extraKeys })]);
    const other = new PlayedRank(UNSTATED_ENGINE);
    const read = readCheckpoint(written(rank), EXPECTED);
    if (read.ok) read.value.restore(other.mirror);
    expect([...other.mirror.all()].map((block) => block.loraName)).toEqual([loraName]);
  });
});

describe("a fingerprint", () => {
  const parts = {
    hasher: new KeyedHasher("sixteen characters"),
    dpRank: headOf().dpRank,
    topic: undefined,
    mirror: MIRROR_DEFAULTS,
  };
  const print = checkpointFingerprint(UNSTATED_ENGINE, parts);
  const named = {
    kind: "full_attention",
    blockSizeTokens: 16,
    windowTokens: undefined,
    chunkTokens: undefined,
    isPrivate: false,
    dropsBlock: false,
    specClass: undefined,
  };
  const two = [
    { groupId: group(0), ...named },
    { groupId: group(1), ...named, blockSizeTokens: 32 },
  ];

  test("differs when anything differs that changes what events mean", () => {
    const others = [
      checkpointFingerprint({ ...UNSTATED_ENGINE, lookaheadTokens: 0 }, parts),
      checkpointFingerprint({ ...UNSTATED_ENGINE, removalRule: "last_copy" }, parts),
      checkpointFingerprint({ ...UNSTATED_ENGINE, groups: two }, parts),
      checkpointFingerprint(UNSTATED_ENGINE, {
        ...parts,
        hasher: new KeyedHasher("another seed of it"),
      }),
      checkpointFingerprint(UNSTATED_ENGINE, { ...parts, topic: "kv-events" }),
      checkpointFingerprint(UNSTATED_ENGINE, { ...parts, dpRank: parseDpRank(1) ?? parts.dpRank }),
      checkpointFingerprint(UNSTATED_ENGINE, {
        ...parts,
        mirror: { ...MIRROR_DEFAULTS, maxHistory: 1 },
      }),
    ];
    expect(new Set([print, ...others]).size).toBe(others.length + 1);
  });

  test("does not depend on the order in which groups are stated", () => {
    const one = checkpointFingerprint({ ...UNSTATED_ENGINE, groups: two }, parts);
    const other = checkpointFingerprint({ ...UNSTATED_ENGINE, groups: two.toReversed() }, parts);
    expect(one).toBe(other);
  });
});

test("the history gives back the block unneeded for longest, and refreshed ones stay", () => {
  const history = new BlockHistory(2);
  const [a, b, c, d] = [1, 2, 3, 4].map((value) => new Block(hash(value), value));
  if (a === undefined || b === undefined || c === undefined || d === undefined) {
    throw new RangeError("four blocks were made");
  }
  expect([history.remember(a), history.remember(b)]).toEqual([undefined, undefined]);
  expect(history.refresh(a)).toBe(true);
  expect(history.remember(c)).toBe(b);
  expect(history.refresh(b)).toBe(false);
  expect(history.delete(a)).toBe(true);
  expect(history.remember(d)).toBeUndefined();
  expect(history.size).toBe(2);
  history.audit();
  expect(history.remember(a)).toBe(c);
  history.clear();
  expect([history.size, d.historyStamp]).toEqual([0, 0]);
});
