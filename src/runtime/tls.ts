/**
 * What it is: key material from files, checked before anything listens or connects with it.
 * Owns: nothing.
 * Refuses: unreadable files, and PEM that OpenSSL does not take (a key of another certificate, for
 * one).
 * Does not do: watch files, keep secrets out of memory, or throw: callers raise `tls_invalid`.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";

/** Paths of PEM files. `cert` and `key` come together or not at all. */
export interface TlsFiles {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly ca: string | undefined;
}

/** PEM texts. */
export interface TlsMaterial {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly ca: string | undefined;
}

/** Material, or why there is none: a sentence with the path, never with contents. */
export type TlsResult =
  | { readonly ok: true; readonly material: TlsMaterial }
  | { readonly ok: false; readonly problem: string; readonly cause: unknown };

const NO_MATERIAL: TlsMaterial = { cert: undefined, key: undefined, ca: undefined };

/**
 * Reads and checks, synchronously: at start only. No path at all gives material without anything.
 */
export function readTlsFiles(files: TlsFiles): TlsResult {
  if ((files.cert === undefined) !== (files.key === undefined)) {
    const missing = files.cert === undefined ? "certificate" : "key";
    return { ok: false, problem: `the ${missing} is missing`, cause: undefined };
  }
  let material = NO_MATERIAL;
  for (const name of ["cert", "key", "ca"] as const) {
    const path = files[name];
    if (path === undefined) continue;
    try {
      material = { ...material, [name]: readFileSync(path, "utf8") };
    } catch (cause) {
      return { ok: false, problem: `cannot read ${path}`, cause };
    }
  }
  try {
    createSecureContext(material);
    // OpenSSL ignores an authority that is no certificate, and would then trust nobody without a
    // word.
    if (material.ca !== undefined) void new X509Certificate(material.ca).fingerprint256;
  } catch (cause) {
    const paths = [files.cert, files.key, files.ca].filter((path) => path !== undefined);
    return { ok: false, problem: `not a usable key and certificate: ${paths.join(", ")}`, cause };
  }
  return { ok: true, material };
}
