import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { BRIDGE_FIELDS, parseBridgeConfig } from "../../src/bridge/dist/config.js";
import { parseEngineDescription } from "../../src/bridge/dist/config-engine.js";
import { parseGatewayConfig } from "../../src/gateway/dist/config.js";
import { GATEWAY_FIELDS } from "../../src/gateway/dist/config-fields.js";
import { flagOf, variableOf } from "../../src/protocol/dist/config-field.js";
import { LIMITS } from "../../src/protocol/dist/limits.js";
import {
  at,
  containersOf,
  documentsOf,
  listAt,
  type Mapping,
  problemsOf,
  selects,
  textAt,
  textsAt,
} from "./kubernetes.ts";
import { filesBelow, isInTree, readText } from "./tree.ts";

const SEED = "a seed of a fleet for tests";
const yamlFiles = filesBelow("deploy").filter((path) => path.endsWith(".yaml"));
const base = yamlFiles
  .filter((path) => path.startsWith("deploy/base/") && !path.endsWith("kustomization.yaml"))
  .flatMap((path) => documentsOf(readText(path)));
const patches = ["deploy/tls/bridge.yaml", "deploy/tls/gateway.yaml"].flatMap((path) =>
  documentsOf(readText(path)),
);

function one(documents: readonly Mapping[], kind: string, name: string): Mapping {
  const found = documents.filter(
    (document) => at(document, "kind") === kind && textAt(document, "metadata.name") === name,
  );
  const [document] = found;
  if (document === undefined || found.length > 1) throw new RangeError(`not one ${kind} ${name}`);
  return document;
}

function container(workload: Mapping, name: string): Mapping {
  const found = containersOf(workload).find((candidate) => textAt(candidate, "name") === name);
  if (found === undefined) throw new RangeError(`no container ${name}`);
  return found;
}

function environment(...containers: readonly Mapping[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const part of containers) {
    for (const variable of listAt(part, "env"))
      found[textAt(variable, "name")] = textAt(variable, "value");
  }
  return found;
}

/** The file that a container sees at a path: a key of a ConfigMap made from deploy/, or of the seed's Secret. */
function reader(workload: Mapping, name: string, folder: string): (path: string) => string {
  const mounts = listAt(container(workload, name), "volumeMounts");
  return (path) => {
    const mount = mounts.find(
      (candidate) => posix.dirname(path) === textAt(candidate, "mountPath"),
    );
    const volume = listAt(workload, "spec.template.spec.volumes").find(
      (candidate) => mount !== undefined && textAt(candidate, "name") === textAt(mount, "name"),
    );
    if (volume === undefined) throw new RangeError(`nothing is mounted at ${path}`);
    if (textAt(volume, "secret.secretName") === "kvgroup-seed") {
      expect(posix.basename(path)).toBe("seed");
      return `${SEED}\n`;
    }
    return readText(`${folder}/${posix.basename(path)}`);
  };
}

const engine = one(base, "StatefulSet", "engine");
const gateway = one(base, "Deployment", "gateway");
const bridge = container(engine, "bridge");
const vllm = container(engine, "vllm");
const bridgeConfig = parseBridgeConfig({
  environment: environment(bridge),
  flags: {},
  readFile: reader(engine, "bridge", "deploy/base"),
});
const gatewayConfig = parseGatewayConfig({
  environment: environment(container(gateway, "gateway")),
  flags: {},
  readFile: reader(gateway, "gateway", "deploy/base"),
});

function portNamed(part: Mapping, name: string): unknown {
  const port = listAt(part, "ports").find((candidate) => textAt(candidate, "name") === name);
  return at(port, "containerPort");
}

/** The JSON after --kv-events-config in a text or a list of arguments. */
function eventsConfig(text: string): Mapping {
  const json = /--kv-events-config[=\s\\]+'?(\{[^}]*\})/.exec(text)?.[1] ?? "";
  return JSON.parse(json) as Mapping;
}

describe("every manifest", () => {
  test.each(yamlFiles)("%s has the shape of its kinds", (path) => {
    const documents = documentsOf(readText(path));
    expect(documents.length).toBeGreaterThan(0);
    const isPatch = path.startsWith("deploy/tls/");
    for (const document of documents) expect(problemsOf(document, isPatch)).toEqual([]);
  });

  test("is used by a kustomization, and every file that one names is there", () => {
    const named = new Set<string>();
    for (const path of yamlFiles.filter((file) => file.endsWith("kustomization.yaml"))) {
      const [document] = documentsOf(readText(path));
      const maps = listAt(document, "configMapGenerator").flatMap((map) => textsAt(map, "files"));
      const patchFiles = listAt(document, "patches").map((patch) => textAt(patch, "path"));
      for (const name of [...textsAt(document, "resources"), ...maps, ...patchFiles]) {
        named.add(posix.join(posix.dirname(path), name));
      }
      named.add(path);
    }
    const all = filesBelow("deploy").filter((path) => /\.(?:yaml|json)$/.test(path));
    expect([...named].sort()).toEqual([...all].sort());
  });

  test("of the kinds is caught when it is broken", () => {
    const broken = (change: (text: string) => string, file: string): readonly string[] =>
      documentsOf(change(readText(file))).flatMap((document) => problemsOf(document));
    const file = "deploy/base/engine.yaml";
    expect(broken((text) => text, file)).toEqual([]);
    const changes: readonly (readonly [string, string])[] = [
      ["apiVersion: apps/v1", "apiVersion: v1"],
      ["kind: StatefulSet", "kind: StatefulSets"],
      ["serviceName: bridges", "serviceNam: bridges"],
      [
        "matchLabels:\n      app.kubernetes.io/name: engine",
        "matchLabels:\n      app.kubernetes.io/name: motor",
      ],
      ["port: bridge-health", "port: bridge-helth"],
      ["- name: seed\n              mountPath", "- name: sed\n              mountPath"],
      ["allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"],
      ['value: "true"', "value: true"],
      ["containerPort: 7557", "containerPort: 755700"],
    ];
    for (const [from, to] of changes) {
      expect(readText(file)).toContain(from);
      expect(
        broken((text) => text.replace(from, to), file),
        to,
      ).not.toEqual([]);
    }
    const open = (text: string): string =>
      text.replace(/ {4}- from:[\s\S]*?ports:/, "    - ports:");
    expect(broken(open, "deploy/base/network-policy.yaml")).not.toEqual([]);
  });

  test("selects pods that exist, by ports that they name", () => {
    for (const service of base.filter((document) => at(document, "kind") === "Service")) {
      const targets = [engine, gateway].filter((workload) =>
        selects(at(service, "spec.selector"), at(workload, "spec.template.metadata.labels")),
      );
      expect(targets).toHaveLength(1);
      const names = targets.flatMap(containersOf).flatMap((part) => listAt(part, "ports"));
      for (const port of listAt(service, "spec.ports")) {
        const target = names.find(
          (candidate) => textAt(candidate, "name") === textAt(port, "targetPort"),
        );
        expect(at(target, "containerPort")).toBe(at(port, "port"));
      }
    }
    expect(textAt(engine, "spec.serviceName")).toBe("bridges");
  });
});

describe("the bridge beside the engine", () => {
  test("is a native sidecar", () => {
    const sidecar = listAt(engine, "spec.template.spec.initContainers");
    expect(sidecar.map((part) => textAt(part, "name"))).toEqual(["bridge"]);
    expect(at(sidecar[0], "restartPolicy")).toBe("Always");
    expect(at(sidecar[0], "args")).toEqual(["bridge"]);
  });

  test("reads the endpoints and the topic that the engine is told", () => {
    const args = at(vllm, "args");
    const told = eventsConfig(Array.isArray(args) ? args.join("\n") : "");
    expect(told.enable_kv_cache_events).toBe(true);
    expect(told.publisher).toBe("zmq");
    expect(bridgeConfig.mode).toBe("connect");
    const [rank] = bridgeConfig.ranks;
    const loopback = (endpoint: unknown): string => String(endpoint).replace("*", "127.0.0.1");
    expect(String(told.endpoint)).toMatch(/^tcp:\/\/\*:/);
    expect(rank?.endpoint).toBe(loopback(told.endpoint));
    expect(rank?.replayEndpoint).toBe(loopback(told.replay_endpoint));
    expect(bridgeConfig.topic).toBe(told.topic);
  });

  test("listens where its ports and probes say", () => {
    expect(portNamed(bridge, "bridge")).toBe(bridgeConfig.listen.port);
    expect(portNamed(bridge, "bridge-health")).toBe(bridgeConfig.health.port);
    expect(bridgeConfig.listen.host).toBe("0.0.0.0");
    expect(bridgeConfig.health.host).toBe("0.0.0.0");
  });

  test("has the fleet's seed from a Secret, and an engine description that it understands", () => {
    expect(bridgeConfig.isDefaultSeed).toBe(false);
    expect(bridgeConfig.keySeed).toBe(SEED);
    const image = textAt(vllm, "image");
    const description = parseEngineDescription(JSON.parse(readText("deploy/base/engine.json")));
    expect(image).toBe(`vllm/vllm-openai:v${description.vllmVersion}`);
  });

  test("keeps checkpoints in a volume of its own that has room for an old and a new one of every rank", () => {
    const directory = bridgeConfig.checkpoint?.directory;
    const mount = listAt(bridge, "volumeMounts").find((one) => at(one, "mountPath") === directory);
    expect(at(mount, "readOnly")).toBeUndefined();
    const name = textAt(mount, "name");
    const users = containersOf(engine).filter((part) =>
      listAt(part, "volumeMounts").some((one) => at(one, "name") === name),
    );
    expect(users.map((part) => textAt(part, "name"))).toEqual(["bridge"]);
    const volume = listAt(engine, "spec.template.spec.volumes").find(
      (one) => at(one, "name") === name,
    );
    const size = /^(\d+)Gi$/.exec(textAt(volume, "emptyDir.sizeLimit"))?.[1];
    const needed = 2 * LIMITS.checkpointBytes.value * bridgeConfig.ranks.length;
    expect(Number(size) * 1024 ** 3).toBeGreaterThan(needed);
    const graceMs = Number(at(engine, "spec.template.spec.terminationGracePeriodSeconds")) * 1000;
    expect(graceMs).toBeGreaterThan(LIMITS.checkpointFinalMs.value + LIMITS.shutdownGraceMs.value);
  });

  test("runs without root and writes nothing else", () => {
    expect(at(bridge, "securityContext.runAsNonRoot")).toBe(true);
    expect(at(bridge, "securityContext.readOnlyRootFilesystem")).toBe(true);
  });
});

describe("the gateway", () => {
  test("listens where its ports and probes say", () => {
    const part = container(gateway, "gateway");
    expect(portNamed(part, "score")).toBe(gatewayConfig.listen.port);
    expect(portNamed(part, "health")).toBe(gatewayConfig.health.port);
    expect(at(gateway, "spec.template.spec.securityContext.runAsNonRoot")).toBe(true);
    expect(at(part, "securityContext.readOnlyRootFilesystem")).toBe(true);
  });

  test("has the seed of the bridges", () => {
    expect(gatewayConfig.keySeed).toBe(bridgeConfig.keySeed);
  });

  test.each(["deploy/base", "deploy/tls"])(
    "of %s follows every replica of the engine by its own name",
    (folder) => {
      const scheme = folder === "deploy/tls" ? "https" : "http";
      const replicas = Number(at(engine, "spec.replicas"));
      const service = textAt(engine, "spec.serviceName");
      const expected = Array.from({ length: replicas }, (_, index) => ({
        name: `engine-${index}`,
        url: `${scheme}://engine-${index}.${service}:${bridgeConfig.listen.port}`,
      }));
      expect(JSON.parse(readText(`${folder}/workers.json`))).toEqual(expected);
      const config = parseGatewayConfig({
        environment: environment(container(gateway, "gateway")),
        flags: {},
        readFile: reader(gateway, "gateway", folder),
      });
      expect(config.workers.map((worker) => worker.name)).toEqual(expected.map(({ name }) => name));
    },
  );
});

describe("the network policy", () => {
  const rules = (name: string): readonly Mapping[] =>
    listAt(one(base, "NetworkPolicy", name), "spec.ingress");
  const opened = (name: string): readonly unknown[] =>
    rules(name).flatMap((rule) => listAt(rule, "ports").map((port) => at(port, "port")));

  test("selects the pods it is named after", () => {
    for (const [name, workload] of [
      ["engine", engine],
      ["gateway", gateway],
    ] as const) {
      const selector = at(one(base, "NetworkPolicy", name), "spec.podSelector.matchLabels");
      expect(selects(selector, at(workload, "spec.template.metadata.labels"))).toBe(true);
    }
  });

  test("opens only ports that a container names, and none of the engine's event sockets", () => {
    for (const [name, workload] of [
      ["engine", engine],
      ["gateway", gateway],
    ] as const) {
      const ports = containersOf(workload).flatMap((part) => listAt(part, "ports"));
      const numbers = new Set(ports.map((port) => at(port, "containerPort")));
      for (const port of opened(name))
        expect(numbers.has(port), `${name} ${String(port)}`).toBe(true);
    }
    for (const endpoint of [
      bridgeConfig.ranks[0]?.endpoint,
      bridgeConfig.ranks[0]?.replayEndpoint,
    ]) {
      expect(opened("engine")).not.toContain(Number(endpoint?.split(":").at(-1)));
    }
  });

  test("opens the stream to gateways alone", () => {
    const stream = rules("engine").filter((rule) =>
      listAt(rule, "ports").some((port) => at(port, "port") === bridgeConfig.listen.port),
    );
    expect(stream).toHaveLength(1);
    const from = listAt(stream[0], "from");
    expect(from).toHaveLength(1);
    const labels = at(gateway, "spec.template.metadata.labels");
    expect(selects(at(from[0], "podSelector.matchLabels"), labels)).toBe(true);
  });
});

describe("the component with TLS", () => {
  test("turns cleartext off on both sides and mounts what it names", () => {
    const bridgePatch = one(patches, "StatefulSet", "engine");
    const gatewayPatch = one(patches, "Deployment", "gateway");
    const withTls = parseBridgeConfig({
      environment: environment(bridge, container(bridgePatch, "bridge")),
      flags: {},
      readFile: reader(engine, "bridge", "deploy/base"),
    });
    expect(withTls.listen.tlsFiles).toEqual({
      cert: "/etc/kvgroup/tls/tls.crt",
      key: "/etc/kvgroup/tls/tls.key",
      ca: "/etc/kvgroup/tls/ca.crt",
    });
    const variables = environment(
      container(gateway, "gateway"),
      container(gatewayPatch, "gateway"),
    );
    const gatewayWithTls = parseGatewayConfig({
      environment: variables,
      flags: {},
      readFile: reader(gateway, "gateway", "deploy/tls"),
    });
    expect(gatewayWithTls.listen.tlsFiles?.cert).toBe("/etc/kvgroup/tls/tls.crt");
    expect(gatewayWithTls.bridgeTlsFiles?.ca).toBe("/etc/kvgroup/tls/ca.crt");
    for (const [patch, name] of [
      [bridgePatch, "bridge"],
      [gatewayPatch, "gateway"],
    ] as const) {
      const env = environment(container(patch, name));
      expect(Object.entries(env).filter(([key]) => key.endsWith("LISTEN_INSECURE"))).toEqual([
        [`KVGROUP_${name.toUpperCase()}_LISTEN_INSECURE`, "false"],
      ]);
      expect(textAt(listAt(container(patch, name), "volumeMounts")[0], "mountPath")).toBe(
        "/etc/kvgroup/tls",
      );
    }
  });
});

describe("variables and flags that are written down", () => {
  const variables = new Set([
    ...Object.values(BRIDGE_FIELDS.fields).map((field) =>
      variableOf(BRIDGE_FIELDS.environmentPrefix, field),
    ),
    ...Object.values(GATEWAY_FIELDS.fields).map((field) =>
      variableOf(GATEWAY_FIELDS.environmentPrefix, field),
    ),
  ]);

  test.each(["README.md", ...filesBelow("deploy"), ...filesBelow("docs")])(
    "%s names only variables that exist",
    (path) => {
      for (const [name] of readText(path).matchAll(/\bKVGROUP_(?:BRIDGE|GATEWAY)_[A-Z0-9_]+/g)) {
        expect(variables.has(name), name).toBe(true);
      }
    },
  );

  test("are flags that exist, in every command of the README", () => {
    const flags = {
      bridge: new Set(Object.values(BRIDGE_FIELDS.fields).map(flagOf)),
      gateway: new Set(Object.values(GATEWAY_FIELDS.fields).map(flagOf)),
    };
    const commands = [
      ...readText("README.md").matchAll(/npx kvgroup (bridge|gateway)((?:.*\\\n)*.*)/g),
    ];
    expect(commands.length).toBeGreaterThan(1);
    for (const [, program, rest = ""] of commands) {
      const known = program === "bridge" ? flags.bridge : flags.gateway;
      for (const [, flag = ""] of rest.matchAll(/--([a-z-]+)/g))
        expect(known.has(flag), flag).toBe(true);
    }
  });

  test("are the same for vLLM in the README and in the manifest", () => {
    const args = at(vllm, "args");
    expect(eventsConfig(readText("README.md"))).toEqual(
      eventsConfig(Array.isArray(args) ? args.join("\n") : ""),
    );
  });
});

describe("the image", () => {
  const dockerfile = readText("deploy/Dockerfile");
  const workspaces = (JSON.parse(readText("package.json")) as { workspaces: string[] }).workspaces;

  test("installs and carries every workspace", () => {
    for (const workspace of workspaces) {
      expect(dockerfile).toContain(`COPY ${workspace}/package.json ${workspace}/`);
      const built = workspace === "gen" ? "gen/es" : `${workspace}/dist`;
      expect(dockerfile).toContain(`COPY --from=build /app/${built} ${built}`);
    }
  });

  test("runs no install script and takes no development dependency along", () => {
    const installs = [...dockerfile.matchAll(/^RUN npm ci.*$/gm)].map(([line]) => line);
    expect(installs).toHaveLength(2);
    for (const line of installs) expect(line).toContain("--ignore-scripts");
    const final = dockerfile.slice(dockerfile.lastIndexOf("FROM "));
    expect(final).toContain("COPY --from=modules /app ./");
    expect(dockerfile).toMatch(/^FROM manifests AS modules\nRUN npm ci --omit=dev/m);
    expect(final).not.toContain("npm ");
  });

  test("keeps a ZeroMQ library that is there, and the loader's manifest", () => {
    for (const arch of ["x64", "arm64"]) {
      expect(isInTree(`node_modules/zeromq/build/linux/${arch}/node/glibc-127-Release`)).toBe(true);
    }
    expect(isInTree("node_modules/zeromq/build/manifest.json")).toBe(true);
    expect(dockerfile).toContain("glibc-127-Release");
  });

  test("runs as a number that is not root, on the Node that package.json asks for", () => {
    const final = dockerfile.slice(dockerfile.lastIndexOf("FROM "));
    expect(final).toMatch(/^USER 1000:1000$/m);
    for (const [, image] of dockerfile.matchAll(/^FROM (\S+)/gm)) {
      if (image !== "manifests") expect(image).toBe("node:20-bookworm-slim");
    }
    expect(readText("package.json")).toContain('"node": ">=20.');
  });
});
