/**
 * What it is: `kvgroup demo`: a recorded engine on real sockets, a real bridge process, a real gateway process, and
 * for each recorded prompt the predicted number beside the engine's own.
 * Owns: the player, both children and a temporary folder.
 * Refuses: traces with restarts (verify-trace plays those).
 * Does not do: need a GPU, a cluster or anything outside the repository.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { systemRandomness } from "@kv-group-bridge/runtime";
import { ChildService } from "./child-service.ts";
import { EnginePlayer } from "./engine-player.ts";
import { ScoreClient } from "./score-client.ts";
import { adapterPaths } from "./trace-adapters.ts";
import { engineDescriptionOfTrace } from "./trace-engine.ts";
import { openTrace, type Trace } from "./trace-file.ts";

/** The built-in trace: one full-attention group and five sliding-window groups. */
const BUILT_IN_TRACE = join(import.meta.dirname, "../../../test/fixtures/traces/gemma.jsonl.gz");
const WORKER = "recorded-engine";

/** Flags as given. */
export interface DemoOptions {
  readonly trace?: string;
  readonly prompts: string;
}

/** Gives the exit code: 0 = at least one prompt and no answer above the engine's. */
export async function demoCommand(options: DemoOptions): Promise<number> {
  const limit = Number(options.prompts);
  if (!Number.isSafeInteger(limit) || limit < 0) {
    throw new KvEventsError("config_invalid", "--prompts: not a number of prompts");
  }
  const file = options.trace ?? BUILT_IN_TRACE;
  const trace = await openTrace(file);
  const loraPaths = await adapterPaths(file, trace.engine);
  const folder = mkdtempSync(join(tmpdir(), "kvgroup-demo-"));
  const player = new EnginePlayer();
  const children: ChildService[] = [];
  try {
    const { publish, replay } = await player.open();
    say(
      `engine:  ${basename(file)}, recorded from vLLM ${trace.engine.vllm}, publishes on ${publish}`,
    );
    const bridge = await startBridge(folder, trace, loraPaths, { publish, replay });
    children.push(bridge);
    say(`bridge:  process serves on 127.0.0.1:${bridge.port}`);
    const gateway = await startGateway(folder, bridge, trace.engine.dp_rank);
    children.push(gateway);
    say(`gateway: process serves on 127.0.0.1:${gateway.port}`);
    const client = new ScoreClient(`http://127.0.0.1:${gateway.port}`, WORKER);
    try {
      await client.live();
      await player.subscribed();
      say("");
      return await ask({ trace, player, client, limit });
    } finally {
      client.close();
    }
  } finally {
    await Promise.all(children.map((child) => child.stop()));
    await player.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function seedEnvironment(folder: string): string {
  const path = join(folder, "seed");
  writeFileSync(path, systemRandomness.uint64().toString(16).padStart(16, "0"), { flag: "a" });
  return path;
}

function startBridge(
  folder: string,
  trace: Trace,
  loraPaths: ReadonlyMap<string, string>,
  engine: { readonly publish: string; readonly replay: string },
): Promise<ChildService> {
  const description = join(folder, "engine.json");
  writeFileSync(description, JSON.stringify(engineDescriptionOfTrace(trace.engine, { loraPaths })));
  const rank = String(trace.engine.dp_rank);
  const flags = [
    ["engine-endpoint", engine.publish],
    ["engine-topic", trace.engine.topic ?? ""],
    ["engine-dp-ranks", rank],
    // The player's port is that of this very rank.
    ["engine-port-offset", "index"],
    ["engine-description-file", description],
    ["keys-seed-file", seedEnvironment(folder)],
    ["listen-port", "0"],
    ["health-port", "0"],
  ];
  return ChildService.start(binary(), ["bridge", ...flags.flatMap(toFlag)], {});
}

function startGateway(folder: string, bridge: ChildService, dpRank: number): Promise<ChildService> {
  const workers = [{ name: WORKER, url: `http://127.0.0.1:${bridge.port}`, dp_ranks: [dpRank] }];
  const flags = [
    ["workers", JSON.stringify(workers)],
    ["keys-seed-file", join(folder, "seed")],
    ["listen-port", "0"],
    ["health-port", "0"],
  ];
  return ChildService.start(binary(), ["gateway", ...flags.flatMap(toFlag)], {});
}

function toFlag([name, value]: readonly string[]): string[] {
  return [`--${name}=${value ?? ""}`];
}

function binary(): string {
  return join(import.meta.dirname, "main.js");
}

interface Asking {
  readonly trace: Trace;
  readonly player: EnginePlayer;
  readonly client: ScoreClient;
  /** 0 = all. */
  readonly limit: number;
}

async function ask({ trace, player, client, limit }: Asking): Promise<number> {
  const counts = { prompts: 0, equal: 0, above: 0, below: 0, batches: 0 };
  let published: bigint | undefined;
  for await (const entry of trace.entries) {
    if (entry.type === "restart") {
      throw new KvEventsError("trace_invalid", "the demo plays no restarts: use verify-trace");
    }
    if (entry.type === "frame") {
      await player.publish(entry.frames);
      counts.batches += 1;
      published = Buffer.from(entry.frames[1] ?? []).readBigUInt64BE();
      continue;
    }
    await client.applied(published);
    const answer = await client.score(entry.prompt);
    const word = compare(answer.reusableTokens, entry.native);
    counts.prompts += 1;
    counts[word] += 1;
    say(
      `prompt ${pad(counts.prompts, 4)}  ${pad(entry.prompt.tokens.length, 5)} tokens` +
        `  engine ${pad(entry.native, 5)}  predicted ${pad(answer.reusableTokens, 5)}  ${word}` +
        `  ${answer.state}, ${answer.limitedBy}`,
    );
    if (limit > 0 && counts.prompts >= limit) break;
  }
  say("");
  say(
    `${counts.prompts} prompts after ${counts.batches} batches of the engine: ` +
      `${counts.equal} equal, ${counts.above} above, ${counts.below} below`,
  );
  return counts.prompts > 0 && counts.above === 0 ? 0 : 1;
}

function compare(predicted: number, native: number): "equal" | "above" | "below" {
  if (predicted === native) return "equal";
  return predicted > native ? "above" : "below";
}

function pad(value: number, width: number): string {
  return String(value).padStart(width);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
