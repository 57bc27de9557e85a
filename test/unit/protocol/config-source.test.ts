/**
 * What it is: claims about merging configuration, on a definition of its own.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: the fields of bridge and gateway (their config.test.ts do).
 */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  type ConfigSources,
  configField,
  configTable,
  KvEventsError,
  mergeConfig,
  printConfig,
} from "../../../src/protocol/dist/index.js";

const fields = {
  port: configField({
    name: "listen.port",
    form: "number",
    type: z.int().min(0).max(65_535),
    fallback: 80,
    unit: "",
    description: "its port",
  }),
  isOpen: configField({
    name: "listen.open",
    form: "boolean",
    type: z.boolean(),
    fallback: false,
    unit: "",
    description: "open|closed",
  }),
  ranks: configField({
    name: "ranks",
    form: "numbers",
    type: z.array(z.int()),
    fallback: [0],
    unit: "ranks",
    description: "a list",
  }),
  extra: configField({
    name: "extra",
    form: "json",
    type: z.record(z.string(), z.unknown()).optional(),
    fallback: undefined,
    unit: "",
    description: "an object",
  }),
  seed: configField({
    name: "keys.seed",
    form: "text",
    type: z.string().min(4).optional(),
    fallback: undefined,
    unit: "",
    description: "a secret",
    isSecret: true,
  }),
};
const definition = { environmentPrefix: "APP_", fields };

function merge(sources: Partial<ConfigSources> = {}) {
  return mergeConfig({ environment: {}, flags: {}, ...sources }, definition);
}

function refusal(sources: Partial<ConfigSources>): string {
  try {
    merge(sources);
  } catch (error) {
    expect(error).toBeInstanceOf(KvEventsError);
    if (!(error instanceof KvEventsError)) throw error;
    expect(error.code).toBe("config_invalid");
    return error.message;
  }
  return expect.fail("nothing was refused");
}

const file = (value: unknown): Partial<ConfigSources> => ({ fileText: JSON.stringify(value) });

describe("precedence", () => {
  test("defaults < file < environment < flags", () => {
    const fileText = JSON.stringify({ listen: { port: 1 } });
    const environment = { APP_LISTEN_PORT: "2" };
    const flags = { "listen-port": "3" };
    expect(merge().values.port).toBe(80);
    expect(merge({ fileText }).values.port).toBe(1);
    expect(merge({ fileText, environment }).values.port).toBe(2);
    expect(merge({ fileText, environment, flags }).values.port).toBe(3);
    expect(merge({ fileText, environment, flags }).origins.port).toBe("flag");
  });

  test("each value on its own", () => {
    const { values } = merge({
      ...file({ listen: { port: 1, open: true } }),
      environment: { APP_LISTEN_PORT: "2" },
    });
    expect(values).toMatchObject({ port: 2, isOpen: true, ranks: [0] });
  });
});

describe("texts become values", () => {
  test("numbers, booleans, lists and JSON", () => {
    const { values } = merge({
      environment: { APP_RANKS: "0,2", APP_EXTRA: '{"a":1}', APP_LISTEN_OPEN: "true" },
      flags: { "listen-port": "0" },
    });
    expect(values).toMatchObject({ port: 0, isOpen: true, ranks: [0, 2], extra: { a: 1 } });
  });

  test.each([
    ["APP_LISTEN_PORT", "1e3"],
    ["APP_LISTEN_PORT", ""],
    ["APP_LISTEN_PORT", "70000"],
    ["APP_LISTEN_OPEN", "yes"],
    ["APP_RANKS", "0,"],
    ["APP_EXTRA", "{"],
  ])("%s=%s is refused by name", (variable, text) => {
    expect(refusal({ environment: { [variable]: text } })).toContain(variable);
  });

  test("a file's text is not taken for a number", () => {
    expect(refusal(file({ listen: { port: "80" } }))).toContain("listen.port");
  });
});

describe("unknown names", () => {
  test("a key of the file, with its dotted name and the nearest known one", () => {
    const message = refusal(file({ listen: { prot: 1 } }));
    expect(message).toContain("listen.prot");
    expect(message).toContain("listen.port?");
  });

  test("a variable with our prefix; others are nobody's business", () => {
    const message = refusal({ environment: { APP_LISTEN_PORTS: "1" } });
    expect(message).toContain("APP_LISTEN_PORTS");
    expect(message).toContain("APP_LISTEN_PORT?");
    expect(merge({ environment: { APPLE: "1", PATH: "x" } }).values.port).toBe(80);
  });

  test("a flag", () => {
    expect(refusal({ flags: { "listen-prot": "1" } })).toContain("--listen-port?");
  });

  test("what Kubernetes injects for a Service of our name is not an operator's", () => {
    const environment = {
      APP_SERVICE_HOST: "10.0.0.1",
      APP_SERVICE_PORT: "80",
      APP_PORT: "tcp://10.0.0.1:80",
      APP_PORT_80_TCP_ADDR: "10.0.0.1",
    };
    expect(merge({ environment }).values.port).toBe(80);
  });

  test("all problems are told at once", () => {
    const message = refusal({ ...file({ oops: 1 }), environment: { APP_LISTEN_PORT: "x" } });
    expect(message).toContain("oops");
    expect(message).toContain("APP_LISTEN_PORT");
  });

  test("a group that is no object, and a file that is no JSON object", () => {
    expect(refusal(file({ listen: 1 }))).toContain("listen is not an object");
    expect(refusal(file([]))).toContain("not a JSON object");
    expect(refusal({ fileText: "{" })).toContain("not JSON");
  });
});

describe("secrets", () => {
  test("are masked in print, in the shape of a file", () => {
    const { values } = merge({ environment: { APP_KEYS_SEED: "hush-hush" } });
    const text = printConfig(fields, values);
    expect(text).not.toContain("hush");
    expect(JSON.parse(text)).toEqual({
      listen: { port: 80, open: false },
      ranks: [0],
      keys: { seed: "***" },
    });
  });

  test("never stand in a message", () => {
    expect(refusal({ environment: { APP_KEYS_SEED: "abc" } })).not.toContain("abc");
    expect(refusal({ fileText: '{"keys": {"seed": "hush-hush' })).not.toContain("hush");
  });
});

test("the table has a row for each field, in order, with bars escaped", () => {
  const [head, , ...rows] = configTable(definition).trimEnd().split("\n");
  expect(head).toContain("name");
  expect(rows).toHaveLength(Object.keys(fields).length);
  expect(rows[0]).toContain("| `listen.port` | `--listen-port` | `APP_LISTEN_PORT` | `80` |");
  expect(rows[1]).toContain("open\\|closed");
});
