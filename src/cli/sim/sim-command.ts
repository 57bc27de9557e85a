/**
 * What it is: `kvgroup sim`: runs seeds and prints what was found.
 * Owns: nothing.
 * Refuses: numbers that are none, and unknown plants, with `config_invalid`.
 * Does not do: simulate (simulation.ts does).
 */
import { KvEventsError } from "@kv-group-bridge/protocol";
import { BRANCHES, Coverage, FAULT_KINDS } from "./coverage.ts";
import { PLANTED_BUGS, plantedBug } from "./planted-bugs.ts";
import { runSeed } from "./simulation.ts";

/** Flags as they stand on the command line. */
export interface SimFlags {
  readonly seeds?: string;
  readonly from?: string;
  readonly seed?: string;
  readonly plant?: string;
  readonly trace?: boolean;
}

const PROGRESS_SEEDS = 1000;
/** More failures than one can look at. */
const MOST_FAILURES = 20;

/** Gives the exit code: 0 = every seed is clean (with a plant: it was found). */
export function simCommand(flags: SimFlags): number {
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const first = wholeNumber(flags.seed ?? flags.from ?? "1", "--from");
  const seeds = flags.seed === undefined ? wholeNumber(flags.seeds ?? "1000", "--seeds") : 1;
  const { plant: plantName } = flags;
  if (plantName !== undefined && !isPlant(plantName)) {
    throw new KvEventsError("config_invalid", `--plant: one of ${PLANTED_BUGS.join(", ")}`);
  }
  const coverage = new Coverage();
  let failures = 0;
  for (let seed = first; seed < first + seeds; seed++) {
    const plant = plantName === undefined ? undefined : plantedBug(plantName);
    const trace = flags.trace === true ? print : undefined;
    const failure = runSeed({ seed, coverage, plant, trace });
    if (failure !== undefined) {
      failures++;
      print(`seed ${seed}: ${failure}`);
      print(`  again: ${replayCommand(seed, plantName)}`);
      if (failures >= MOST_FAILURES || plantName !== undefined) break;
    }
    const done = seed - first + 1;
    if (done % PROGRESS_SEEDS === 0) print(`${done} seeds, ${failures} failed`);
  }
  const counts = [...FAULT_KINDS, ...BRANCHES].map((name) => `${name} ${coverage.of(name)}`);
  print(counts.join("\n"));
  if (plantName !== undefined) {
    print(failures > 0 ? `${plantName} was found` : `${plantName} was NOT found`);
    return failures > 0 ? 0 : 1;
  }
  print(`seeds ${first} to ${first + seeds - 1}: ${failures === 0 ? "clean" : "FAILED"}`);
  return failures === 0 ? 0 : 1;
}

/** The one command that shows a failure again. */
export function replayCommand(seed: number, plant: string | undefined): string {
  return `npm run sim -- --seed ${seed} --trace${plant === undefined ? "" : ` --plant ${plant}`}`;
}

function isPlant(name: string): name is (typeof PLANTED_BUGS)[number] {
  return PLANTED_BUGS.some((known) => known === name);
}

function wholeNumber(text: string, flag: string): number {
  if (!/^\d{1,10}$/.test(text)) throw new KvEventsError("config_invalid", `${flag}: not a number`);
  return Number(text);
}
