/**
 * What it is: a question to the gateway, and the check that it can be asked.
 * Owns: nothing.
 * Refuses: with `prompt_invalid` and the name of the field; never with a value of the prompt.
 * Does not do: hash or score.
 */
import { isUint32, KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import type { MultimodalItem } from "./prompt-keys.ts";

/** One prompt. Undefined and absent mean the same. */
export interface Query {
  /**
   * The whole prompt as the engine will see it: uint32 token ids. A Uint32Array is taken as it
   * is.
   */
  readonly tokens: ArrayLike<number>;
  /** LoRA adapter name; absent = base model; "" is a name. */
  readonly loraName?: string | undefined;
  /** Cache salt; absent or "" = none, as vLLM does. */
  readonly cacheSalt?: string | undefined;
  /** Strictly ascending by offset. */
  readonly multimodalItems?: readonly MultimodalItem[] | undefined;
}

/** Throws `KvEventsError("prompt_invalid")` unless the query is well formed and within `LIMITS`. */
export function checkQuery(query: Query): void {
  const { tokens } = query;
  if (tokens.length > LIMITS.promptTokens.value) throw invalid("tokens: too many");
  if (!(tokens instanceof Uint32Array)) {
    for (let i = 0; i < tokens.length; i++) {
      if (!isUint32(tokens[i])) throw invalid("tokens: not uint32");
    }
  }
  checkText(query.loraName, "loraName");
  checkText(query.cacheSalt, "cacheSalt");
  if (query.multimodalItems !== undefined) checkItems(query.multimodalItems, tokens.length);
}

function checkText(text: string | undefined, path: string): void {
  if (text === undefined) return;
  if (typeof text !== "string") throw invalid(`${path}: not a text`);
  if (text.length > LIMITS.textBytes.value) throw invalid(`${path}: too long`);
}

function checkItems(items: readonly MultimodalItem[], promptTokens: number): void {
  if (items.length > LIMITS.multimodalItems.value) throw invalid("multimodalItems: too many");
  let lastOffset = -1;
  for (const item of items) {
    if (item.identifier === "") throw invalid("multimodalItems: empty identifier");
    checkText(item.identifier, "multimodalItems: identifier");
    if (!isUint32(item.offset)) throw invalid("multimodalItems: offset is not uint32");
    if (item.offset <= lastOffset) throw invalid("multimodalItems: not ascending by offset");
    if (item.offset >= promptTokens) throw invalid("multimodalItems: offset beyond the prompt");
    checkLength(item);
    lastOffset = item.offset;
  }
}

function checkLength({ offset, length = 0 }: MultimodalItem): void {
  if (!isUint32(length)) throw invalid("multimodalItems: length is not uint32");
  if (offset + length <= LIMITS.promptTokens.value) return;
  throw invalid("multimodalItems: ends beyond any prompt");
}

function invalid(detail: string): KvEventsError {
  return new KvEventsError("prompt_invalid", detail);
}
