import { expect, test } from "vitest";
import { PromptKeys } from "../../../src/gateway/dist/prompt-keys.js";
import { PLAIN, PrefixState } from "../../../src/protocol/dist/index.js";
import { HASHER, tokensTo } from "./messages.ts";

const ROOT = HASHER.rootWords(PLAIN);
const TOKENS = tokensTo(40);

function keyOf(build: (state: PrefixState) => void): string {
  const state = new PrefixState();
  state.load(ROOT, 0, 0);
  build(state);
  state.finish();
  return `${state.keyHigh}/${state.keyLow}`;
}

function read(keys: PromptKeys, position: number): string {
  keys.seek(position);
  return `${keys.keyHigh}/${keys.keyLow}`;
}

test("keys are those of the prefixes, whatever positions are asked on the way", () => {
  const keys = new PromptKeys(HASHER);
  for (const positions of [[0, 1, 7, 40], [16, 16, 32], [40]]) {
    keys.reset(TOKENS, ROOT);
    for (const position of positions) {
      expect(read(keys, position)).toBe(keyOf((state) => state.absorb(TOKENS, 0, position)));
    }
  }
});

test("an item counts from the token after its start, and not at its start", () => {
  const items = [
    { identifier: "a", offset: 0 },
    { identifier: "b", offset: 8 },
  ];
  const keys = new PromptKeys(HASHER);
  keys.reset(TOKENS, ROOT, items);
  const upTo = (state: PrefixState, end: number): void => {
    if (end === 0) return;
    state.absorbItem(HASHER.itemWords({ identifier: "a", startTokens: 0 }));
    state.absorb(TOKENS, 0, Math.min(end, 8));
    if (end <= 8) return;
    state.absorbItem(HASHER.itemWords({ identifier: "b", startTokens: 8 }));
    state.absorb(TOKENS, 8, end);
  };
  for (const end of [0, 1, 8, 9, 40]) {
    expect(read(keys, end)).toBe(keyOf((state) => upTo(state, end)));
  }
});

test("a prompt that follows another one owes it nothing", () => {
  const keys = new PromptKeys(HASHER);
  keys.reset(TOKENS, ROOT, [{ identifier: "a", offset: 2 }]);
  keys.seek(20);
  keys.reset(TOKENS, ROOT);
  expect(read(keys, 4)).toBe(keyOf((state) => state.absorb(TOKENS, 0, 4)));
});

test("going back and beyond the prompt are our bugs", () => {
  const keys = new PromptKeys(HASHER);
  keys.reset(TOKENS, ROOT);
  keys.seek(8);
  expect(() => keys.seek(7)).toThrow("ascending");
  expect(() => keys.seek(41)).toThrow("inside the prompt");
});
