/**
 * What it is: the reader of recorded engines, format "kvtrace/1": JSON lines, gzip by file name.
 * Owns: nothing; it yields one entry at a time.
 * Refuses: another format, a line that is not one of the known entries, a prompt that cannot be built; the error
 * names file and line.
 * Does not do: judge. Prompts are returned to the caller and never printed.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { z } from "zod";

/** A prompt as asked of the recorded engine. */
export interface TracePrompt {
  readonly tokens: Uint32Array;
  readonly loraName: string | undefined;
  readonly cacheSalt: string | undefined;
  /** Ascending by offset. */
  readonly multimodalItems: readonly {
    readonly identifier: string;
    readonly offset: number;
    readonly length: number;
  }[];
}

/** One entry after the header, in true order. */
export type TraceEntry =
  | { readonly type: "frame"; readonly frames: readonly Uint8Array[] }
  | {
      readonly type: "lookup";
      readonly line: number;
      readonly prompt: TracePrompt;
      readonly native: number;
    }
  | { readonly type: "restart" };

const groupSchema = z.looseObject({
  id: z.int().min(0).max(0xffffffff),
  kind: z.string(),
  block_size: z.int().min(1),
  sliding_window: z.int().min(1).nullish(),
  chunk: z.int().min(1).nullish(),
  prefix_cacheable: z.boolean().default(true),
  eagle: z.boolean().default(false),
  spec_class: z.int().min(0).optional(),
});

const engineSchema = z.looseObject({
  vllm: z.string(),
  dp_rank: z.int().min(0).max(0xffffffff).default(0),
  topic: z.string().optional(),
  groups: z.array(groupSchema).min(1),
  scheduler_block_size: z.int().min(1),
  hash_block_size: z.int().min(1),
  fine: z.boolean(),
  retention: z.int().min(0).nullish(),
  lookahead_hash_tokens: z.int().min(0).default(0),
  eagle_bound: z.enum(["hash_end", "unset"]).default("hash_end"),
  replay_tokens: z.int().min(0).default(0),
  hash_algo: z.string().optional(),
  source: z.string().optional(),
  lora_paths: z.record(z.string(), z.string()).optional(),
  upper_bound_only: z.boolean().default(false),
  unsupported: z.string().optional(),
});

const headerSchema = z.strictObject({ format: z.literal("kvtrace/1"), engine: engineSchema });

/** What the header says of the engine; keys that nothing here reads are kept. */
export type TraceEngine = z.infer<typeof engineSchema>;

const range = z.tuple([z.int().min(0), z.int().max(0xffffffff)]);
const lookupSchema = z.looseObject({
  tokens: z.custom<readonly number[]>((value) => Array.isArray(value)).optional(),
  range: range.optional(),
  ranges: z.array(range).optional(),
  lora: z.string().nullish(),
  salt: z.string().nullish(),
  mm: z
    .array(z.looseObject({ hash: z.string(), offset: z.int().min(0), length: z.int().min(1) }))
    .nullish(),
  native: z.int().min(0),
});

const frameLine = z.looseObject({ frame: z.tuple([z.string(), z.int().min(0), z.string()]) });
const lookupLine = z.looseObject({ lookup: lookupSchema });
const restartLine = z.looseObject({ restart: z.literal(true) });

/** An opened trace: its header, then its entries once. */
export interface Trace {
  readonly engine: TraceEngine;
  readonly entries: AsyncIterable<TraceEntry>;
}

/** Opens a trace file; rejects with KvEventsError("trace_invalid"). */
export async function openTrace(path: string): Promise<Trace> {
  const lines = readLines(path);
  const first = await lines.next();
  if (first.done === true) throw invalid(path, 1, "the file is empty");
  const header = headerSchema.safeParse(parseJson(path, 1, first.value));
  if (!header.success) throw invalid(path, 1, z.prettifyError(header.error));
  return { engine: header.data.engine, entries: readEntries(path, lines) };
}

/** The lines of a trace, unpacked, without empty ones; fails with KvEventsError("trace_invalid"). */
export async function* readLines(path: string): AsyncGenerator<string> {
  const file = createReadStream(path);
  const input = path.endsWith(".gz") ? file.pipe(createGunzip()) : file;
  const failure = new Promise<never>((_, reject) => {
    const fail = (cause: unknown): void => {
      reject(new KvEventsError("trace_invalid", `${path} cannot be read`, { cause }));
    };
    file.once("error", fail);
    input.once("error", fail);
  });
  failure.catch(() => {});
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })[
    Symbol.asyncIterator
  ]();
  for (;;) {
    const step = await Promise.race([lines.next(), failure]);
    if (step.done === true) return;
    if (step.value !== "") yield step.value;
  }
}

async function* readEntries(
  path: string,
  lines: AsyncGenerator<string>,
): AsyncGenerator<TraceEntry> {
  let number = 1;
  for await (const text of lines) {
    number += 1;
    const line = parseJson(path, number, text);
    const frame = frameLine.safeParse(line);
    if (frame.success) {
      yield { type: "frame", frames: toFrames(frame.data.frame) };
      continue;
    }
    const lookup = lookupLine.safeParse(line);
    if (lookup.success) {
      const { native } = lookup.data.lookup;
      const prompt = toPrompt(path, number, lookup.data.lookup);
      yield { type: "lookup", line: number, prompt, native };
      continue;
    }
    if (!restartLine.safeParse(line).success) {
      throw invalid(path, number, "neither a frame, a lookup nor a restart");
    }
    yield { type: "restart" };
  }
}

function toFrames([topic, sequence, payload]: readonly [string, number, string]): Uint8Array[] {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(sequence));
  return [Buffer.from(topic, "utf8"), number, Buffer.from(payload, "base64")];
}

function toPrompt(path: string, line: number, lookup: z.infer<typeof lookupSchema>): TracePrompt {
  const ranges = lookup.ranges ?? (lookup.range === undefined ? undefined : [lookup.range]);
  let tokens: Uint32Array;
  if (ranges !== undefined) {
    tokens = new Uint32Array(
      ranges.reduce((sum, [from, to]) => sum + Math.max(0, to - from + 1), 0),
    );
    let at = 0;
    for (const [from, to] of ranges)
      for (let token = from; token <= to; token++) tokens[at++] = token;
  } else if (lookup.tokens !== undefined) {
    tokens = Uint32Array.from(lookup.tokens);
  } else {
    throw invalid(path, line, "a lookup without tokens, range or ranges");
  }
  return {
    tokens,
    loraName: lookup.lora ?? undefined,
    cacheSalt: lookup.salt ?? undefined,
    multimodalItems: (lookup.mm ?? [])
      .map((item) => ({ identifier: item.hash, offset: item.offset, length: item.length }))
      .sort((a, b) => a.offset - b.offset),
  };
}

function parseJson(path: string, line: number, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new KvEventsError("trace_invalid", `${path}:${line}: not JSON`, { cause });
  }
}

function invalid(path: string, line: number, message: string): KvEventsError {
  return new KvEventsError("trace_invalid", `${path}:${line}: ${message}`);
}
