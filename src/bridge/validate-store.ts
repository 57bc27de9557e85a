/**
 * What it is: BlockStored → `StoreEvent`, or a refusal that costs this event alone.
 * Owns: the order in which a store's fields are judged: form, small fields, hashes, parent, tokens,
 * extra keys, look-ahead.
 * Refuses: every store that cannot be read whole; positive evidence is lost, which only
 * under-credits.
 * Does not do: ask what other events said.
 */
import { ok, type Refusal, type Result, refuse } from "@kv-group-bridge/protocol";
import { type HashList, type HashOptions, parseHashes, parseParent } from "./block-hashes.ts";
import type { EventForm } from "./event-form.ts";
import { parseExtraKeys } from "./extra-keys.ts";
import { parseKindAndWindow } from "./group-kind.ts";
import { parseStoreMetadata } from "./metadata.ts";
import { checkSpan, parseLookahead, parseTokens } from "./token-lists.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** Reads one store. Fields that were ignored are its notes. */
export function validateStore(form: EventForm, options: HashOptions): Result<StoreEvent> {
  if (form.flaw !== undefined) return { ok: false, error: form.flaw };
  const metadata = parseStoreMetadata(form);
  if (!metadata.ok) return metadata;
  const list = parseHashes(form, options);
  if (!list.ok) return list;
  const unique = checkUnique(form, list.value);
  if (!unique.ok) return unique;
  const parent = parseParent(form, list.value, options);
  if (!parent.ok) return parent;
  const tokens = parseTokens(form);
  if (!tokens.ok) return tokens;
  const { hashes } = list.value;
  const span = checkSpan(form, {
    tokenCount: tokens.value.length,
    hashCount: hashes.length,
    blockSizeTokens: metadata.value.blockSizeTokens,
  });
  if (!span.ok) return span;
  const extraKeys = parseExtraKeys(form, hashes.length);
  if (!extraKeys.ok) return extraKeys;
  const lookaheadTokens = parseLookahead(form, hashes.length);
  if (!lookaheadTokens.ok) return lookaheadTokens;
  const notes: Refusal[] = [];
  return ok({
    type: "stored",
    ...metadata.value,
    ...parseKindAndWindow(form, metadata.value.groupId, notes),
    hashes,
    parent: parent.value,
    tokens: tokens.value,
    extraKeys: extraKeys.value,
    lookaheadTokens: lookaheadTokens.value,
    notes,
  });
}

/** One content cannot stand twice in one span; hashes cover their whole prefix. */
function checkUnique(form: EventForm, list: HashList): Result<undefined> {
  const { hashes } = list;
  if (hashes.length < 2 || new Set(hashes).size === hashes.length) return ok(undefined);
  return refuse("hash_repeated", `${form.path}.block_hashes`);
}
