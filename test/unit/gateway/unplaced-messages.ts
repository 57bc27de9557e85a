/**
 * What it is: builders of messages that tell blocks without a place, of the engine that `FakeHashes` is, or a real one.
 * Owns: nothing.
 * Refuses: nothing; tests build broken messages too.
 * Does not do: find places.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type BatchSchema,
  Completeness,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { blockHashes, type HashedPrompt } from "../../../src/engine-hash/dist/index.js";
import type { NamedPrompt } from "../../../src/gateway/dist/prompt-keys.js";
import {
  HashKeys,
  type HashScheme,
  hashSchemeToWire,
  writeKey,
} from "../../../src/protocol/dist/index.js";
import { fakeHash, fakeScheme } from "./fake-hashes.ts";
import { type EngineInit, type EventInit, FULL_4, HASHER } from "./messages.ts";

/** What `create` takes for blocks without a place. */
export interface UnplacedInit {
  readonly groupId?: number;
  readonly medium?: string;
  readonly locality?: string;
  readonly blockSize?: number;
  readonly hashKeys?: Uint8Array;
  readonly tailKeys?: Uint8Array;
}

/** What a batch says. */
export interface BatchContents {
  readonly removed?: readonly UnplacedInit[];
  readonly events?: readonly EventInit[];
  readonly stored?: readonly UnplacedInit[];
}

/** `FULL_4` with a proven scheme of unit 4. */
export function withScheme(scheme = fakeScheme(), more: EngineInit = {}): EngineInit {
  return { ...FULL_4, hashScheme: hashSchemeToWire({ state: "proven", scheme }), ...more };
}

/** The prompt as engines hash it. */
export function hashedPrompt(prompt: NamedPrompt): HashedPrompt {
  const { tokens, loraName, cacheSalt, multimodalItems = [] } = prompt;
  const items = multimodalItems.map(({ identifier, offset, length }) => ({
    identifier,
    offset,
    length,
  }));
  return { tokens, loraName, cacheSalt, items };
}

/** The hash of a prompt's block that ends there. */
export type HashOf = (
  scheme: HashScheme,
  lookaheadTokens: number,
  prompt: HashedPrompt,
  endTokens: number,
) => string;

/** As vLLM has it. */
export const realHash: HashOf = (scheme, lookaheadTokens, prompt, endTokens) => {
  const digests = blockHashes(prompt, scheme, lookaheadTokens);
  const found = digests.find((block) => block.endTokens === endTokens);
  if (found === undefined) throw new RangeError("no hash ends there");
  return found.digest;
};

/** The key of one of the engine's hashes, and that of its tail: 8 bytes each. */
export function blockKeys(
  scheme: HashScheme,
  lookaheadTokens: number,
  prompt: NamedPrompt,
  endTokens: number,
  hashOf: HashOf = fakeHash,
): { readonly hashKey: Uint8Array; readonly tailKey: Uint8Array } {
  const keys = new HashKeys(HASHER);
  const hashKey = new Uint8Array(8);
  const tailKey = new Uint8Array(8);
  keys.ofHash(hashOf(scheme, lookaheadTokens, hashedPrompt(prompt), endTokens));
  writeKey(hashKey, 0, keys.keyLow, keys.keyHigh);
  keys.ofTail(prompt.tokens, endTokens - scheme.unitTokens, endTokens);
  writeKey(tailKey, 0, keys.keyLow, keys.keyHigh);
  return { hashKey, tailKey };
}

/** The blocks of a prompt that end there, of group 0 in the GPU. Without `tailKeys` they are fit to be removed. */
export function unplaced(
  prompt: NamedPrompt,
  ends: readonly number[],
  more: UnplacedInit & {
    readonly scheme?: HashScheme;
    readonly lookahead?: number;
    readonly hashOf?: HashOf;
  } = {},
): UnplacedInit & { readonly hashKeys: Uint8Array; readonly tailKeys: Uint8Array } {
  const { scheme = fakeScheme(), lookahead = 0, hashOf, ...init } = more;
  const keys = ends.map((end) => blockKeys(scheme, lookahead, prompt, end, hashOf));
  return {
    groupId: 0,
    blockSize: scheme.unitTokens,
    hashKeys: Buffer.concat(keys.map(({ hashKey }) => hashKey)),
    tailKeys: Buffer.concat(keys.map(({ tailKey }) => tailKey)),
    ...init,
  };
}

/** A batch of epoch 7. */
export function batchWith(
  sequence: number,
  { removed = [], events = [], stored = [] }: BatchContents,
  more: Partial<
    Pick<MessageInitShape<typeof BatchSchema>, "unplacedBlocks" | "toldUnplacedBlocks">
  > = {},
): SubscribeResponse {
  const batch = {
    sequenceNumber: BigInt(sequence),
    events: [...events],
    unplacedRemoved: [...removed],
    unplacedStored: [...stored],
  };
  const value = { epoch: 7n, batch, completeness: Completeness.COMPLETE, ...more };
  return create(SubscribeResponseSchema, { message: { case: "batch", value } });
}

/** A piece of a snapshot. */
export function chunkWith(
  index: number,
  isLast: boolean,
  events: readonly EventInit[],
  told: readonly UnplacedInit[],
): SubscribeResponse {
  const value = { index, isLast, events: [...events], unplaced: [...told] };
  return create(SubscribeResponseSchema, { message: { case: "snapshotChunk", value } });
}
