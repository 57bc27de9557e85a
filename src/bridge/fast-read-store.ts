/**
 * What it is: one BlockStored straight from the bytes.
 * Owns: what must hold between the fields of a store, as validate-store.ts has it.
 * Refuses: by giving up: every store that the other reader would refuse or note, and some more.
 * Does not do: name a reason.
 */
import { type BlockHash, LIMITS } from "@kv-group-bridge/protocol";
import type { ExtraKeyLists } from "./extra-keys.ts";
import type { FastCursor } from "./fast-read-cursor.ts";
import { readExtraKeys } from "./fast-read-extra-keys.ts";
import type { FastHashes } from "./fast-read-hashes.ts";
import { FIELD } from "./fast-read-names.ts";
import { FastScope } from "./fast-read-scope.ts";
import type { StoreEvent } from "./vllm-event.ts";

const NO_TOKENS = new Uint32Array(0);

/** Fields without which a store is refused. */
const NEEDED_FIELDS =
  (1 << FIELD.block_hashes) | (1 << FIELD.parent_block_hash) | (1 << FIELD.block_size);

/** Reads one store, field by field in any order. */
export class FastStore {
  private readonly cursor: FastCursor;
  private readonly reader: FastHashes;
  private readonly scope = new FastScope();
  private hashes: readonly BlockHash[] = [];
  private encoding: FastHashes["encoding"] = "none";
  private parent: BlockHash | undefined = undefined;
  private parentEncoding: FastHashes["encoding"] = "none";
  private tokens: Uint32Array = NO_TOKENS;
  private blockSizeTokens = 0;
  private loraId: bigint | undefined = undefined;
  private loraName: string | undefined = undefined;
  private extraKeys: ExtraKeyLists | undefined = undefined;
  private kind: string | undefined = undefined;
  private windowTokens: number | undefined = undefined;
  private lookaheadTokens: readonly Uint32Array[] | undefined = undefined;

  constructor(cursor: FastCursor, reader: FastHashes) {
    this.cursor = cursor;
    this.reader = reader;
  }

  /** Reads the value of a field. */
  read(field: number): void {
    const { cursor } = this;
    switch (field) {
      case FIELD.block_hashes:
        this.hashes = this.reader.list();
        this.encoding = this.reader.encoding;
        return;
      case FIELD.parent_block_hash:
        this.readParent();
        return;
      case FIELD.token_ids:
        if (!cursor.takeNil()) this.tokens = readTokens(cursor);
        return;
      case FIELD.block_size:
        this.blockSizeTokens = cursor.uint32();
        return;
      case FIELD.lora_id:
        if (!cursor.takeNil()) this.loraId = BigInt(cursor.uint32());
        return;
      case FIELD.lora_name:
        if (!cursor.takeNil()) this.loraName = cursor.name();
        return;
      case FIELD.extra_keys:
        if (!cursor.takeNil()) this.extraKeys = readExtraKeys(cursor);
        return;
      case FIELD.kv_cache_spec_kind:
        if (!cursor.takeNil()) this.kind = cursor.name();
        return;
      case FIELD.kv_cache_spec_sliding_window:
        if (!cursor.takeNil()) this.windowTokens = cursor.uint32();
        return;
      case FIELD.lookahead_token_ids:
        if (!cursor.takeNil()) this.lookaheadTokens = readLookahead(cursor);
        return;
      case FIELD.session_id:
        // Never kept, also not as a text that comes often.
        if (!cursor.takeNil()) cursor.text();
        return;
      default:
        this.scope.read(cursor, field);
    }
  }

  /** The store; `seen`: a bit for each field that was read. Undefined = the other reader must judge it. */
  finish(seen: number): StoreEvent | undefined {
    const isGood =
      !this.cursor.isLost &&
      (seen & NEEDED_FIELDS) === NEEDED_FIELDS &&
      this.hasGoodHashes() &&
      this.hasGoodSpan() &&
      this.hasGoodLists() &&
      this.hasGoodGroup();
    if (!isGood) return undefined;
    const { scope } = this;
    return {
      type: "stored",
      medium: scope.medium,
      locality: scope.locality,
      ownership: scope.ownership,
      groupId: scope.groupId,
      blockSizeTokens: this.blockSizeTokens,
      loraId: this.loraId,
      loraName: this.loraName,
      kind: this.kind,
      windowTokens: this.windowTokens,
      hashes: this.hashes,
      parent: this.parent,
      tokens: this.tokens,
      extraKeys: this.extraKeys,
      lookaheadTokens: this.lookaheadTokens,
      notes: [],
    };
  }

  private readParent(): void {
    if (this.cursor.takeNil()) return;
    this.parent = this.reader.one();
    this.parentEncoding = this.reader.encoding;
    if (this.parent === undefined) this.cursor.giveUp();
  }

  private hasGoodHashes(): boolean {
    const { hashes, parent, encoding, parentEncoding } = this;
    if (parentEncoding !== "none" && encoding !== "none" && parentEncoding !== encoding)
      return false;
    if (hashes.length < 2) return parent === undefined || hashes[0] !== parent;
    const unique = new Set(hashes);
    return unique.size === hashes.length && (parent === undefined || !unique.has(parent));
  }

  private hasGoodSpan(): boolean {
    const { blockSizeTokens, hashes, tokens } = this;
    if (tokens.length === 0) return true;
    return (
      blockSizeTokens > 0 &&
      tokens.length % blockSizeTokens === 0 &&
      hashes.length * blockSizeTokens <= tokens.length
    );
  }

  private hasGoodLists(): boolean {
    const { extraKeys, hashes, lookaheadTokens } = this;
    if (extraKeys !== undefined && extraKeys.length !== hashes.length) return false;
    return lookaheadTokens === undefined || lookaheadTokens.length === hashes.length;
  }

  private hasGoodGroup(): boolean {
    const { kind, scope, windowTokens } = this;
    if (kind === "") return false;
    if (scope.groupId === undefined) return kind === undefined && windowTokens === undefined;
    if (windowTokens === undefined) return true;
    return windowTokens > 0 && kind?.startsWith("sliding_window") === true;
  }
}

function readTokens(cursor: FastCursor): Uint32Array {
  const count = cursor.listHeader();
  if (count > LIMITS.tokensPerEvent.value) cursor.giveUp();
  return cursor.isLost ? NO_TOKENS : cursor.uint32s(count);
}

/** All lists of one length. */
function readLookahead(cursor: FastCursor): readonly Uint32Array[] {
  const count = cursor.listHeader();
  const lists: Uint32Array[] = [];
  let sum = 0;
  for (let i = 0; i < count && !cursor.isLost; i++) {
    const length = cursor.listHeader();
    sum += length;
    if (sum > LIMITS.tokensPerEvent.value || length !== (lists[0]?.length ?? length))
      cursor.giveUp();
    else lists.push(cursor.uint32s(length));
  }
  return lists;
}
