/**
 * What it is: claims about the gateway's configuration: defaults, rules between values, the list of workers.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: the merging of sources (test/unit/protocol/config-source.test.ts does).
 */
import { describe, expect, test } from "vitest";
import {
  GATEWAY_FIELDS,
  type GatewayConfigSources,
  gatewayFields,
  gatewaySettings,
  parseGatewayConfig,
  printGatewayConfig,
} from "../../../src/gateway/dist/config.js";
import { configTable, KvEventsError, LIMITS } from "../../../src/protocol/dist/index.js";

type Flags = Readonly<Record<string, string>>;

function sources(flags: Flags, files: Flags = {}): GatewayConfigSources {
  return {
    environment: {},
    flags,
    readFile(path) {
      const text = files[path];
      if (text === undefined) throw new RangeError("no such file");
      return text;
    },
  };
}

const parse = (flags: Flags, files?: Flags) => parseGatewayConfig(sources(flags, files));

function refusal(act: () => unknown): { readonly code: string; readonly message: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof KvEventsError) return { code: error.code, message: error.message };
    throw error;
  }
  return expect.fail("nothing was refused");
}

const refused = (flags: Flags, files?: Flags) => refusal(() => parse(flags, files));

test("every default", () => {
  expect(parse({})).toEqual({
    keySeed: "kvgroup-public-default-seed",
    isDefaultSeed: true,
    workers: [],
    unseenGroupPolicy: "zero",
    staleAfterMs: LIMITS.staleAfterMs.value,
    maxNodes: LIMITS.indexNodes.value,
    maxEntriesPerRank: LIMITS.indexEntriesPerRank.value,
    listen: { host: "127.0.0.1", port: gatewayFields.listenPort.fallback, tlsFiles: undefined },
    bridgeTlsFiles: undefined,
    health: { host: "127.0.0.1", port: gatewayFields.healthPort.fallback },
    logLevel: "info",
  });
});

test("every default passes its own type", () => {
  for (const field of Object.values(gatewayFields)) {
    expect(field.type.safeParse(field.fallback).success, field.name).toBe(true);
  }
});

test("a flag wins over a variable, a variable over the file", () => {
  const config = parseGatewayConfig({
    ...sources({ "listen-port": "3" }),
    fileText: JSON.stringify({ listen: { port: 1 }, health: { port: 1 }, log: { level: "warn" } }),
    environment: { KVGROUP_GATEWAY_LISTEN_PORT: "2", KVGROUP_GATEWAY_HEALTH_PORT: "2" },
  });
  expect([config.listen.port, config.health.port, config.logLevel]).toEqual([3, 2, "warn"]);
});

test("an unknown key is refused with the nearest known one", () => {
  const all = { ...sources({}), fileText: '{"index": {"max_node": 1}}' };
  const { message } = refusal(() => parseGatewayConfig(all));
  expect(message).toContain("index.max_node; did you mean index.max_nodes?");
});

test.each([
  ["stale-after-ms", "0"],
  ["index-max-nodes", String(LIMITS.indexNodes.value + 1)],
  ["index-max-entries-per-rank", String(LIMITS.indexEntriesPerRank.value + 1)],
  ["unseen-group-policy", "guess"],
  ["log-level", "loud"],
  ["listen-port", "65536"],
])("--%s %s is refused by name", (flag, value) => {
  const { code, message } = refused({ [flag]: value });
  expect(code).toBe("config_invalid");
  expect(message).toContain(`--${flag}`);
});

describe("workers", () => {
  const one = { name: "a", url: "http://a.example:7557" };
  const list = (...workers: readonly object[]): Flags => ({ workers: JSON.stringify(workers) });

  test("from a value or from a file, in their order", () => {
    const two = { name: "b", url: "https://b.example:7557", dp_ranks: [2, 0] };
    const text = JSON.stringify([one, two]);
    for (const config of [
      parse(list(one, two)),
      parse({ "workers-file": "w.json" }, { "w.json": text }),
    ]) {
      expect(config.workers.map((worker) => worker.name)).toEqual(["a", "b"]);
      expect(config.workers.map((worker) => worker.dpRanks ?? [0])).toEqual([[0], [2, 0]]);
    }
  });

  test("not both; an unreadable file is another error", () => {
    const file = { "workers-file": "w.json" };
    expect(refused({ ...list(one), ...file }, { "w.json": "[]" }).code).toBe("config_invalid");
    expect(refused(file).code).toBe("config_unreadable");
    expect(refused(file, { "w.json": "[" }).message).toContain("w.json is not JSON");
    const bad = refused(file, { "w.json": JSON.stringify([one, { ...one, name: "" }]) });
    expect(bad.message).toContain("[1].name");
  });

  test.each([
    [[one, one], "[1].name: stands twice"],
    [[{ name: "a" }], "[0].url"],
    [[{ ...one, url: "tcp://a.example:1" }], "[0].url"],
    [[{ ...one, dp_ranks: [1, 1] }], "[0].dp_ranks"],
    [[{ ...one, dp_ranks: [] }], "[0].dp_ranks"],
    [[{ ...one, port: 1 }], "[0]"],
    [[{ ...one, url: "http://a.example/path" }], "url"],
    [[{ ...one, url: "http://user:password@a.example" }], "credentials"],
  ])("%j is refused at its path", (workers, path) => {
    const { code, message } = refused(list(...workers));
    expect(code).toBe("config_invalid");
    expect(message).toContain(path);
    expect(message).not.toContain("password");
  });

  test("key material for bridges goes to https:// workers only", () => {
    const two = { name: "b", url: "https://b.example:7557" };
    const config = parse({ ...list(one, two), "bridge-tls-ca": "ca.pem" });
    const bridges = { ca: "CA", cert: undefined, key: undefined };
    const settings = gatewaySettings(config, { listen: undefined, bridges });
    expect(settings.workers.map((worker) => worker.tls)).toEqual([undefined, bridges]);
    const missing = refusal(() =>
      gatewaySettings(config, { listen: undefined, bridges: undefined }),
    );
    expect(missing.code).toBe("tls_invalid");
  });
});

describe("listeners", () => {
  const pair = { "listen-tls-cert": "c.pem", "listen-tls-key": "k.pem" };

  test("beyond loopback needs TLS or consent", () => {
    const flags = { "listen-host": "0.0.0.0" };
    expect(refused(flags).code).toBe("listen_insecure");
    expect(parse({ ...flags, "listen-insecure": "true" }).listen.host).toBe("0.0.0.0");
    expect(parse({ ...flags, ...pair }).listen.tlsFiles?.cert).toBe("c.pem");
  });

  test("half a pair is refused, and a client CA alone", () => {
    expect(refused({ "listen-tls-cert": "c" }).message).toContain("listen.tls_key");
    expect(refused({ "bridge-tls-key": "k" }).message).toContain("bridge.tls_cert");
    expect(refused({ "listen-tls-client-ca": "a" }).message).toContain("listen.tls_client_ca");
  });

  test("probes beyond loopback need their own consent", () => {
    const flags = { "health-host": "0.0.0.0", "listen-insecure": "true" };
    expect(refused(flags).code).toBe("listen_insecure");
    expect(parse({ ...flags, "health-public": "true" }).health.host).toBe("0.0.0.0");
  });

  test("one port cannot be both", () => {
    const port = String(gatewayFields.listenPort.fallback);
    expect(refused({ "health-port": port }).message).toContain("health.port");
  });
});

describe("the seed", () => {
  const seed = "0123456789abcdef";

  test("from the value or the file, not both, not short, never told", () => {
    const file = { "keys-seed-file": "s" };
    expect(parse({ "keys-seed": seed })).toMatchObject({ keySeed: seed, isDefaultSeed: false });
    expect(parse(file, { s: `${seed}\n` }).keySeed).toBe(seed);
    expect(refused({ ...file, "keys-seed": seed }, { s: seed }).code).toBe("config_invalid");
    const { code, message } = refused({ "keys-seed": seed.slice(1) });
    expect(code).toBe("config_invalid");
    expect(message).not.toContain(seed.slice(1));
    expect(refused(file).code).toBe("config_unreadable");
  });

  test("is masked in print", () => {
    const text = printGatewayConfig(sources({ "keys-seed": seed }));
    expect(text).not.toContain(seed);
    expect(JSON.parse(text)).toMatchObject({ keys: { seed: "***" } });
  });
});

test("the table names every field", () => {
  const table = configTable(GATEWAY_FIELDS);
  for (const field of Object.values(gatewayFields)) {
    expect(table).toContain(`| \`${field.name}\` |`);
  }
  expect(table).toContain("`KVGROUP_GATEWAY_STALE_AFTER_MS`");
});
