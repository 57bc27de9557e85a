/**
 * What it is: the prefix key written from docs/protocol.md alone, with plain numbers and no tricks.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: run fast, or share a line with the product.
 */
import { createHmac } from "node:crypto";

/** What a key covers. */
export interface DocumentedPrompt {
  readonly seed: string;
  readonly loraName: string | undefined;
  readonly cacheSalt: string | undefined;
  readonly items: readonly { readonly identifier: string; readonly startTokens: number }[];
  readonly tokens: readonly number[];
}

type Words = number[];

const add = (a: number, b: number): number => (a + b) % 2 ** 32;
const rotate = (a: number, by: number): number =>
  Number(((BigInt(a) << BigInt(by)) | (BigInt(a) >> BigInt(32 - by))) & 0xffff_ffffn);
const xor = (a: number, b: number): number => Number(BigInt(a) ^ BigInt(b));

function round([a = 0, b = 0, c = 0, d = 0]: Words): Words {
  let [v0, v1, v2, v3] = [a, b, c, d];
  v0 = add(v0, v1);
  v1 = xor(rotate(v1, 5), v0);
  v0 = rotate(v0, 16);
  v2 = add(v2, v3);
  v3 = xor(rotate(v3, 8), v2);
  v0 = add(v0, v3);
  v3 = xor(rotate(v3, 7), v0);
  v2 = add(v2, v1);
  v1 = xor(rotate(v1, 13), v2);
  v2 = rotate(v2, 16);
  return [v0, v1, v2, v3];
}

function absorb([v0 = 0, v1 = 0, v2 = 0, v3 = 0]: Words, word: number): Words {
  const [r0 = 0, r1 = 0, r2 = 0, r3 = 0] = round([v0, v1, v2, xor(v3, word)]);
  return [xor(r0, word), r1, r2, r3];
}

function derive(
  seed: string,
  domain: string,
  parts: readonly (string | undefined)[],
  count: number,
): Words {
  const pieces = [Buffer.from(`hsip13/1 ${domain}`)];
  for (const part of parts) {
    if (part === undefined) {
      pieces.push(Buffer.from([0]));
      continue;
    }
    const bytes = Buffer.from(part, "utf8");
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    pieces.push(Buffer.from([1]), length, bytes);
  }
  const mac = createHmac("sha256", Buffer.from(seed, "utf8"))
    .update(Buffer.concat(pieces))
    .digest();
  return Array.from({ length: count }, (_, i) => mac.readUInt32LE(i * 4));
}

function mark([v0 = 0, v1 = 0, v2 = 0, v3 = 0]: Words): Words {
  return [v0, xor(v1, 0x6d6d0001), v2, v3];
}

/** The key of the whole prompt, 8 bytes in hexadecimal as on the wire. */
export function documentedKey(prompt: DocumentedPrompt): string {
  const { seed, loraName, cacheSalt, items, tokens } = prompt;
  let state = derive(seed, "namespace", [loraName, cacheSalt], 4);
  for (const [at, token] of tokens.entries()) {
    for (const { identifier, startTokens } of items) {
      if (startTokens !== at) continue;
      state = mark(state);
      for (const word of derive(seed, "item", [identifier, String(startTokens)], 3)) {
        state = absorb(state, word);
      }
      state = mark(state);
    }
    state = absorb(state, token);
  }
  let [v0 = 0, v1 = 0, v2 = 0, v3 = 0] = absorb(state, tokens.length);
  [v0 = 0, v1 = 0, v2 = 0, v3 = 0] = round(round(round([v0, v1, xor(v2, 0xee), v3])));
  const low = xor(v1, v3);
  [v0 = 0, v1 = 0, v2 = 0, v3 = 0] = round(round(round([v0, xor(v1, 0xdd), v2, v3])));
  const high = xor(v1, v3);
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(low, 0);
  bytes.writeUInt32LE(high, 4);
  return bytes.toString("hex");
}
