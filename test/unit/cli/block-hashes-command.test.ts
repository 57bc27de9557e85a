// Goal: what makes no scheme is refused by the name of its flag, and no token stands in the message.
import { describe, expect, test } from "vitest";
import { blockHashLines } from "../../../src/cli/dist/block-hashes-command.js";
import type { BlockHashesFlags } from "../../../src/cli/dist/block-hashes-flags.js";

const flags: BlockHashesFlags = { algorithm: "sha256", blockSize: "2", lookahead: "0" };
const tokens = "31337,2,3,4";

function lines(changes: Partial<BlockHashesFlags>, text?: string): readonly string[] {
  return blockHashLines({ ...flags, ...changes }, () => {
    if (text === undefined) throw new Error("no such file");
    return text;
  });
}

function refusalOf(changes: Partial<BlockHashesFlags>, text?: string): unknown {
  try {
    return lines(changes, text);
  } catch (error) {
    return error;
  }
}

describe("block-hashes", () => {
  test("the same tokens from either flag, whole blocks alone", () => {
    const found = lines({ tokens });
    expect(found).toHaveLength(2);
    expect(lines({ tokensFile: "-" }, "[31337, 2, 3, 4, 5]\n")).toEqual(found);
    expect(lines({ tokens, lookahead: "1" })).toHaveLength(1);
    expect(lines({ tokens: "1", lookahead: "9" })).toEqual([]);
    expect(lines({ tokens: "" })).toEqual([]);
  });

  test("a salt, an adapter, its path, the form and the seed each give other hashes", () => {
    const lora = { tokens, lora: "a" };
    const variants = [
      lines({ tokens }),
      lines({ tokens, salt: "s" }),
      lines({ ...lora, loraPath: "/a" }),
      lines({ ...lora, loraPath: "/b" }),
      lines({ ...lora, untagged: true }),
      lines({ tokens, seed: "0" }),
      lines({ tokens, algorithm: "sha256_cbor" }),
      lines({ tokens, algorithm: "xxhash", seed: "0" }),
    ];
    expect(new Set(variants.map((variant) => variant.at(-1))).size).toBe(variants.length);
  });

  test.each<[string, Partial<BlockHashesFlags>, string?]>([
    ["--block-size: not a whole number from 1", { tokens, blockSize: "0" }],
    ["--block-size: not a whole number from 1", { tokens, blockSize: "1e3" }],
    ["--lookahead: not a whole number from 0", { tokens, lookahead: "-1" }],
    ["--algorithm: not one of sha256, ", { tokens, algorithm: "builtin" }],
    ["--seed: xxhash begins with random bytes", { tokens, algorithm: "xxhash" }],
    ["--seed: not Unicode", { tokens, seed: "\ud800" }],
    ["--lora needs --lora-path", { tokens, lora: "a" }],
    ["--lora-path needs --lora", { tokens, loraPath: "/a" }],
    ["--lora-path: not part of", { tokens, lora: "a", loraPath: "/a", untagged: true }],
    ["give --tokens or --tokens-file", {}],
    ["give --tokens or --tokens-file", { tokens, tokensFile: "-" }],
    ["--tokens: not a list", { tokens: "31337,x" }],
    ["--tokens: not a list", { tokens: "31337,4294967296" }],
    ["--tokens: not a list", { tokens: "31337,-1" }],
    ["--tokens-file: not a list", { tokensFile: "-" }, '{"31337": 1}'],
    ["--tokens-file: cannot be read", { tokensFile: "none" }],
    ["a block cannot be computed", { tokens, salt: "\ud800" }],
  ])("%s", (message, changes, text) => {
    const refusal = refusalOf(changes, text);
    expect(refusal).toMatchObject({ code: "config_invalid" });
    expect(String(refusal)).toContain(message);
    expect(String(refusal)).not.toContain("31337");
  });
});
