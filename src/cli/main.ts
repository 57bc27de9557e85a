#!/usr/bin/env node
/**
 * What it is: the `kvgroup` binary: subcommands and their flags.
 * Owns: the process's exit code.
 * Refuses: unknown subcommands and flags (commander says which one was meant).
 * Does not do: work of its own. Each subcommand is loaded when it is used, so that `gateway` never loads the
 * native ZeroMQ module.
 */
import { KvEventsError } from "@kv-group-bridge/protocol";
import { Command } from "commander";
import type { BlockHashesFlags } from "./block-hashes-flags.ts";
import type { SimFlags } from "./sim/sim-command.ts";
import type { VerifyOptions } from "./verify-command.ts";

/** Exit code for a wrong configuration or wrong arguments; 1 is a run that failed. */
const EXIT_USAGE = 2;

function addVerifyTrace(program: Command): void {
  program
    .command("verify-trace")
    .description("play recorded engines through every stage and compare each answer with their own")
    .argument("<files...>", "traces in the format kvtrace/1 (.jsonl or .jsonl.gz)")
    .option("--json", "one JSON object a file instead of a table")
    .option("--join <batches>", 'the gateway joins after so many batches, or "random"')
    .option("--exact", "an answer below is a failure also where the header says upper_bound_only")
    .option("--no-recompute", "the bridge recomputes no hashes: shows what that is good for")
    .option("--faults <seed>", "lose, repeat, cut and restart as the seed draws, then heal")
    .action(async (files: string[], options: VerifyOptions) => {
      const { verifyCommand, verifyFaultsCommand, readVerifyOptions } = await import(
        "./verify-command.ts"
      );
      const { faultSeed, ...flags } = readVerifyOptions(options);
      process.exitCode =
        faultSeed === undefined
          ? await verifyCommand(files, flags)
          : await verifyFaultsCommand(files, faultSeed, flags);
    });
}

async function main(): Promise<void> {
  const { addConfigFlags, flagsOf } = await import("./config-flags.ts");
  const { VERSION } = await import("./version.ts");
  const program = new Command("kvgroup")
    .description(
      "vLLM's KV cache events per cache group, and what each worker would really reuse of a prompt",
    )
    .version(VERSION);
  const { bridgeFields } = await import("@kv-group-bridge/bridge/config");
  const { gatewayFields } = await import("@kv-group-bridge/gateway/config");

  const bridge = program.command("bridge").description("run a bridge beside one vLLM engine");
  addConfigFlags(bridge, bridgeFields);
  bridge.action(async () => {
    const { bridgeCommand } = await import("./bridge-command.ts");
    await bridgeCommand(flagsOf(bridge, bridgeFields));
  });

  const gateway = program.command("gateway").description("run a gateway over many bridges");
  addConfigFlags(gateway, gatewayFields);
  gateway.action(async () => {
    const { gatewayCommand } = await import("./gateway-command.ts");
    await gatewayCommand(flagsOf(gateway, gatewayFields));
  });

  addVerifyTrace(program);

  program
    .command("demo")
    .description("play a recorded engine to a real bridge and a real gateway on this machine")
    .option("--trace <file>", "another trace than the built-in one")
    .option("--prompts <number>", "stop after so many prompts; 0 = all", "400")
    .action(async (options: { trace?: string; prompts: string }) => {
      const { demoCommand } = await import("./demo-command.ts");
      process.exitCode = await demoCommand(options);
    });

  program
    .command("sim")
    .description(
      "simulate engines, a bridge and gateways on a virtual clock, with faults, from seeds",
    )
    .option("--seeds <number>", "how many seeds", "1000")
    .option("--from <number>", "the first seed", "1")
    .option("--seed <number>", "this one seed only")
    .option("--plant <name>", "with a planted bug, which must be found")
    .option("--trace", "print everything that happens")
    .action(async (options: SimFlags) => {
      const { simCommand } = await import("./sim/sim-command.ts");
      process.exitCode = simCommand(options);
    });
  await addBlockHashes(program);
  await program.parseAsync();
}

async function addBlockHashes(program: Command): Promise<void> {
  const { addBlockHashesFlags } = await import("./block-hashes-flags.ts");
  const blockHashes = program
    .command("block-hashes")
    .description("given these tokens, name the blocks as an engine of this configuration would");
  addBlockHashesFlags(blockHashes);
  blockHashes.action(async (options: BlockHashesFlags) => {
    const { blockHashesCommand } = await import("./block-hashes-command.ts");
    blockHashesCommand(options);
  });
}

try {
  await main();
} catch (error) {
  if (!(error instanceof KvEventsError)) throw error;
  process.stderr.write(`kvgroup: ${error.code}: ${error.message}\n`);
  process.exitCode = EXIT_USAGE;
}
