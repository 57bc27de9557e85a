// Goal: a scheme goes over the wire whole, and one that nobody could compute with reads as "off".
import { expect, test } from "vitest";
import {
  digestOf,
  type HashScheme,
  hashSchemeFromWire,
  hashSchemeToWire,
  LIMITS,
  MAX_LORA_PATHS,
} from "../../../src/protocol/dist/index.js";

const SCHEME: HashScheme = {
  algorithm: "sha256",
  seedOrigin: "default",
  rootDigest: digestOf(new Uint8Array(32).fill(7)),
  unitTokens: 16,
  extraKeyForm: "tagged",
  loraPaths: new Map([["adapter", "/adapters/adapter"]]),
};
const OFF = { state: "off", scheme: undefined };

test.each([
  ["whole", SCHEME],
  ["without what is not known", { ...SCHEME, rootDigest: undefined, extraKeyForm: undefined }],
])("a proven scheme %s", (_name, scheme) => {
  const status = { state: "proven", scheme } as const;
  expect(hashSchemeFromWire(hashSchemeToWire(status))).toEqual(status);
});

test.each(["searching", "not_found", "refuted", "off"] as const)("state %s", (state) => {
  const status = { state, scheme: undefined };
  expect(hashSchemeFromWire(hashSchemeToWire(status))).toEqual(status);
});

test.each([
  ["an algorithm without a name here", { algorithm: "md5" }],
  ["a seed's origin without a name here", { seedOrigin: "elsewhere" }],
  ["no unit", { unitTokens: 0 }],
  ["a root digest of another size", { rootDigest: new Uint8Array(16) }],
  ["a path beyond textBytes", { loraPaths: { a: "/".repeat(LIMITS.textBytes.value + 1) } }],
  ["a name beyond textBytes", { loraPaths: { ["n".repeat(LIMITS.textBytes.value + 1)]: "/a" } }],
  [
    "too many paths",
    { loraPaths: Object.fromEntries([...Array(MAX_LORA_PATHS + 1).keys()].map((i) => [i, "/a"])) },
  ],
])("%s reads as off", (_name, change) => {
  const wire = hashSchemeToWire({ state: "proven", scheme: SCHEME });
  expect(hashSchemeFromWire(Object.assign(wire, change))).toEqual(OFF);
});
