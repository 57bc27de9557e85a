/**
 * What it is: every configuration value of the bridge, each checked on its own.
 * Owns: names, defaults, bounds and the sentence for the operator.
 * Refuses: values outside their type or bound.
 * Does not do: judge values together (config.ts does).
 */
import {
  type ConfigDefinition,
  type ConfigField,
  type FieldForm,
  type FieldType,
  LIMITS,
  SEED_MIN_CHARACTERS,
} from "@kv-group-bridge/protocol";
import { LOG_LEVELS } from "@kv-group-bridge/runtime";
import { z } from "zod";
import { PORT_OFFSETS } from "./config-endpoints.ts";
import { parseHttpOrigin } from "./engine-http.ts";

/** Says what a field is; the fallback is of the type's own kind. */
function field<T>(
  name: string,
  form: FieldForm,
  type: FieldType<T>,
  fallback: NoInfer<T>,
  description: string,
  unit = "",
): ConfigField<T> {
  return { name, form, type, fallback, unit, description };
}

const path = z.string().min(1).optional();
const port = z.int().min(0).max(65_535);
const host = z
  .string()
  .max(255)
  .regex(/^[\w.:%-]+$/, "not a host name, nor an address without brackets");
const httpUrl = z
  .string()
  .refine(
    (url) => parseHttpOrigin(url) !== undefined,
    "not http:// or https:// with a host and nothing after the port",
  )
  .optional();
const text = z.string().max(LIMITS.textBytes.value);
const ranks = z
  .array(z.int().min(0).max(0xffff_ffff))
  .min(1)
  .refine((list) => new Set(list).size === list.length, "a rank stands twice");

const QUEUE_MIN_BYTES = 65_536;
const HEARTBEAT_MIN_MS = 100;
const CHECKPOINT_MIN_MS = 1_000;
const CHECKPOINT_MAX_MS = 3_600_000;

/** All values, by the name that code uses. */
export const bridgeFields = {
  engineEndpoint: field(
    "engine.endpoint",
    "text",
    z.string().min(1),
    "tcp://127.0.0.1:5557",
    "where rank 0's engine publishes: `endpoint` of vLLM's --kv-events-config (tcp:// or ipc://)",
  ),
  engineReplayEndpoint: field(
    "engine.replay_endpoint",
    "text",
    path,
    undefined,
    "vLLM's `replay_endpoint` of rank 0: lost batches are asked there, and it proves the engine after " +
      "a lost connection. Without it both cost the view",
  ),
  engineTopic: field(
    "engine.topic",
    "text",
    text,
    "",
    "vLLM's `topic`; others are refused. Empty = every topic",
  ),
  engineDpRanks: field(
    "engine.dp_ranks",
    "numbers",
    ranks,
    [0],
    "data-parallel ranks to follow, as vLLM numbers them",
  ),
  enginePortOffset: field(
    "engine.port_offset",
    "text",
    z.enum(PORT_OFFSETS),
    "rank",
    "what is added to the endpoint's port: the rank's number (`rank`), or its place in " +
      "engine.dp_ranks (`index`)",
  ),
  engineMode: field(
    "engine.mode",
    "text",
    z.enum(["connect", "bind"]),
    "connect",
    "`bind` when the engine connects: its endpoint has neither `*` nor `::` nor ipc",
  ),
  engineDescription: field(
    "engine.description",
    "json",
    z.record(z.string(), z.unknown()).optional(),
    undefined,
    "what is known of the engine beforehand; the rest is learnt from its events",
  ),
  engineDescriptionFile: field(
    "engine.description_file",
    "text",
    path,
    undefined,
    "JSON file with the same; not together with engine.description",
  ),
  engineHttpUrl: field(
    "engine.http_url",
    "text",
    httpUrl,
    undefined,
    "rank 0's API (http://127.0.0.1:8000): read are LoRA adapters' paths, which vLLM from 0.31 on hashes and " +
      "no event tells. Needed with adapters alone",
  ),
  engineHttpApiKeyFile: field(
    "engine.http_api_key_file",
    "text",
    path,
    undefined,
    "file with the API's key (vLLM's --api-key); beyond loopback it needs https://",
  ),
  listenHost: field(
    "listen.host",
    "text",
    host,
    "127.0.0.1",
    "address of the event stream; beyond loopback it needs TLS or listen.insecure",
  ),
  listenPort: field("listen.port", "number", port, 7557, "its port; 0 = any free one"),
  listenTlsCert: field(
    "listen.tls_cert",
    "text",
    path,
    undefined,
    "PEM file of the certificate; together with listen.tls_key",
  ),
  listenTlsKey: field("listen.tls_key", "text", path, undefined, "PEM file of its key"),
  listenTlsClientCa: field(
    "listen.tls_client_ca",
    "text",
    path,
    undefined,
    "PEM file of the CA whose certificates clients must show",
  ),
  listenInsecure: field(
    "listen.insecure",
    "boolean",
    z.boolean(),
    false,
    "accept cleartext beyond loopback: everyone on the network can read the stream",
  ),
  healthHost: field(
    "health.host",
    "text",
    host,
    "127.0.0.1",
    "address of probes and metrics, plain HTTP; beyond loopback it needs health.public",
  ),
  healthPort: field("health.port", "number", port, 7558, "its port; 0 = any free one"),
  healthPublic: field(
    "health.public",
    "boolean",
    z.boolean(),
    false,
    "accept probes and scrapes from other machines",
  ),
  keysSeed: {
    ...field(
      "keys.seed",
      "text",
      z.string().min(SEED_MIN_CHARACTERS).optional(),
      undefined,
      "the fleet's secret of prefix keys, the same in every bridge and gateway; a flag shows in " +
        "process lists: prefer the file. None = the public seed, for trials",
    ),
    isSecret: true,
  },
  keysSeedFile: field(
    "keys.seed_file",
    "text",
    path,
    undefined,
    "file with the seed; not together with keys.seed",
  ),
  projectionsEngineAllowed: field(
    "projections.engine_allowed",
    "boolean",
    z.boolean(),
    false,
    "serve the ENGINE projection, which carries the engine's own block hashes",
  ),
  projectionsEngineSnapshot: field(
    "projections.engine_snapshot",
    "boolean",
    z.boolean(),
    false,
    "keep the tokens of what the GPU holds in memory (engineWordsBytes for each rank), so that ENGINE " +
      "subscribers get a snapshot; needs projections.engine_allowed",
  ),
  subscribersMax: field(
    "subscribers.max",
    "number",
    z.int().min(1).max(LIMITS.subscribersPerRank.value),
    LIMITS.subscribersPerRank.value,
    "subscribers of each rank",
  ),
  subscribersQueueBytes: field(
    "subscribers.queue_bytes",
    "number",
    z.int().min(QUEUE_MIN_BYTES).max(LIMITS.subscriberQueueBytes.value),
    LIMITS.subscriberQueueBytes.value,
    "what may wait for one subscriber before it gets a new snapshot instead",
    "bytes",
  ),
  heartbeatIntervalMs: field(
    "heartbeat.interval_ms",
    "number",
    z.int().min(HEARTBEAT_MIN_MS).max(LIMITS.heartbeatIntervalMs.value),
    LIMITS.heartbeatIntervalMs.value,
    "pause between heartbeats of the stream",
    "milliseconds",
  ),
  checkpointDirectory: field(
    "checkpoint.directory",
    "text",
    path,
    undefined,
    "existing directory for what is known of the engine, read again after a restart; it holds hash " +
      "states of prompts. None = no checkpoints",
  ),
  checkpointIntervalMs: field(
    "checkpoint.interval_ms",
    "number",
    z.int().min(CHECKPOINT_MIN_MS).max(CHECKPOINT_MAX_MS),
    LIMITS.checkpointIntervalMs.value,
    "least pause between two checkpoints of a rank",
    "milliseconds",
  ),
  logLevel: field("log.level", "text", z.enum(LOG_LEVELS), "info", "least severe line written"),
};

/** The bridge's configuration: its fields and the prefix of its variables. */
export const BRIDGE_FIELDS: ConfigDefinition<typeof bridgeFields> = {
  environmentPrefix: "KVGROUP_BRIDGE_",
  fields: bridgeFields,
};
