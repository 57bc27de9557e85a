import type { PrefixKeyReader } from "../../src/prefix-index/dist/index.js";

export type PinnedEvent =
  | {
      readonly type: "store";
      readonly worker: number;
      readonly groupId: number;
      readonly keys: Uint8Array;
      readonly endTokens: number;
      readonly stepTokens: number;
    }
  | {
      readonly type: "remove";
      readonly worker: number;
      readonly groupId: number;
      readonly keys: Uint8Array;
    };

export class Pinned {
  constructor(profile?: string, targetBlocks?: number);
  readonly holders: number;
  readonly sizes: Readonly<
    Record<"families" | "events" | "streamBlocks" | "generated" | "resident", number>
  >;
  events(): Iterable<PinnedEvent>;
  queries(
    most?: number,
  ): Readonly<Record<"1" | "8" | "64" | "gate" | "miss", readonly Uint8Array[]>>;
}

export class GivenKeys implements PrefixKeyReader {
  keyLow: number;
  keyHigh: number;
  begin(keys: Uint8Array): void;
  seek(positionTokens: number): void;
}

export function check(profile?: string, targetBlocks?: number): Pinned;
