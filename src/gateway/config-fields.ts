/**
 * What it is: every configuration value of the gateway service, each checked on its own.
 * Owns: names, defaults, bounds and the sentence for the operator.
 * Refuses: values outside their type or bound.
 * Does not do: judge values together (config.ts does).
 */
import { type ConfigDefinition, configField, LIMITS } from "@kv-group-bridge/protocol";
import { LOG_LEVELS } from "@kv-group-bridge/runtime";
import { z } from "zod";

const port = z.int().min(0).max(65_535);
const host = z
  .string()
  .max(255)
  .regex(/^[\w.:%-]+$/, "not a host name, nor an address without brackets");
const path = z.string().min(1).optional();

const worker = z.strictObject({
  name: z.string().min(1).max(LIMITS.textBytes.value),
  url: z.url({ protocol: /^https?$/, error: "not an http:// or https:// URL" }),
  dp_ranks: z
    .array(z.int().min(0).max(0xffff_ffff))
    .min(1)
    .refine((list) => new Set(list).size === list.length, "a rank stands twice")
    .optional(),
});

/** The list of workers, in the configuration or in a file of its own. */
export const workersType = z
  .array(worker)
  .max(LIMITS.workersPerGateway.value)
  .superRefine((workers, context) => {
    const names = new Set<string>();
    for (const [index, { name }] of workers.entries()) {
      if (names.has(name)) {
        context.addIssue({ code: "custom", path: [index, "name"], message: "stands twice" });
      }
      names.add(name);
    }
  });

const INDEX_MIN = 1_024;
const STALE_MIN_MS = 1_000;

/** All values, by the name that code uses. */
export const gatewayFields = {
  workers: configField({
    name: "workers",
    form: "json",
    type: workersType.optional(),
    fallback: undefined,
    unit: "",
    description: "bridges to follow: [{name, url, dp_ranks}]; dp_ranks is [0] where absent",
  }),
  workersFile: configField({
    name: "workers_file",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "JSON file with the same list; not together with workers",
  }),
  bridgeTlsCa: configField({
    name: "bridge.tls_ca",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of the CA of https:// bridges; none = the system's",
  }),
  bridgeTlsCert: configField({
    name: "bridge.tls_cert",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of the certificate that bridges are shown; together with its key",
  }),
  bridgeTlsKey: configField({
    name: "bridge.tls_key",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of its key",
  }),
  listenHost: configField({
    name: "listen.host",
    form: "text",
    type: host,
    fallback: "127.0.0.1",
    unit: "",
    description: "address of the score service; beyond loopback it needs TLS or listen.insecure",
  }),
  listenPort: configField({
    name: "listen.port",
    form: "number",
    type: port,
    fallback: 7567,
    unit: "",
    description: "its port; 0 = any free one",
  }),
  listenTlsCert: configField({
    name: "listen.tls_cert",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of the certificate; together with listen.tls_key",
  }),
  listenTlsKey: configField({
    name: "listen.tls_key",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of its key",
  }),
  listenTlsClientCa: configField({
    name: "listen.tls_client_ca",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "PEM file of the CA whose certificates clients must show",
  }),
  listenInsecure: configField({
    name: "listen.insecure",
    form: "boolean",
    type: z.boolean(),
    fallback: false,
    unit: "",
    description: "accept cleartext beyond loopback: everyone on the network can read prompts",
  }),
  healthHost: configField({
    name: "health.host",
    form: "text",
    type: host,
    fallback: "127.0.0.1",
    unit: "",
    description:
      "address of probes and metrics, plain HTTP; beyond loopback it needs health.public",
  }),
  healthPort: configField({
    name: "health.port",
    form: "number",
    type: port,
    fallback: 7568,
    unit: "",
    description: "its port; 0 = any free one",
  }),
  healthPublic: configField({
    name: "health.public",
    form: "boolean",
    type: z.boolean(),
    fallback: false,
    unit: "",
    description: "accept probes and scrapes from other machines",
  }),
  keysSeed: configField({
    name: "keys.seed",
    form: "text",
    type: z.string().optional(),
    fallback: undefined,
    unit: "",
    description:
      "the fleet's secret of prefix keys, the same in every bridge and gateway; a flag shows in " +
      "process lists: prefer the file. None = the public seed, for trials",
    isSecret: true,
  }),
  keysSeedFile: configField({
    name: "keys.seed_file",
    form: "text",
    type: path,
    fallback: undefined,
    unit: "",
    description: "file with the seed; not together with keys.seed",
  }),
  staleAfterMs: configField({
    name: "stale_after_ms",
    form: "number",
    type: z.int().min(STALE_MIN_MS).max(LIMITS.staleAfterMs.value),
    fallback: LIMITS.staleAfterMs.value,
    unit: "milliseconds",
    description: "silence of a bridge after which answers of its ranks are marked stale",
  }),
  unseenGroupPolicy: configField({
    name: "unseen_group_policy",
    form: "text",
    type: z.enum(["zero", "unknown"]),
    fallback: "zero",
    unit: "",
    description: "answer of a rank while a group of its roster was never seen: zero or unknown",
  }),
  indexMaxNodes: configField({
    name: "index.max_nodes",
    form: "number",
    type: z.int().min(INDEX_MIN).max(LIMITS.indexNodes.value),
    fallback: LIMITS.indexNodes.value,
    unit: "keys",
    description: "bound of the index, all ranks together",
  }),
  indexMaxEntriesPerRank: configField({
    name: "index.max_entries_per_rank",
    form: "number",
    type: z.int().min(INDEX_MIN).max(LIMITS.indexEntriesPerRank.value),
    fallback: LIMITS.indexEntriesPerRank.value,
    unit: "blocks",
    description: "what one rank may hold in the index",
  }),
  logLevel: configField({
    name: "log.level",
    form: "text",
    type: z.enum(LOG_LEVELS),
    fallback: "info",
    unit: "",
    description: "least severe line written",
  }),
};

/** The gateway's configuration: its fields and the prefix of its variables. */
export const GATEWAY_FIELDS: ConfigDefinition<typeof gatewayFields> = {
  environmentPrefix: "KVGROUP_GATEWAY_",
  fields: gatewayFields,
};
