/**
 * What it is: a store as the search for an engine's way to hash sees it: its hashes' form, and what they may cover.
 * Owns: nothing.
 * Refuses: a store without a hash.
 * Does not do: hash.
 */
import type { PublishedForm } from "@kv-group-bridge/engine-hash";
import { EXTRA_KEY_FORMS, type ExtraKeyForm } from "@kv-group-bridge/protocol";
import { type SpanInputs, spanInputs } from "./span-inputs.ts";
import { isPlainSpan } from "./store-extras.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** A store as the search sees it. */
export interface SearchedStore {
  readonly event: StoreEvent;
  readonly form: PublishedForm;
  /** L. */
  readonly lookaheadTokens: number;
  /** Forms of extra keys worth trying; one, whichever, for a store with nothing but tokens. */
  readonly extraKeyForms: readonly ExtraKeyForm[];
  /** What is hashed beside tokens, under a form and unit; undefined = it is not known. */
  readonly inputs: (extraKeyForm: ExtraKeyForm, unitTokens: number) => SpanInputs | undefined;
}

/** Bytes of a hash that is published as an integer. */
export const INTEGER_BYTES = 8;

/** For a store with nothing but tokens the form makes no difference. */
const ONE_FORM: readonly ExtraKeyForm[] = ["tagged"];
/** Where a span below a parent begins is not known; far enough for every image that began before it. */
const SOMEWHERE_TOKENS = 2 ** 30;

/** A store for the search; undefined = it has no hash. `loraPath` gives the path of an adapter, where it is known. */
export function searchedStore(
  event: StoreEvent,
  lookaheadTokens: number,
  loraPath: (loraName: string) => string | undefined,
): SearchedStore | undefined {
  const form = publishedFormOf(event);
  if (form === undefined) return undefined;
  const { loraName } = event;
  const context = {
    startTokens: event.parent === undefined ? 0 : SOMEWHERE_TOKENS,
    lookaheadTokens,
    loraPath: loraName === undefined ? undefined : loraPath(loraName),
    assumedSalt: undefined,
  };
  // They are the same for every seed, and reading them costs as much as the event is long.
  const known = new Map<string, SpanInputs | undefined>();
  const inputs = (extraKeyForm: ExtraKeyForm, unitTokens: number): SpanInputs | undefined => {
    const name = `${extraKeyForm}/${unitTokens}`;
    if (!known.has(name)) {
      known.set(name, spanInputs(event, { ...context, form: extraKeyForm, unitTokens }));
    }
    return known.get(name);
  };
  const extraKeyForms = isPlainSpan(event) ? ONE_FORM : EXTRA_KEY_FORMS;
  return { event, form, lookaheadTokens, extraKeyForms, inputs };
}

/** The form in which an event publishes hashes; undefined = it has none. */
export function publishedFormOf(event: StoreEvent): PublishedForm | undefined {
  const hash = event.hashes[0] ?? event.parent;
  if (hash === undefined) return undefined;
  return hash.length === INTEGER_BYTES ? "integer" : "bytes";
}
