/**
 * What it is: the answer of vLLM's `GET /v1/models` → paths of LoRA adapters by name.
 * Owns: the shape: an adapter is an entry with a `parent`; `id` is its name and `root` its path.
 * Refuses: another shape, as a whole. Left out and counted: adapters without a usable path, a name with two paths,
 * more than MAX_LORA_PATHS.
 * Does not do: fetch.
 */
import { LIMITS, MAX_LORA_PATHS } from "@kv-group-bridge/protocol";
import { z } from "zod";

/** Path of the list. */
export const MODELS_PATH = "/v1/models";

/** What a list says. */
export interface ListedAdapters {
  /** In the list's order. */
  readonly paths: ReadonlyMap<string, string>;
  /** Adapters of the list that are not in `paths`. */
  readonly leftOut: number;
}

const listSchema = z.looseObject({
  data: z.array(
    z.looseObject({
      id: z.string(),
      parent: z.string().nullish(),
      root: z.string().nullish(),
    }),
  ),
});

/** Reads a list; undefined = it has another shape. */
export function parseModels(raw: unknown): ListedAdapters | undefined {
  const parsed = listSchema.safeParse(raw);
  if (!parsed.success) return undefined;
  const found = new Map<string, string | undefined>();
  let adapters = 0;
  for (const { id, parent, root } of parsed.data.data) {
    if (parent === null || parent === undefined) continue;
    adapters += 1;
    if (!isText(id)) continue;
    const path = isText(root) ? root : undefined;
    // Which of two paths is hashed cannot be known: neither is taken.
    found.set(id, found.has(id) && found.get(id) !== path ? undefined : path);
  }
  const paths = new Map<string, string>();
  for (const [name, path] of found) {
    if (path === undefined) continue;
    if (paths.size === MAX_LORA_PATHS) break;
    paths.set(name, path);
  }
  return { paths, leftOut: adapters - paths.size };
}

function isText(value: string | null | undefined): value is string {
  return typeof value === "string" && value !== "" && value.length <= LIMITS.textBytes.value;
}
