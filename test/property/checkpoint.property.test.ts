/**
 * What it is: the law of checkpoints: a rank that is restored goes on exactly as the one that was written down.
 * Method: recordings are played, some of their stores under other hashes, into a rank with a history of random size;
 * at a random moment a cut begins, batches go on between its pieces, and a second rank is restored from it. From
 * then on both say the same words for every batch. Then damaged checkpoints, with and without a right checksum.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: files or time.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type Checkpoint, readCheckpoint } from "../../src/bridge/dist/checkpoint-reader.js";
import { CHECKPOINT_REFUSALS } from "../../src/bridge/dist/checkpoint-state.js";
import { CheckpointWriter } from "../../src/bridge/dist/checkpoint-writer.js";
import type { EngineConfig } from "../../src/bridge/dist/engine-config.js";
import { parseFrames } from "../../src/bridge/dist/frames.js";
import type { MirrorMemory } from "../../src/bridge/dist/mirror-options.js";
import { decodeBatch } from "../../src/bridge/dist/validate.js";
import type { VllmEvent } from "../../src/bridge/dist/vllm-event.js";
import { engineConfigOfTrace } from "../../src/cli/dist/trace-engine.js";
import { openTrace } from "../../src/cli/dist/trace-file.js";
import { type BlockHash, isBlockHash } from "../../src/protocol/dist/index.js";
import { headOf, PlayedRank } from "../support/played-rank.ts";
import { Dice } from "../support/random-caches.ts";

const TRACES = [
  "full-16",
  "full-swa",
  "array-full-mamba",
  "offload-mamba",
  "lora-salt",
  "eagle-lookahead",
  "multimodal",
  "array-bytes-mixed",
  "fine-16-32",
  "chunked-local",
] as const;
const SEEDS = 30;
const MAX_BATCHES = 120;
const expected = { fingerprint: headOf().fingerprint, dpRank: headOf().dpRank };

interface Recording {
  readonly engine: EngineConfig;
  readonly batches: readonly (readonly VllmEvent[])[];
}

const recordings = new Map<string, Recording>();

beforeAll(async () => {
  for (const name of TRACES) recordings.set(name, await load(name));
});

async function load(name: string): Promise<Recording> {
  const trace = await openTrace(join(import.meta.dirname, `../fixtures/traces/${name}.jsonl.gz`));
  const engine = engineConfigOfTrace(trace.engine);
  const batches: (readonly VllmEvent[])[] = [];
  for await (const entry of trace.entries) {
    if (entry.type !== "frame") continue;
    const frames = parseFrames(entry.frames, { topic: undefined });
    if (!frames.ok) continue;
    const batch = decodeBatch(frames.value.payload, { digestBytes: engine.digestBytes });
    if (batch.ok) batches.push(batch.value.events);
    if (batches.length === MAX_BATCHES) break;
  }
  return { engine, batches };
}

function recording(name: string): Recording {
  const found = recordings.get(name);
  if (found === undefined) throw new RangeError(`no recording ${name}`);
  return found;
}

/** Another hash for the same content, as another hash seed would give. */
function twisted(hash: BlockHash): BlockHash {
  const text = String.fromCharCode(hash.charCodeAt(0) ^ 1) + hash.slice(1);
  return isBlockHash(text) ? text : hash;
}

function twist(events: readonly VllmEvent[], dice: Dice): readonly VllmEvent[] {
  return events.map((event) => {
    if (event.type !== "stored" || !dice.chance(0.1)) return event;
    const from = dice.int(0, event.hashes.length);
    const hashes = event.hashes.map((hash, at) => (at < from ? hash : twisted(hash)));
    const isParentTwisted = event.parent !== undefined && dice.chance(0.3);
    return { ...event, hashes, parent: isParentTwisted ? twisted(event.parent) : event.parent };
  });
}

interface Mutant {
  readonly name: string;
  readonly beforeFinish?: (writer: CheckpointWriter) => void;
  readonly restored?: (memory: MirrorMemory) => MirrorMemory;
}

const RIGHT: Mutant = { name: "none" };
const MUTANTS: readonly Mutant[] = [
  {
    name: "forgets what changed during the cut",
    beforeFinish: (writer) => writer["changes"].touched.clear(),
  },
  {
    name: "forgets what was forgotten during the cut",
    beforeFinish: (writer) => {
      writer["changes"].forgotten.length = 0;
    },
  },
  {
    name: "turns the history's order round",
    restored: (memory) => ({ ...memory, unheld: memory.unheld.toReversed() }),
  },
  {
    name: "loses parents",
    restored: (memory) => {
      for (const block of memory.blocks.values()) block.parent = undefined;
      return memory;
    },
  },
  {
    name: "loses adapters",
    restored: (memory) => {
      for (const block of memory.blocks.values()) block.loraName = undefined;
      return memory;
    },
  },
  {
    name: "takes every chain for plain",
    restored: (memory) => {
      for (const block of memory.blocks.values()) block.isPlain = true;
      return memory;
    },
  },
];

function bytesOf(cut: CheckpointWriter, rank: PlayedRank, between: () => void, dice: Dice): Buffer {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const piece = cut.piece(dice.int(1, 40));
    if (piece === undefined) break;
    pieces.push(piece);
    between();
    // A caller may end early: then the last piece is longer.
    if (dice.chance(0.01)) break;
  }
  return Buffer.concat([...pieces, cut.finish(rank.head())]);
}

function sound(bytes: Uint8Array): Checkpoint {
  const read = readCheckpoint(bytes, expected);
  if (!read.ok) throw new RangeError(`${read.error.reason}: ${read.error.detail}`);
  return read.value;
}

/** Throws when the restored rank says anything else. Gives how many batches were compared. */
function goOn(name: string, seed: number, mutant: Mutant): number {
  const dice = new Dice(seed);
  const { engine, batches } = recording(name);
  const mirror = dice.chance(0.7) ? { maxHistory: dice.int(2, 60) } : {};
  const first = new PlayedRank(engine, mirror);
  const played = batches.map((events) => twist(events, dice));
  const begin = dice.int(0, played.length >> 1);
  let at = 0;
  const play = (): void => {
    const events = played[at];
    at += 1;
    if (events !== undefined) first.apply(events);
  };
  while (at < begin) play();
  const cut = new CheckpointWriter(first.mirror);
  const perPiece = dice.int(0, 2);
  const bytes = bytesOf(
    cut,
    first,
    () => {
      for (let i = 0; i < perPiece && at < played.length - 20; i++) play();
      mutant.beforeFinish?.(cut);
    },
    dice,
  );
  first.mirror.audit();
  const checkpoint = sound(bytes);
  const second = new PlayedRank(engine, mirror);
  checkpoint.restore({
    restore: (memory) => second.mirror.restore(mutant.restored?.(memory) ?? memory),
  });
  second.facts.restore(checkpoint.head.facts);
  second.applier.restore(checkpoint.head.grouping);
  second.recomputer.restore(checkpoint.head.hashing);
  second.mirror.audit();
  expect(second.snapshot()).toEqual(first.snapshot());
  expect(checkpoint.head).toEqual(first.head());
  const compared = played.length - at;
  for (const events of played.slice(at)) expect(second.apply(events)).toEqual(first.apply(events));
  first.mirror.audit();
  second.mirror.audit();
  expect(second.snapshot()).toEqual(first.snapshot());
  expect(second.mirror.forgottenPlaces).toBeLessThanOrEqual(first.mirror.forgottenPlaces);
  return compared;
}

describe("a restored rank goes on as the one that was written down", () => {
  test.each(TRACES)("%s, cut at random moments", (name) => {
    let compared = 0;
    for (let seed = 1; seed <= SEEDS; seed++) compared += goOn(name, seed, RIGHT);
    expect(compared).toBeGreaterThan(SEEDS * 5);
  });

  test.each(MUTANTS)("a checkpoint that $name is caught", (mutant) => {
    const isCaught = TRACES.some((name) => {
      for (let seed = 1; seed <= SEEDS; seed++) {
        try {
          goOn(name, seed, mutant);
        } catch {
          return true;
        }
      }
      return false;
    });
    expect(isCaught).toBe(true);
  });
});

/** A small checkpoint with everything in it. */
function sample(name: string): Buffer {
  const { engine, batches } = recording(name);
  const rank = new PlayedRank(engine, { maxHistory: 8 });
  for (const events of batches.slice(0, 25)) rank.apply(events);
  const cut = new CheckpointWriter(rank.mirror);
  const last = (): void => {
    for (const events of batches.slice(25, 30)) rank.apply(events);
  };
  const first = cut.piece(5);
  last();
  return Buffer.concat([first ?? new Uint8Array(), cut.finish(rank.head())]);
}

/** The same bytes with a checksum and a length that are right. */
function resealed(bytes: Buffer): Buffer {
  const sealed = Buffer.from(bytes);
  const end = sealed.length - 32;
  sealed.writeUInt32LE(sealed.length, end - 4);
  createHash("sha256").update(sealed.subarray(0, end)).digest().copy(sealed, end);
  return sealed;
}

describe("a damaged checkpoint", () => {
  test("cut off anywhere, or with any bit turned, is refused", () => {
    const bytes = sample("lora-salt");
    const dice = new Dice(4);
    for (let end = 0; end < bytes.length; end += end < 64 ? 1 : dice.int(1, 200)) {
      const read = readCheckpoint(bytes.subarray(0, end), expected);
      expect(read.ok ? "" : read.error.reason, `cut at ${end}`).toBe("checkpoint_damaged");
    }
    for (let i = 0; i < 600; i++) {
      const at = i < 100 ? i : dice.int(0, bytes.length - 1);
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ (1 << dice.int(0, 7));
      const read = readCheckpoint(damaged, expected);
      expect(read.ok, `bit of byte ${at}`).toBe(false);
    }
  });

  test.each(["lora-salt", "offload-mamba"] as const)(
    "%s with a right checksum is refused, or gives a mirror without a contradiction",
    (name) => {
      const bytes = sample(name);
      const { engine, batches } = recording(name);
      const dice = new Dice(5);
      const reasons = new Set<string>();
      let taken = 0;
      for (let i = 0; i < 1_500; i++) {
        let damaged = Buffer.from(bytes);
        if (dice.chance(0.3)) {
          const from = dice.int(12, damaged.length - 50);
          const to = Math.min(damaged.length - 44, from + dice.int(1, 40));
          damaged = Buffer.concat([damaged.subarray(0, from), damaged.subarray(to)]);
        }
        for (let flips = dice.int(1, 3); flips > 0; flips--) {
          const at = dice.int(8, damaged.length - 37);
          damaged[at] = dice.chance(0.5) ? dice.int(0, 255) : (damaged[at] ?? 0) ^ 1;
        }
        const read = readCheckpoint(resealed(damaged), expected);
        if (!read.ok) {
          reasons.add(read.error.reason);
          continue;
        }
        taken += 1;
        const rank = new PlayedRank(engine);
        read.value.restore(rank.mirror);
        rank.facts.restore(read.value.head.facts);
        rank.mirror.audit();
        expect(rank.snapshot().length).toBeLessThan(200);
        for (const events of batches.slice(30, 34)) rank.apply(events);
        rank.mirror.audit();
      }
      expect(CHECKPOINT_REFUSALS).toEqual(expect.arrayContaining([...reasons]));
      expect(reasons.size).toBeGreaterThan(1);
      expect(taken).toBeGreaterThan(20);
    },
  );
});
