import { spawnSync } from "node:child_process";
import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { choose, openGateway, type Target } from "../../docs/examples/router.ts";
import { FILES, withCurrentTables } from "../../docs/write-tables.mjs";
import { Withdraw_Reason } from "../../gen/es/kvgroup/v1/bridge_pb.js";
import { RANK_GAUGES } from "../../src/bridge/dist/bridge-metrics.js";
import { CHECKPOINT_REFUSALS } from "../../src/bridge/dist/checkpoint-state.js";
import { bridgeFields } from "../../src/bridge/dist/config-fields.js";
import { SUBSCRIBE_REFUSALS } from "../../src/bridge/dist/service.js";
import { ANSWER_REASONS } from "../../src/gateway/dist/answer.js";
import { gatewayFields } from "../../src/gateway/dist/config-fields.js";
import { SUBSCRIPTION_ERRORS } from "../../src/gateway/dist/subscription.js";
import {
  ERROR_CODES,
  KeyedHasher,
  LIMITS,
  PrefixState,
  REFUSAL_REASONS,
  writeKey,
} from "../../src/protocol/dist/index.js";
import { documentedKey } from "./documented-key.ts";
import { importsOf } from "./rules.ts";
import { sourceFile } from "./source-text.ts";
import { backticked, tableNames, tableRows } from "./tables.ts";
import { filesBelow, isInTree, productSources, ROOT, readText } from "./tree.ts";

const protocol = readText("docs/protocol.md");
const errors = readText("docs/errors.md");
const security = readText("docs/security.md");
const stages = readText("docs/stages.md");

describe("docs/protocol.md", () => {
  test("has a row for every refusal, in the order of the code", () => {
    expect(tableNames(protocol, "refusals")).toEqual([...REFUSAL_REASONS]);
  });

  test("has a row for every withdraw reason of the schema", () => {
    const names = Object.keys(Withdraw_Reason).filter((name) => !/^\d+$/.test(name));
    expect(tableNames(protocol, "withdrawals")).toEqual(names);
  });

  test("has a row for every reason of an answer, in the order of the code", () => {
    expect(tableNames(protocol, "answers")).toEqual([...ANSWER_REASONS]);
  });

  test("names every refusal of a subscription", () => {
    for (const name of Object.keys(SUBSCRIBE_REFUSALS)) expect(protocol).toContain(`\`${name}\``);
  });

  test("has every counter of a rank and no other", () => {
    const found = new Set<string>();
    for (const { path, codeWithStrings } of productSources()) {
      if (!path.startsWith("src/bridge/")) continue;
      const calls =
        /\b(?:counts|counters)\s*\.\s*(?:add|set)\(\s*(?:"([^"]+)"|`([^`]+)`)|\.counters\["([^"]+)"\]/g;
      for (const call of codeWithStrings.matchAll(calls)) {
        found.add((call[1] ?? call[2] ?? call[3] ?? "").replace(/\$\{.*$/, "*"));
      }
    }
    expect([...found].sort()).toEqual(tableNames(protocol, "counters"));
  });

  test("marks the counters that are gauges, as /metrics does", () => {
    const marked = tableRows(protocol, "counters").filter(([, what = ""]) =>
      what.includes("(a gauge)"),
    );
    expect(new Set(marked.map(([name = ""]) => name.replaceAll("`", "")))).toEqual(RANK_GAUGES);
  });

  test("shows every limit with its value, unit and policy", async () => {
    expect(await withCurrentTables(protocol)).toBe(protocol);
    for (const [name, { atBound }] of Object.entries(LIMITS)) {
      expect(protocol).toContain(`| \`${name}\` `);
      expect(protocol).toContain(atBound);
    }
  });

  test("gives vectors that the code and an implementation written from the page agree on", () => {
    const rows = tableRows(protocol, "vectors");
    expect(rows.length).toBeGreaterThan(5);
    for (const [seedCell = "", lora = "", salt = "", item = "", tokenCell = "", key = ""] of rows) {
      const seed = seedCell.replaceAll("`", "");
      const loraName = lora === "" ? undefined : lora;
      const cacheSalt = salt === "" ? undefined : salt;
      const [identifier = "", start = "0"] = item.split("@");
      const items = item === "" ? [] : [{ identifier, startTokens: Number(start) }];
      const tokens = tokenCell === "" ? [] : tokenCell.split(" ").map(Number);

      const hasher = new KeyedHasher(seed);
      const state = new PrefixState();
      state.load(hasher.rootWords({ loraName, cacheSalt }), 0, 0);
      for (let i = 0; i < tokens.length; i++) {
        for (const one of items) if (one.startTokens === i) state.absorbItem(hasher.itemWords(one));
        state.absorb(tokens, i, i + 1);
      }
      state.finish();
      const bytes = new Uint8Array(8);
      writeKey(bytes, 0, state.keyLow, state.keyHigh);
      expect(`\`${Buffer.from(bytes).toString("hex")}\``).toBe(key);
      expect(`\`${documentedKey({ seed, loraName, cacheSalt, items, tokens })}\``).toBe(key);
    }
  });

  test("says truly what the check value is", () => {
    const tokens = [0, 1, 2, 3];
    const plain = {
      seed: "any seed",
      loraName: undefined,
      cacheSalt: undefined,
      items: [],
      tokens,
    };
    const value = Buffer.from(new KeyedHasher("any seed").checkValue()).toString("hex");
    expect(documentedKey(plain)).toBe(value);
  });
});

describe("docs/checkpoint.md", () => {
  test("has a row for every refusal and no other, in the order of the code", () => {
    const names = tableNames(readText("docs/checkpoint.md"), "checkpoint-refusals");
    expect(names).toEqual([...CHECKPOINT_REFUSALS]);
  });
});

describe("docs/errors.md", () => {
  test("has a section for every error code and no other, in the order of the code", () => {
    const sections = [...errors.matchAll(/^### `([a-z_]+)`$/gm)].map((match) => match[1]);
    expect(sections).toEqual([...ERROR_CODES]);
  });

  test("says of every error what to do", () => {
    for (const section of errors.split(/^### /m).slice(1)) expect(section).toContain("**Do:**");
  });

  test("has a row for every subscription error and no other", () => {
    expect([...tableNames(errors, "subscription-errors")].sort()).toEqual(
      [...SUBSCRIPTION_ERRORS].sort(),
    );
  });
});

test("a table that refers to an error code names one that has a section", () => {
  const referring = tableRows(errors, "subscription-errors").filter((row) =>
    row.includes("as the error code"),
  );
  expect(referring.length).toBeGreaterThan(0);
  for (const [name = ""] of referring) expect(ERROR_CODES).toContain(name.replaceAll("`", ""));
});

test.each(filesBelow("docs").filter((path) => path.endsWith(".md")))(
  "%s has no rule in the middle of a table",
  (path) => {
    const lines = readText(path).split("\n");
    const isRule = (line = "") => /^\|( -+ \|)+$/.test(line);
    const stray = lines.filter((line, i) => isRule(line) && (lines[i - 2] ?? "").startsWith("|"));
    expect(stray).toEqual([]);
  },
);

describe("docs/examples", () => {
  test("compile against the public names of the gateway", () => {
    const run = spawnSync(
      process.execPath,
      ["node_modules/typescript/bin/tsc", "-p", "docs/examples/tsconfig.json"],
      { cwd: ROOT, encoding: "utf8" },
    );
    expect(run.stdout).toBe("");
    expect(run.status).toBe(0);
    expect(importsOf(sourceFile("router.ts", readText("docs/examples/router.ts")))).toEqual([
      "@kv-group-bridge/gateway",
    ]);
  });

  test("choose by cached tokens, by load, and by nothing when nobody is followed", () => {
    const gateway = openGateway("a seed for the example");
    try {
      const tokens = Uint32Array.of(1, 2, 3);
      const busy = new Set(["worker-a/0", "worker-b/0"]);
      const loadOf = ({ worker, dpRank }: Target) => (busy.has(`${worker}/${dpRank}`) ? 1 : 0);
      expect(choose(gateway, tokens, loadOf)).toEqual({ worker: "worker-b", dpRank: 1 });
      gateway.removeWorker("worker-a");
      gateway.removeWorker("worker-b");
      expect(choose(gateway, tokens, loadOf)).toBeUndefined();
    } finally {
      gateway.close();
    }
  });
});

describe("docs/security.md", () => {
  test("computes the chance of a false match as it says", () => {
    const number = (cell = ""): number => Number(cell.replaceAll(" ", ""));
    for (const [held, asked, chance] of tableRows(security, "collisions")) {
      const bound = (number(held) * number(asked)) / 2 ** 64;
      expect(Math.abs(number(chance) / bound - 1)).toBeLessThan(0.05);
    }
  });

  test("names every listener with its default address", () => {
    const defaults = [bridgeFields, gatewayFields].flatMap((fields) => [
      `${fields.listenHost.fallback}:${fields.listenPort.fallback}`,
      `${fields.healthHost.fallback}:${fields.healthPort.fallback}`,
    ]);
    const rows = tableRows(security, "listeners");
    expect(rows.map((row) => row[1]?.replaceAll("`", ""))).toEqual(defaults);
  });

  test("computes with the ceiling of the index", () => {
    expect(LIMITS.indexNodes.value).toBe(20_000_000);
    expect(((20_000_000 ** 2 / 2 ** 65) * 1e5).toFixed(1)).toBe("1.1");
  });
});

describe("docs/stages.md", () => {
  test("names files that exist", () => {
    const named = backticked(stages).filter((name) => /^src\/.*\.ts$/.test(name));
    expect(named.filter((path) => !isInTree(path))).toEqual([]);
    expect(new Set(named).size).toBe(named.length);
  });

  test("names every file of the bridge, the index and the gateway", () => {
    const named = new Set(backticked(stages));
    const all = ["src/bridge", "src/prefix-index", "src/gateway"]
      .flatMap(filesBelow)
      .filter((path) => path.endsWith(".ts") && posix.basename(path) !== "index.ts");
    expect(all.filter((path) => !named.has(path))).toEqual([]);
  });
});

describe("every page", () => {
  const pages = filesBelow(".").filter((path) => path.endsWith(".md"));

  test.each(pages)("%s links only to what is there", (page) => {
    for (const match of readText(page).matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)) {
      const target = posix.join(posix.dirname(page), match[1] ?? "");
      expect(isInTree(target), `${page} -> ${target}`).toBe(true);
    }
  });

  test.each(pages)("%s names only files that are there", (page) => {
    const folders = /(?<![\w./-])(?:src|docs|test|deploy|proto|scripts)\/[\w./-]*\w/g;
    const paths = [...readText(page).matchAll(folders)].map((match) => match[0]);
    expect(paths.filter((path) => !isInTree(path))).toEqual([]);
  });

  test.each(FILES)("%s has current generated tables", async (page) => {
    const text = readText(page);
    expect(await withCurrentTables(text)).toBe(text);
  });
});
