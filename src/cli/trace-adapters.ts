/**
 * What it is: the paths of the LoRA adapters of a trace, as an operator would state them or the engine's API tell them.
 * Owns: the rule for traces whose header does not list them.
 * Refuses: files that cannot be read (`trace_invalid`).
 * Does not do: parse whole lines: it runs before the file is played.
 */
import { readLines, type TraceEngine } from "./trace-file.ts";

/** A value of "lora" that is a name. Other texts of a lookup are in quotes of their own, so it is found nowhere else. */
const LORA = /"lora":\s*("(?:[^"\\]|\\.)+")/;
const RECORDED_FOLDER = "/adapters/";

/**
 * Paths by name: of the header (`lora_paths`), else `/adapters/` + name for every adapter that a lookup names. A trace of a whole
 * engine (`source`) has its own: not listed, they are not known.
 */
export async function adapterPaths(
  file: string,
  engine: TraceEngine,
): Promise<ReadonlyMap<string, string>> {
  if (engine.lora_paths !== undefined) return new Map(Object.entries(engine.lora_paths));
  const paths = new Map<string, string>();
  if (engine.source !== undefined) return paths;
  for await (const line of readLines(file)) {
    const quoted = LORA.exec(line)?.[1];
    if (quoted === undefined) continue;
    const name: unknown = JSON.parse(quoted);
    if (typeof name === "string") paths.set(name, RECORDED_FOLDER + name);
  }
  return paths;
}
