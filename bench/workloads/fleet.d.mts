import type { RankLayout } from "../../src/prefix-index/dist/index.js";

export type Variant = "a" | "b" | "c" | "d";

/** A run of one group, or the removal of keys. A batch is of one worker, as an engine step. */
export type FleetEvent =
  | {
      readonly type: "store";
      readonly worker: number;
      readonly groupId: number;
      /** 8 bytes little-endian each. */
      readonly keys: Uint8Array;
      readonly endTokens: number;
      readonly stepTokens: number;
      /** Empty = the run begins a prompt. */
      readonly parentKey: Uint8Array;
    }
  | {
      readonly type: "remove";
      readonly worker: number;
      readonly groupId: number;
      readonly keys: Uint8Array;
    };

export interface FleetAnswer {
  readonly blocks: number;
  /** Workers that hold all of them. */
  readonly workers: number;
  /** Workers that hold any. */
  readonly holders: number;
}

export interface FleetCounts {
  readonly entries: number;
  readonly distinct: number;
}

export const KEY_SEED: string;
export function layoutOf(variant: Variant, options?: { isFine?: boolean }): RankLayout;
export function keysOf(tokens: Uint32Array, blockTokens?: number): Uint8Array;

export class Chain {
  constructor(blocks: number, stream: number, prefix: Chain | undefined);
  readonly blocks: number;
  readonly tokens: Uint32Array;
  readonly keys: Uint8Array;
}

export class Fleet {
  constructor(workers: number);
  readonly workers: number;
  readonly counts: FleetCounts;
  batches(variant?: Variant): Iterable<readonly FleetEvent[]>;
  removals(variant?: Variant): Iterable<readonly FleetEvent[]>;
  holes(): Iterable<readonly FleetEvent[]>;
  firstQuery(q: number): Uint32Array;
  secondQuery(q: number): Uint32Array;
  mixedQuery(q: number): Uint32Array;
  firstAnswer(q: number): FleetAnswer;
  secondAnswer(q: number): FleetAnswer;
}

export class OnePrompt {
  constructor(workers: number, shape: "depths" | "all", blocks?: number);
  readonly workers: number;
  readonly tokens: Uint32Array;
  readonly counts: FleetCounts;
  batches(variant?: Variant): Iterable<readonly FleetEvent[]>;
}

export function check(workers?: number): Fleet;
