/**
 * What it is: one rank's view over an index of its own, and the score of the prompt 1 … n.
 * Owns: the index; it is audited after every message.
 * Refuses: nothing.
 * Does not do: subscriptions.
 */
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { expect } from "vitest";
import { newApplyCounts } from "../../../src/gateway/dist/apply-counts.js";
import { PlaceSearch } from "../../../src/gateway/dist/place-search.js";
import { type NamedPrompt, PromptKeys } from "../../../src/gateway/dist/prompt-keys.js";
import { RankView } from "../../../src/gateway/dist/rank-view.js";
import { ALL, PrefixIndex, ScoreBuffer } from "../../../src/prefix-index/dist/index.js";
import { parseDpRank } from "../../../src/protocol/dist/index.js";
import { FakeHashes } from "./fake-hashes.ts";
import { HASHER, KEY_SCHEME, liveWith, tokensTo } from "./messages.ts";

/** See the file header. */
export class Bench {
  readonly index: PrefixIndex;
  /** Of the engine that `FakeHashes` is. */
  readonly search = new PlaceSearch(HASHER, (...scheme) => new FakeHashes(...scheme));
  readonly view: RankView;
  readonly counts = newApplyCounts();
  readonly scores = new ScoreBuffer();

  constructor(maxEntriesPerRank = 1_000_000) {
    const dpRank = parseDpRank(0);
    if (dpRank === undefined) throw new TypeError("0 is a rank");
    this.index = new PrefixIndex({ maxNodes: 1_000_000, maxEntriesPerRank });
    const { index, search, counts } = this;
    this.view = new RankView({ index, search, dpRank, keyScheme: KEY_SCHEME, counts });
  }

  /** The refusals of the messages, or "" for each that was taken. */
  take(...messages: readonly SubscribeResponse[]): readonly string[] {
    const refusals = messages.map((message) => {
      const applied = this.view.apply(message);
      return applied.ok ? "" : applied.error;
    });
    this.audit();
    return refusals;
  }

  /** What the rank would reuse of the tokens 1 … n, or of a prompt. */
  score(prompt: number | NamedPrompt): number {
    const asked = typeof prompt === "number" ? { tokens: tokensTo(prompt) } : prompt;
    this.search.find(asked);
    const keys = new PromptKeys(HASHER);
    keys.begin(asked);
    this.index.score(keys, asked.tokens.length, this.scores);
    this.audit();
    return this.scores.reusableTokensAt(0);
  }

  audit(): void {
    this.index.audit();
    this.search.audit([this.view.unplaced]);
  }

  entries(groupId = 0, mediumId = ALL): number {
    return this.index.groupEntryCount(this.view.rank, groupId, mediumId);
  }
}

/** A bench that took `liveWith`. */
export function live(...events: Parameters<typeof liveWith>): Bench {
  const bench = new Bench();
  for (const refusal of bench.take(...liveWith(...events))) expect(refusal).toBe("");
  return bench;
}
