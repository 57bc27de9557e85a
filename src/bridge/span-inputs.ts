/**
 * What it is: what the hashes inside one store's span cover beside tokens, hash unit by hash unit.
 * Owns: nothing; it reads one event.
 * Refuses: to guess. Where an event does not tell what a unit's hash covers, the unit's inputs are not known.
 * Does not do: hash, or decide which salt and form are right: it is made for one of each.
 */
import type { HashedExtras, HashedItem } from "@kv-group-bridge/engine-hash";
import type { ExtraKeyForm, ItemStart } from "@kv-group-bridge/protocol";
import { type BlockExtras, readBlockExtras } from "./block-extras.ts";
import type { ExtraKey, StoreEvent } from "./vllm-event.ts";

/** What is assumed of a span beside its event. */
export interface SpanContext {
  /** Where the span begins, in tokens from the root. */
  readonly startTokens: number;
  /** H. */
  readonly unitTokens: number;
  /** L. */
  readonly lookaheadTokens: number;
  readonly form: ExtraKeyForm;
  /** Of the event's adapter; undefined = not known, or there is none. */
  readonly loraPath: string | undefined;
  /** Of a prompt that begins with this span and whose event does not show its first block. */
  readonly assumedSalt: string | undefined;
}

/** Of one unit. */
export interface UnitInputs {
  /** Undefined = nothing but tokens (and look-ahead) is hashed. */
  readonly extras: HashedExtras | undefined;
  /** Items that start in the unit or its look-ahead; absolute starts, ascending. */
  readonly items: readonly ItemStart[];
}

/** The inputs of a span's units, by number from the span's begin. */
export interface SpanInputs {
  /** Undefined = not known. */
  at(unit: number): UnitInputs | undefined;
  /** Salt of the prompt, where the span begins it; undefined = none. */
  readonly cacheSalt: string | undefined;
  /** Everything in the event is in the inputs: a listed hash that they do not give contradicts them. */
  readonly isWhole: boolean;
}

const NO_ITEMS: readonly ItemStart[] = [];
const NO_HASHED_ITEMS: readonly HashedItem[] = [];
const NOTHING_GOES_ON: ReadonlySet<string> = new Set();
const NOTHING: UnitInputs = { extras: undefined, items: NO_ITEMS };

/** True when the event lists a hash for every block of its span. */
export function isDenseStore(event: StoreEvent): boolean {
  const { hashes, tokens, blockSizeTokens } = event;
  return hashes.length > 0 && hashes.length * blockSizeTokens === tokens.length;
}

/** True when the event says of every block of its span what its hash covers. */
export function showsKeys(event: StoreEvent): boolean {
  return event.extraKeys !== undefined && isDenseStore(event);
}

/** The salt that an event shows for the prompt that it begins: only a first block has one. */
export function shownSalt(event: StoreEvent): string | undefined {
  const first = event.extraKeys?.[0];
  if (first === undefined) return undefined;
  const texts = first.filter((key) => key.type === "text");
  const salt = texts[event.loraName === undefined ? 0 : 1];
  return salt?.value === "" ? undefined : salt?.value;
}

/** The inputs of an event's span; undefined = some of them cannot be known anywhere in it. */
export function spanInputs(event: StoreEvent, context: SpanContext): SpanInputs | undefined {
  const { loraName, loraId } = event;
  // An adapter known by number alone: which name was hashed is not said.
  if (loraName === undefined && loraId !== undefined) return undefined;
  const isPathMissing = context.form === "tagged" && context.loraPath === undefined;
  if (loraName !== undefined && isPathMissing) return undefined;
  if (showsKeys(event)) return new DenseInputs(event, context);
  return uniformInputs(event, context);
}

/** A span in which every unit is alike, but for the salt in the first one. */
function uniformInputs(event: StoreEvent, context: SpanContext): SpanInputs | undefined {
  const isRoot = context.startTokens === 0;
  for (const [index, keys] of (event.extraKeys ?? []).entries()) {
    const salt = index === 0 && isRoot ? shownSalt(event) : undefined;
    const most = (event.loraName === undefined ? 0 : 1) + (salt === undefined ? 0 : 1);
    // An item's place in a sparse span is not told, and anything else is not understood.
    if ((keys ?? []).some((key) => key.type !== "text")) return undefined;
    if ((keys?.length ?? 0) > most) return undefined;
  }
  const cacheSalt = isRoot ? (shownSalt(event) ?? context.assumedSalt) : undefined;
  const rest = inputsOf(event, context, undefined, NO_HASHED_ITEMS, NO_ITEMS);
  const first = inputsOf(event, context, cacheSalt, NO_HASHED_ITEMS, NO_ITEMS);
  return { cacheSalt, isWhole: false, at: (unit) => (unit === 0 ? first : rest) };
}

function inputsOf(
  event: StoreEvent,
  context: SpanContext,
  cacheSalt: string | undefined,
  hashedItems: readonly HashedItem[],
  items: readonly ItemStart[],
): UnitInputs {
  const { loraName } = event;
  if (loraName === undefined && cacheSalt === undefined && hashedItems.length === 0) {
    return items.length === 0 ? NOTHING : { extras: undefined, items };
  }
  const { loraPath } = context;
  return { extras: { loraName, loraPath, items: hashedItems, cacheSalt }, items };
}

/** A dense store says of each of its blocks what its hash covers; a block may be several units. */
class DenseInputs implements SpanInputs {
  readonly cacheSalt: string | undefined;
  readonly isWhole = true;
  private readonly event: StoreEvent;
  private readonly context: SpanContext;
  private readIndex = -1;
  private read: BlockExtras | undefined = undefined;
  private hashed: readonly HashedItem[] = NO_HASHED_ITEMS;
  /** Items that the next block lists too. */
  private goingOn: ReadonlySet<string> = NOTHING_GOES_ON;

  constructor(event: StoreEvent, context: SpanContext) {
    this.event = event;
    this.context = context;
    this.cacheSalt = context.startTokens === 0 ? shownSalt(event) : undefined;
  }

  at(unit: number): UnitInputs | undefined {
    const { event, context } = this;
    const { unitTokens, startTokens, lookaheadTokens } = context;
    const perBlock = event.blockSizeTokens / unitTokens;
    const index = Math.floor(unit / perBlock);
    const block = this.blockAt(index);
    if (block === undefined) return undefined;
    const salt = unit === 0 ? this.cacheSalt : undefined;
    const { hashed: ofBlock } = this;
    if (ofBlock.length === 0) return inputsOf(event, context, salt, NO_HASHED_ITEMS, NO_ITEMS);
    if (perBlock === 1) return inputsOf(event, context, salt, ofBlock, block.items);
    // Where an item ends inside a block of several units is not told, and neither is what its look-ahead covers.
    if (lookaheadTokens > 0) return undefined;
    const unitStart = startTokens + unit * unitTokens;
    const hashed = this.itemsIn(index, unitStart);
    if (hashed === undefined) return undefined;
    const starting = block.items.filter(
      (item) => item.startTokens >= unitStart && item.startTokens < unitStart + unitTokens,
    );
    return inputsOf(event, context, salt, hashed, starting);
  }

  /** The block's items that overlap a unit of it; undefined = one of them may. */
  private itemsIn(index: number, unitStart: number): readonly HashedItem[] | undefined {
    const { event, context } = this;
    const blockStart = context.startTokens + index * event.blockSizeTokens;
    const hashed: HashedItem[] = [];
    for (const item of this.hashed) {
      const start = blockStart + item.offset;
      if (start >= unitStart + context.unitTokens) continue;
      // It overlaps the block, so it covers the first token of the block at or after its start.
      const isSure = Math.max(start, blockStart) >= unitStart;
      // The next block lists it too: then it covers this one to its end.
      if (!isSure && !this.goingOn.has(itemText(item, event.blockSizeTokens))) return undefined;
      hashed.push({ identifier: item.identifier, offset: start - unitStart });
    }
    return hashed;
  }

  private blockAt(index: number): BlockExtras | undefined {
    if (index === this.readIndex) return this.read;
    const { event, context } = this;
    const startTokens = context.startTokens + index * event.blockSizeTokens;
    this.readIndex = index;
    this.read = readBlockExtras(event.extraKeys?.[index], {
      startTokens,
      endTokens: startTokens + event.blockSizeTokens,
      lookaheadTokens: context.lookaheadTokens,
      loraName: event.loraName,
    });
    this.hashed = hashedItemsOf(event.extraKeys?.[index]);
    this.goingOn =
      this.hashed.length === 0
        ? NOTHING_GOES_ON
        : new Set(hashedItemsOf(event.extraKeys?.[index + 1]).map((item) => itemText(item, 0)));
    return this.read;
  }
}

/** An item as text, its offset as the block after `shiftTokens` has it. */
function itemText({ identifier, offset }: HashedItem, shiftTokens: number): string {
  return `${offset - shiftTokens}/${identifier}`;
}

function hashedItemsOf(keys: readonly ExtraKey[] | undefined): readonly HashedItem[] {
  if (keys === undefined) return NO_HASHED_ITEMS;
  const items: HashedItem[] = [];
  for (const key of keys) {
    if (key.type === "item" && key.offset !== undefined) {
      items.push({ identifier: key.identifier, offset: key.offset });
    }
  }
  return items;
}
