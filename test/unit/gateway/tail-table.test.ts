import { expect, test } from "vitest";
import { HashChain } from "../../../src/gateway/dist/hash-chain.js";
import { SchemeBlocks, schemeName } from "../../../src/gateway/dist/scheme-blocks.js";
import { TailTable } from "../../../src/gateway/dist/tail-table.js";
import { UnplacedBlock } from "../../../src/gateway/dist/unplaced-block.js";
import { HashKeys, LIMITS } from "../../../src/protocol/dist/index.js";
import { FakeHashes, fakeScheme } from "./fake-hashes.ts";
import { HASHER } from "./messages.ts";

const OWNER = { found() {}, obstructed() {} };
const scheme = fakeScheme();
const plainChain = new HashChain(new FakeHashes(scheme), scheme, 0, new HashKeys(HASHER));
const newScheme = (name: string) =>
  new SchemeBlocks({ name, scheme, lookaheadTokens: 0, plainChain });

function block(tailLow: number, tailHigh: number): UnplacedBlock {
  const place = { groupId: 0, mediumId: 0, blockSizeTokens: 4, hashKey: "12345678" };
  return new UnplacedBlock({ owner: OWNER, ...place, tailLow, tailHigh });
}

test("a tail is found by both halves while a block has it", () => {
  const table = new TailTable(4);
  const one = newScheme("one");
  const two = newScheme("two");
  const blocks = [block(2 ** 32 - 1, 1), block(2 ** 32 - 1, 1), block(2 ** 32 - 1, 2), block(5, 1)];
  for (const [i, each] of blocks.entries()) expect(table.add(each, i === 1 ? two : one)).toBe(true);
  table.audit();
  expect(table.find(2 ** 32 - 1, 3)).toBeUndefined();
  for (const [i, each] of blocks.entries()) {
    expect(table.find(each.tailLow, each.tailHigh)).toBeDefined();
    table.remove(each);
    table.audit();
    const isShared = i === 0;
    expect(table.find(each.tailLow, each.tailHigh) !== undefined).toBe(isShared);
  }
  expect(table.count).toBe(0);
});

test("blocks come and go in any order", () => {
  const table = new TailTable(4);
  const schemes = [newScheme("one"), newScheme("two"), newScheme("three")];
  const blocks = Array.from({ length: 60 }, (_, i) => block(i % 3, i % 5));
  for (const [i, each] of blocks.entries()) table.add(each, schemes[i % 3] ?? newScheme(""));
  for (let i = 0; i < 60; i++) {
    const each = blocks[(i * 7) % 60];
    if (each !== undefined) table.remove(each);
    table.audit();
  }
  expect(table.count).toBe(0);
});

test("too many tails with the same low half are refused", () => {
  const table = new TailTable(4);
  const most = LIMITS.tailsPerBucket.value;
  for (let high = 0; high < most; high++)
    expect(table.add(block(9, high), newScheme(""))).toBe(true);
  expect(table.add(block(9, most), newScheme(""))).toBe(false);
  expect(table.add(block(9, 0), newScheme(""))).toBe(true);
  expect(table.add(block(10, most), newScheme(""))).toBe(true);
  table.audit();
});

test("schemes have equal names exactly when they hash alike", () => {
  const name = (more = {}, lookahead = 0) => schemeName(fakeScheme(more), lookahead);
  const paths = (...entries: readonly (readonly [string, string])[]) => new Map(entries);
  expect(name({ loraPaths: paths(["a", "1"], ["b", "2"]), seedOrigin: "common" })).toBe(
    name({ loraPaths: paths(["b", "2"], ["a", "1"]) }),
  );
  const names = [
    name(),
    name({}, 1),
    name({ algorithm: "xxhash" }),
    name({ rootDigest: undefined }),
    name({ unitTokens: 8 }),
    name({ extraKeyForm: undefined }),
    name({ extraKeyForm: "untagged" }),
    name({ loraPaths: paths(["a", "1"]) }),
    name({ loraPaths: paths(["a", "2"]) }),
  ];
  expect(new Set(names).size).toBe(names.length);
});
