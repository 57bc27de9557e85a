/**
 * What it is: claims about the bridge's configuration: defaults, rules between values, the engine description.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: the merging of sources (test/unit/protocol/config-source.test.ts does).
 */
import { describe, expect, test } from "vitest";
import {
  BRIDGE_FIELDS,
  type BridgeConfigSources,
  bridgeFields,
  bridgeSettings,
  parseBridgeConfig,
  printBridgeConfig,
} from "../../../src/bridge/dist/config.js";
import { parseEngineDescription } from "../../../src/bridge/dist/config-engine.js";
import { UNSTATED_ENGINE } from "../../../src/bridge/dist/engine-config.js";
import { configTable, KvEventsError, LIMITS } from "../../../src/protocol/dist/index.js";

type Flags = Readonly<Record<string, string>>;

function sources(flags: Flags, files: Flags = {}): BridgeConfigSources {
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

const parse = (flags: Flags, files?: Flags) => parseBridgeConfig(sources(flags, files));

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
    ranks: [{ dpRank: 0, endpoint: "tcp://127.0.0.1:5557", replayEndpoint: undefined }],
    mode: "connect",
    topic: undefined,
    engine: UNSTATED_ENGINE,
    engineHttp: undefined,
    keySeed: "kvgroup-public-default-seed",
    isDefaultSeed: true,
    isEngineProjectionAllowed: false,
    hasEngineSnapshot: false,
    subscriberQueueBytes: LIMITS.subscriberQueueBytes.value,
    subscribersPerRank: LIMITS.subscribersPerRank.value,
    heartbeatIntervalMs: LIMITS.heartbeatIntervalMs.value,
    listen: { host: "127.0.0.1", port: 7557, tlsFiles: undefined },
    health: { host: "127.0.0.1", port: 7558 },
    checkpoint: undefined,
    logLevel: "info",
  });
});

test("every default passes its own type", () => {
  for (const field of Object.values(bridgeFields)) {
    expect(field.type.safeParse(field.fallback).success, field.name).toBe(true);
  }
});

test("a flag wins over a variable, a variable over the file", () => {
  const all = {
    ...sources({ "listen-port": "3" }),
    fileText: JSON.stringify({ listen: { port: 1 }, health: { port: 1 }, log: { level: "warn" } }),
    environment: { KVGROUP_BRIDGE_LISTEN_PORT: "2", KVGROUP_BRIDGE_HEALTH_PORT: "2" },
  };
  const config = parseBridgeConfig(all);
  expect([config.listen.port, config.health.port, config.logLevel]).toEqual([3, 2, "warn"]);
});

test("an unknown key is refused with the nearest known one", () => {
  const all = { ...sources({}), fileText: '{"engine": {"endpont": "x"}}' };
  const { message } = refusal(() => parseBridgeConfig(all));
  expect(message).toContain("engine.endpont; did you mean engine.endpoint?");
});

test.each([
  ["subscribers-max", "0"],
  ["subscribers-max", String(LIMITS.subscribersPerRank.value + 1)],
  ["subscribers-queue-bytes", String(LIMITS.subscriberQueueBytes.value + 1)],
  ["heartbeat-interval-ms", "99"],
  ["heartbeat-interval-ms", String(LIMITS.heartbeatIntervalMs.value + 1)],
  ["checkpoint-interval-ms", "999"],
  ["checkpoint-interval-ms", "3600001"],
  ["checkpoint-directory", ""],
  ["log-level", "loud"],
  ["engine-mode", "listen"],
  ["engine-http-url", "127.0.0.1:8000"],
  ["engine-http-url", "http://127.0.0.1:8000/v1"],
  ["engine-http-url", "http://key@127.0.0.1:8000"],
  ["engine-http-url", ""],
  ["engine-dp-ranks", "0,0"],
  ["engine-dp-ranks", "4294967296"],
  ["engine-dp-ranks", "-1"],
  ["listen-host", "[::1]"],
  ["listen-tls-cert", ""],
])("--%s %s is refused by name", (flag, value) => {
  const { code, message } = refused({ [flag]: value });
  expect(code).toBe("config_invalid");
  expect(message).toContain(`--${flag}`);
});

test("the engine's API is an origin, with a key out of a file if one is needed", () => {
  const url = { "engine-http-url": "http://127.0.0.1:8000/" };
  const origin = "http://127.0.0.1:8000";
  expect(parse(url).engineHttp).toEqual({ origin, apiKey: undefined });
  const withKey = { ...url, "engine-http-api-key-file": "key" };
  for (const text of ["abc", "abc\n", "abc\r\n"]) {
    expect(parse(withKey, { key: text }).engineHttp).toEqual({ origin, apiKey: "abc" });
  }
  for (const text of ["", "\n", "a\nb", "a b", "a\u00e4", "x".repeat(1_025)]) {
    const { code, message } = refused(withKey, { key: text });
    expect([code, message]).toEqual([
      "config_invalid",
      "engine.http_api_key_file: key is not one line of a key",
    ]);
  }
  expect(refused(withKey).code).toBe("config_unreadable");
});

test("a key needs an API to go to, and does not go through a network in clear text", () => {
  const key = { "engine-http-api-key-file": "key" };
  expect(refused(key, { key: "abc" }).message).toContain("needs engine.http_url");
  const to = (url: string) => ({ ...key, "engine-http-url": url });
  expect(refused(to("http://engine:8000"), { key: "abc" }).message).toContain("must be https://");
  for (const url of ["https://engine:8000", "http://[::1]:8000", "http://localhost:8000"]) {
    expect(parse(to(url), { key: "abc" }).engineHttp?.apiKey).toBe("abc");
  }
});

test("a directory switches checkpoints on, with the interval of the limits unless another is given", () => {
  const intervalMs = LIMITS.checkpointIntervalMs.value;
  const directory = "/var/lib/kvgroup";
  expect(parse({ "checkpoint-directory": directory }).checkpoint).toEqual({
    directory,
    intervalMs,
  });
  const both = { "checkpoint-directory": directory, "checkpoint-interval-ms": "1000" };
  expect(parse(both).checkpoint).toEqual({ directory, intervalMs: 1_000 });
  expect(parse({ "checkpoint-interval-ms": "3600000" }).checkpoint).toBeUndefined();
});

describe("ports of ranks", () => {
  const endpoints = (flags: Flags) => parse(flags).ranks.map((rank) => rank.endpoint);
  const base = { "engine-endpoint": "tcp://*:5557" };

  test("the base port plus the rank, or plus its place", () => {
    const flags = { ...base, "engine-dp-ranks": "4,6" };
    expect(endpoints(flags)).toEqual(["tcp://*:5561", "tcp://*:5563"]);
    expect(endpoints({ ...flags, "engine-port-offset": "index" })).toEqual([
      "tcp://*:5557",
      "tcp://*:5558",
    ]);
  });

  test("65535 is the last one", () => {
    const flags = { "engine-endpoint": "tcp://[::1]:65535" };
    expect(endpoints(flags)).toEqual(["tcp://[::1]:65535"]);
    expect(refused({ ...flags, "engine-dp-ranks": "0,1" }).message).toMatch(
      /^engine\.endpoint: rank 1 would have port 65536/,
    );
  });

  test("replay endpoints move alike and must not meet event endpoints", () => {
    const flags = { ...base, "engine-replay-endpoint": "tcp://*:5559", "engine-dp-ranks": "0,1" };
    expect(parse(flags).ranks.map((rank) => rank.replayEndpoint)).toEqual([
      "tcp://*:5559",
      "tcp://*:5560",
    ]);
    const { code, message } = refused({ ...flags, "engine-dp-ranks": "0,1,2" });
    expect(code).toBe("config_invalid");
    expect(message).toBe("engine.replay_endpoint: 5559 of rank 0 is the event endpoint of rank 2");
  });

  test("ipc and a free port serve one rank", () => {
    const ipc = { "engine-endpoint": "ipc:///run/kv.sock" };
    expect(endpoints(ipc)).toEqual(["ipc:///run/kv.sock"]);
    expect(refused({ ...ipc, "engine-dp-ranks": "0,1" }).message).toContain(
      "engine.endpoint: an ipc",
    );
    const free = { "engine-endpoint": "tcp://127.0.0.1:*", "engine-mode": "bind" };
    expect(endpoints(free)).toEqual(["tcp://127.0.0.1:*"]);
    expect(refused({ ...free, "engine-dp-ranks": "0,1" }).message).toContain("a free port");
  });

  test.each([
    ["engine-endpoint", "engine.endpoint"],
    ["engine-replay-endpoint", "engine.replay_endpoint"],
  ])("--%s is checked and named", (flag, name) => {
    const { code, message } = refused({ [flag]: "udp://x:1" });
    expect(code).toBe("engine_endpoint_invalid");
    expect(message).toContain(`${name}: `);
  });
});

describe("listeners", () => {
  const pair = { "listen-tls-cert": "c.pem", "listen-tls-key": "k.pem" };

  test.each(["0.0.0.0", "::", "10.0.0.1", "bridge.example"])("%s needs TLS or consent", (host) => {
    const flags = { "listen-host": host };
    expect(refused(flags).code).toBe("listen_insecure");
    expect(parse({ ...flags, "listen-insecure": "true" }).listen.host).toBe(host);
    expect(parse({ ...flags, ...pair }).listen.tlsFiles).toEqual({
      cert: "c.pem",
      key: "k.pem",
      ca: undefined,
    });
  });

  test("half a pair is refused, and a client CA alone", () => {
    expect(refused({ "listen-tls-cert": "c" }).message).toBe("listen.tls_key: missing");
    expect(refused({ "listen-tls-key": "k" }).message).toBe("listen.tls_cert: missing");
    expect(refused({ "listen-tls-client-ca": "a" }).message).toContain("listen.tls_client_ca");
    const config = parse({ ...pair, "listen-tls-client-ca": "a.pem" });
    expect(config.listen.tlsFiles?.ca).toBe("a.pem");
  });

  test("probes beyond loopback need their own consent; TLS of the stream is none", () => {
    const flags = { "health-host": "0.0.0.0", ...pair, "listen-insecure": "true" };
    expect(refused(flags).code).toBe("listen_insecure");
    expect(refused(flags).message).toContain("health.public");
    expect(parse({ ...flags, "health-public": "true" }).health.host).toBe("0.0.0.0");
  });

  test("one port cannot be both", () => {
    expect(refused({ "health-port": "7557" }).message).toContain("health.port");
    expect(parse({ "health-port": "0", "listen-port": "0" }).health.port).toBe(0);
  });

  test("settings take the material of the files, and insist on it", () => {
    const tls = { key: "KEY", cert: "CERT", clientCa: undefined };
    expect(bridgeSettings(parse(pair), tls).listen).toEqual({
      host: "127.0.0.1",
      port: 7557,
      tls,
    });
    expect(refusal(() => bridgeSettings(parse(pair), undefined)).code).toBe("tls_invalid");
    expect(bridgeSettings(parse({}), undefined).listen.tls).toBeUndefined();
  });
});

describe("the seed", () => {
  const seed = "0123456789abcdef";

  test("from the value or from the file, without its last newline", () => {
    for (const config of [
      parse({ "keys-seed": seed }),
      parse({ "keys-seed-file": "s" }, { s: `${seed}\n` }),
      parse({ "keys-seed-file": "s" }, { s: `${seed}\r\n` }),
    ]) {
      expect(config).toMatchObject({ keySeed: seed, isDefaultSeed: false });
    }
  });

  test("not both, not short, and never told", () => {
    const both = refused({ "keys-seed": seed, "keys-seed-file": "s" }, { s: seed });
    expect(both.code).toBe("config_invalid");
    const short = seed.slice(1);
    for (const { code, message } of [
      refused({ "keys-seed": short }),
      refused({ "keys-seed-file": "s" }, { s: `${short}\n` }),
    ]) {
      expect(code).toBe("config_invalid");
      expect(message).toContain("keys.seed");
      expect(message).not.toContain(short);
    }
  });

  test("a file that cannot be read is another error", () => {
    expect(refused({ "keys-seed-file": "gone" })).toEqual({
      code: "config_unreadable",
      message: "keys.seed_file: cannot read gone",
    });
  });

  test("is masked in print", () => {
    const text = printBridgeConfig(sources({ "keys-seed": seed }));
    expect(text).not.toContain(seed);
    expect(JSON.parse(text)).toMatchObject({ keys: { seed: "***" }, listen: { port: 7557 } });
  });
});

test("tokens are kept where the ENGINE projection is allowed, and only when asked", () => {
  const allowed = { "projections-engine-allowed": "true" };
  const asked = { "projections-engine-snapshot": "true" };
  expect(parse(allowed)).toMatchObject({
    isEngineProjectionAllowed: true,
    hasEngineSnapshot: false,
  });
  const both = parse({ ...allowed, ...asked });
  expect(both).toMatchObject({ isEngineProjectionAllowed: true, hasEngineSnapshot: true });
  expect(bridgeSettings(both, undefined).hasEngineSnapshot).toBe(true);
  expect(refused(asked)).toEqual({
    code: "config_invalid",
    message: "projections.engine_snapshot: needs projections.engine_allowed",
  });
});

test("the table names every field", () => {
  const table = configTable(BRIDGE_FIELDS);
  for (const field of Object.values(bridgeFields)) expect(table).toContain(`| \`${field.name}\` |`);
  expect(table).toContain("`KVGROUP_BRIDGE_ENGINE_ENDPOINT`");
});

describe("the engine description", () => {
  const full = { group_id: 0, kind: "full_attention", block_size: 32 };
  const sliding = { group_id: 1, kind: "sliding_window", block_size: 16, sliding_window: 128 };

  test("becomes the engine as stated", () => {
    const engine = parseEngineDescription({
      vllm_version: "0.33.0",
      groups: [full, { ...sliding, drops_block: true, spec_class: 1 }],
      roster_complete: true,
      scheduler_block_size: 32,
      hash_block_size: 16,
      fine: false,
      removal_rule: "last_copy",
    });
    expect(engine).toMatchObject({
      vllmVersion: "0.33.0",
      isRosterComplete: true,
      schedulerBlockSizeTokens: 32,
      hashBlockSizeTokens: 16,
      isFine: false,
      lookaheadTokens: undefined,
      removalRule: "last_copy",
    });
    expect(engine.groups[1]).toEqual({
      groupId: 1,
      kind: "sliding_window",
      blockSizeTokens: 16,
      windowTokens: 128,
      chunkTokens: undefined,
      isPrivate: false,
      dropsBlock: true,
      specClass: 1,
    });
  });

  test("nothing stated is the unstated engine", () => {
    expect(parseEngineDescription({})).toEqual(UNSTATED_ENGINE);
  });

  test.each([
    [{ vllm: "1" }, ".vllm: unknown key"],
    [{ groups: [{ ...full, blok_size: 1 }] }, ".groups[0].blok_size: unknown key"],
    [{ groups: [{ kind: "mamba" }] }, ".groups[0].group_id: "],
    [{ groups: [full, { ...sliding, group_id: 0 }] }, ".groups[1].group_id: stands twice"],
    [{ groups: [{ ...full, block_size: 0 }] }, ".groups[0].block_size: "],
    [{ groups: [{ ...sliding, sliding_window: 0 }] }, ".groups[0].sliding_window: "],
    [{ groups: [{ ...sliding, sliding_window: undefined }] }, ".groups[0].sliding_window: needed"],
    [{ groups: [{ ...full, sliding_window: 8 }] }, ".groups[0].sliding_window: this kind"],
    [{ groups: [{ group_id: 0, kind: "chunked_local_attention" }] }, ".groups[0].chunk_tokens: "],
    [{ groups: [full], hash_block_size: 24 }, ".groups[0].block_size: not a multiple"],
    [{ groups: [full, sliding], scheduler_block_size: 16 }, ".groups[0].block_size: does not"],
    [{ scheduler_block_size: 24, hash_block_size: 16 }, ".scheduler_block_size: "],
    [{ roster_complete: true }, ".roster_complete: "],
    [{ eagle_bound: "both" }, ".eagle_bound: "],
    [{ digest_bytes: 4 }, ".digest_bytes: "],
    [{ digest_bytes: 32, hash_algorithm: "xxhash" }, ".digest_bytes: "],
    [{ digest_bytes: 16, hash_algorithm: "sha256" }, ".digest_bytes: "],
    [{ lookahead_tokens: -1 }, ".lookahead_tokens: "],
  ])("%j is refused at its path", (raw, path) => {
    const { code, message } = refusal(() => parseEngineDescription(raw));
    expect(code).toBe("config_invalid");
    expect(message).toContain(`engine.description${path}`);
  });

  test("a private group need not follow the hash unit, but the scheduler's block does", () => {
    const scratch = { group_id: 2, block_size: 24, private: true };
    const stated = { groups: [full, scratch], hash_block_size: 16, scheduler_block_size: 96 };
    expect(parseEngineDescription(stated).groups).toHaveLength(2);
    const { message } = refusal(() =>
      parseEngineDescription({ ...stated, scheduler_block_size: 32 }),
    );
    expect(message).toContain("groups[1].block_size");
  });

  test("from a flag or from a file, not both; the file is named", () => {
    const text = JSON.stringify({ groups: [full] });
    const file = { "engine-description-file": "e.json" };
    expect(parse({ "engine-description": text }).engine.groups).toHaveLength(1);
    expect(parse(file, { "e.json": text }).engine.groups).toHaveLength(1);
    const both = refused({ ...file, "engine-description": text }, { "e.json": text });
    expect(both.message).toContain("both given");
    expect(refused(file, { "e.json": "{" }).message).toContain("e.json is not JSON");
    expect(refused(file, { "e.json": '{"x":1}' }).message).toContain("e.json");
    expect(refused(file).code).toBe("config_unreadable");
  });
});
