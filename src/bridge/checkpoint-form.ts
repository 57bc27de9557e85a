/**
 * What it is: the frame of a checkpoint: what stands before and after its records.
 * Owns: mark, version, and where everything is.
 * Refuses: nothing.
 * Does not do: read or write records.
 */

/** First bytes: "KVGROUPC" in ASCII. */
export const CHECKPOINT_MARK = "KVGROUPC";

/** Grows with every change of the format; another one is refused, never converted. */
export const CHECKPOINT_VERSION = 2;

/** Mark, and the version as uint32. */
export const PRELUDE_BYTES = 12;

/** Bytes of the SHA-256 at the end; it covers everything before it. */
export const CHECKSUM_BYTES = 32;

/** Length of the head as uint32, length of the whole as uint32, checksum. The head stands before it. */
export const FOOTER_BYTES = 8 + CHECKSUM_BYTES;
