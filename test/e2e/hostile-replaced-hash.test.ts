/**
 * What it is: claims about a second hash for a prompt's place in each kind of namespace.
 * Goal: a second hash says that the engine hashes otherwise than before, so nothing that was hashed
 * before in that namespace can be reached: none of it is credited behind the new block.
 * Method: a chain of three blocks, then its first block alone under a new hash; the engine can reuse
 * that one block only. An adapter's name is in test/e2e/hostile-engine.test.ts.
 */
import { describe, expect, test } from "vitest";
import { C, q, R, SmgWorker } from "../support/smg-notation.ts";

const NAMESPACES = [
  ["a plain prompt", {}, undefined],
  ["a salted prompt", { cacheSalt: "salt" }, ["salt"]],
  [
    "a prompt with an image",
    { multimodalItems: [{ identifier: "image", offset: 0 }] },
    [["image", 0]],
  ],
] as const;

for (const [name, namespace, first] of NAMESPACES) {
  describe(name, () => {
    const extra = (count: number): readonly unknown[] =>
      Array.from({ length: count }, (_, index) => (index === 0 ? (first ?? null) : null));
    const replaced = (): SmgWorker => {
      const worker = new SmgWorker();
      worker.batch(0, R(0, "full", 0, 4, [4, 8, 12], 12, { extra_keys: extra(3) }));
      worker.batch(1, R(0, "full", 0, 4, [104], 4, { extra_keys: extra(1) }));
      return worker;
    };

    test("older blocks behind the replaced one are not credited", () => {
      expect(replaced().score(q(13), namespace)).toBe(4);
    });

    test("a later child of an older block is no child of the new chain", () => {
      const worker = replaced();
      worker.batch(2, C(0, "full", 0, 12, 16, { extra_keys: [null] }));
      expect(worker.score(q(17), namespace)).toBe(4);
    });
  });
}
