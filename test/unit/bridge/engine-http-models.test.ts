/**
 * What it is: claims about reading vLLM's list of models.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: HTTP (test/e2e/engine-http.test.ts does).
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseModels } from "../../../src/bridge/dist/engine-http-models.js";
import { LIMITS, MAX_LORA_PATHS } from "../../../src/protocol/dist/index.js";

const base = {
  id: "llama",
  object: "model",
  created: 1,
  owned_by: "vllm",
  root: "/models/llama",
  parent: null,
  max_model_len: 4096,
  permission: [{ id: "modelperm-1", object: "model_permission" }],
};
const adapter = (id: unknown, root: unknown) => ({
  ...base,
  id,
  root,
  parent: "llama",
  max_model_len: null,
});
const list = (...data: unknown[]) => ({ object: "list", data });
const read = (...data: unknown[]) => {
  const listed = parseModels(list(...data));
  return listed && { paths: Object.fromEntries(listed.paths), leftOut: listed.leftOut };
};

test("an adapter is what has a parent; its root is its path, taken as it is", () => {
  expect(read(base, adapter("a", "/adapters/a"), adapter("b", "org/b"))).toEqual({
    paths: { a: "/adapters/a", b: "org/b" },
    leftOut: 0,
  });
  expect(read(base)).toEqual({ paths: {}, leftOut: 0 });
  expect(read()).toEqual({ paths: {}, leftOut: 0 });
});

test("an adapter without a usable path or name is left out and counted; the others are taken", () => {
  const long = "x".repeat(LIMITS.textBytes.value + 1);
  const odd = [adapter("a", null), adapter("b", ""), adapter("c", long), adapter(long, "/c")];
  expect(read(...odd, adapter("", "/d"), adapter("e", "/e"))).toEqual({
    paths: { e: "/e" },
    leftOut: 5,
  });
});

test("a name with two paths has none; said twice alike it has one", () => {
  expect(read(adapter("a", "/1"), adapter("a", "/2"), adapter("a", "/1"))?.paths).toEqual({});
  expect(read(adapter("a", "/1"), adapter("a", "/1"))?.paths).toEqual({ a: "/1" });
});

test("a name out of Object.prototype is a name", () => {
  const listed = parseModels(list(adapter("__proto__", "/p"), adapter("constructor", "/c")));
  expect([...(listed?.paths ?? [])]).toEqual([
    ["__proto__", "/p"],
    ["constructor", "/c"],
  ]);
});

test("no more than MAX_LORA_PATHS are taken", () => {
  const many = Array.from({ length: MAX_LORA_PATHS + 3 }, (_, i) => adapter(`a${i}`, `/${i}`));
  const listed = parseModels(list(...many));
  expect([listed?.paths.size, listed?.leftOut]).toEqual([MAX_LORA_PATHS, 3]);
});

test.each([
  null,
  [],
  "x",
  {},
  { data: null },
  { data: {} },
  { data: [null] },
  { data: [{ root: "/a", parent: "llama" }] },
  list(base, adapter(1, "/a")),
  list(base, adapter("a", 1)),
  list({ ...base, parent: 7 }),
  { object: "error", message: "no" },
])("another shape is refused as a whole: %j", (raw) => {
  expect(parseModels(raw)).toBeUndefined();
});

test("no JSON makes it throw, and what is taken is bounded text", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.jsonValue(),
        fc.array(fc.record({ id: fc.jsonValue(), parent: fc.jsonValue(), root: fc.jsonValue() })),
        fc.array(fc.record({ id: fc.string(), parent: fc.constant("m"), root: fc.string() })),
      ),
      (value) => {
        const listed = parseModels(Array.isArray(value) ? { data: value } : value);
        for (const [name, path] of listed?.paths ?? []) {
          expect(name.length > 0 && path.length > 0).toBe(true);
        }
      },
    ),
  );
});
