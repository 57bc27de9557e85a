/**
 * What it is: the prefix key, a keyed incremental 64-bit hash of a namespace and the first e tokens. Both
 * sides compute it with this file and nothing else.
 * Scheme "hsip13/1": the state is that of HalfSipHash (Aumasson and Bernstein, 32-bit words) with one
 * compression round a word. It begins as 128 bits of HMAC-SHA-256(seed, namespace), absorbs each token as
 * one word and each multimodal item, at the token where it starts, as three words. The key at e absorbs e
 * and finishes with 2 x 3 rounds. It depends on nothing of the engine: no block size, group or hash seed.
 * Owns: the scheme and its id.
 * Refuses: token values are taken as uint32 without a check (decode and the query check them).
 * Does not do: store tokens; a state cannot be turned back into them.
 */
import { createHmac } from "node:crypto";

/** Id of the only scheme; it is part of `start` and a mismatch is refused by name. */
export const KEY_SCHEME_ID = "hsip13/1";

/** Words of a state. */
export const STATE_WORDS = 4;

/** What is hashed before the tokens. Undefined and "" are different for both; vLLM never hashes an empty salt. */
export interface Namespace {
  readonly loraName: string | undefined;
  readonly cacheSalt: string | undefined;
}

/** A multimodal item: vLLM's identifier and the absolute token where its placeholder starts. */
export interface ItemStart {
  readonly identifier: string;
  readonly startTokens: number;
}

/** The namespace of a plain prompt. */
export const PLAIN: Namespace = { loraName: undefined, cacheSalt: undefined };

/**
 * A cursor over one prompt: absorbs tokens and reads the key where it stands. Mutable, reusable, allocates
 * nothing after construction but for items and namespaces.
 */
export class PrefixState {
  private v0 = 0;
  private v1 = 0;
  private v2 = 0;
  private v3 = 0;
  /** Tokens absorbed so far. */
  endTokens = 0;
  /** Low 32 bits of the key, after `finish`. */
  keyLow = 0;
  /** High 32 bits of the key, after `finish`. */
  keyHigh = 0;

  /** Takes over a saved state (STATE_WORDS words at `offset`) that stands at `endTokens`. */
  load(words: Uint32Array, offset: number, endTokens: number): void {
    this.v0 = (words[offset] ?? 0) | 0;
    this.v1 = (words[offset + 1] ?? 0) | 0;
    this.v2 = (words[offset + 2] ?? 0) | 0;
    this.v3 = (words[offset + 3] ?? 0) | 0;
    this.endTokens = endTokens;
  }

  /** Saves the state; `load` continues from it. */
  save(words: Uint32Array, offset: number): void {
    words[offset] = this.v0;
    words[offset + 1] = this.v1;
    words[offset + 2] = this.v2;
    words[offset + 3] = this.v3;
  }

  /** Absorbs tokens[from … to − 1]. */
  absorb(tokens: ArrayLike<number>, from: number, to: number): void {
    let v0 = this.v0;
    let v1 = this.v1;
    let v2 = this.v2;
    let v3 = this.v3;
    for (let i = from; i < to; i++) {
      const word = (tokens[i] as number) | 0;
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    this.v0 = v0;
    this.v1 = v1;
    this.v2 = v2;
    this.v3 = v3;
    this.endTokens += to - from;
  }

  /** Absorbs an item that starts at the token absorbed next. `words` come from `KeyedHasher.itemWords`. */
  absorbItem(words: Uint32Array): void {
    this.v1 ^= ITEM_MARK;
    this.absorb(words, 0, words.length);
    this.endTokens -= words.length;
    this.v1 ^= ITEM_MARK;
  }

  /** Computes the key at the current end into keyLow and keyHigh; the state itself does not move. */
  finish(): void {
    let v0 = this.v0;
    let v1 = this.v1;
    let v2 = this.v2;
    let v3 = this.v3 ^ this.endTokens;
    let low = 0;
    for (let round = 0; round < 7; round++) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      if (round === 0) {
        v0 ^= this.endTokens;
        v2 ^= 0xee;
      } else if (round === 3) {
        low = v1 ^ v3;
        v1 ^= 0xdd;
      }
    }
    this.keyLow = low >>> 0;
    this.keyHigh = (v1 ^ v3) >>> 0;
  }
}

/** Marks words that are not tokens: an item and three tokens of equal value lead to different states. */
const ITEM_MARK = 0x6d6d0001;

/** The seed, and what is derived from it: root states of namespaces, words of items, the check value. */
export class KeyedHasher {
  private readonly seed: Buffer;

  /** `seed`: the fleet's secret, any text; both sides must have the same. */
  constructor(seed: string) {
    this.seed = Buffer.from(seed, "utf8");
  }

  /** The root state of a namespace: STATE_WORDS words. */
  rootWords(namespace: Namespace): Uint32Array {
    return this.derive("namespace", [namespace.loraName, namespace.cacheSalt], STATE_WORDS);
  }

  /** The words of an item; they cover the absolute start, so that equal items at other places differ. */
  itemWords(item: ItemStart): Uint32Array {
    return this.derive("item", [item.identifier, String(item.startTokens)], 3);
  }

  /** A root state that is not one of prompts: STATE_WORDS words. `domain`: a fixed name. */
  domainWords(domain: string): Uint32Array {
    return this.derive(domain, [], STATE_WORDS);
  }

  /** Key of the probe tokens 0, 1, 2, 3 in the plain namespace, 8 bytes little-endian. */
  checkValue(): Uint8Array {
    const state = new PrefixState();
    state.load(this.rootWords(PLAIN), 0, 0);
    state.absorb([0, 1, 2, 3], 0, 4);
    state.finish();
    const bytes = new Uint8Array(8);
    writeKey(bytes, 0, state.keyLow, state.keyHigh);
    return bytes;
  }

  private derive(
    domain: string,
    parts: readonly (string | undefined)[],
    words: number,
  ): Uint32Array {
    const mac = createHmac("sha256", this.seed).update(`${KEY_SCHEME_ID} ${domain}`);
    for (const part of parts) {
      if (part === undefined) {
        mac.update(Buffer.of(0));
        continue;
      }
      const bytes = Buffer.from(part, "utf8");
      const head = Buffer.alloc(5, 1);
      head.writeUInt32LE(bytes.length, 1);
      mac.update(head).update(bytes);
    }
    const digest = mac.digest();
    const out = new Uint32Array(words);
    for (let i = 0; i < words; i++) out[i] = digest.readUInt32LE(i * 4);
    return out;
  }
}

/** Writes a key as 8 bytes little-endian: the wire form. */
export function writeKey(target: Uint8Array, offset: number, low: number, high: number): void {
  target[offset] = low;
  target[offset + 1] = low >>> 8;
  target[offset + 2] = low >>> 16;
  target[offset + 3] = low >>> 24;
  target[offset + 4] = high;
  target[offset + 5] = high >>> 8;
  target[offset + 6] = high >>> 16;
  target[offset + 7] = high >>> 24;
}
