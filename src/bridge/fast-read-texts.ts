/**
 * What it is: the small texts that come in event after event (tags, media, kinds, names of adapters), as one string each.
 * Owns: at most `TEXTS` of them, of at most 255 characters.
 * Refuses: nothing; a text that falls on another's place replaces it.
 * Does not do: hold salts or identifiers of images; they are of prompts.
 */

/** Places; a power of two. */
const TEXTS = 64;

/** Of ASCII texts. */
export class TextCache {
  private readonly texts: string[] = Array.from({ length: TEXTS }, () => "");

  /** The text that equals bytes start … end − 1, if it is here. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const length = end - start;
    const place = placeOf(length, bytes[start] ?? 0, bytes[end - 1] ?? 0);
    const text = this.texts[place] ?? "";
    if (text.length !== length) return undefined;
    for (let i = 0; i < length; i++) {
      if (text.charCodeAt(i) !== bytes[start + i]) return undefined;
    }
    return text;
  }

  /** Puts a text in its place. */
  keep(text: string): void {
    if (text === "") return;
    const last = text.length - 1;
    this.texts[placeOf(text.length, text.charCodeAt(0), text.charCodeAt(last))] = text;
  }
}

function placeOf(length: number, first: number, last: number): number {
  return (length * 5 + first * 3 + last) & (TEXTS - 1);
}
