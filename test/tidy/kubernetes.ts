/**
 * What it is: the shape rules of the few Kubernetes kinds that deploy/ uses, over parsed YAML.
 * Owns: the list of kinds, their groups and their required fields.
 * Refuses: nothing; it lists problems.
 * Does not do: replace the schemas of Kubernetes; it knows what this repository uses.
 */
import { parseAllDocuments } from "yaml";

/** A parsed YAML mapping. */
export type Mapping = Readonly<Record<string, unknown>>;

/** Kind → API version, and paths that must be there. */
const KINDS: Readonly<Record<string, { readonly api: string; readonly needs: readonly string[] }>> =
  {
    StatefulSet: {
      api: "apps/v1",
      needs: ["spec.serviceName", "spec.selector.matchLabels", "spec.template.spec.containers"],
    },
    Deployment: {
      api: "apps/v1",
      needs: ["spec.selector.matchLabels", "spec.template.spec.containers"],
    },
    Service: { api: "v1", needs: ["spec.selector", "spec.ports"] },
    NetworkPolicy: {
      api: "networking.k8s.io/v1",
      needs: ["spec.podSelector", "spec.policyTypes", "spec.ingress"],
    },
    Kustomization: { api: "kustomize.config.k8s.io/v1beta1", needs: ["resources"] },
    Component: { api: "kustomize.config.k8s.io/v1alpha1", needs: ["patches"] },
  };

/** Every document of a YAML text; fails on syntax errors and duplicate keys. */
export function documentsOf(text: string): readonly Mapping[] {
  const found: Mapping[] = [];
  for (const document of parseAllDocuments(text)) {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    const value: unknown = document.toJS();
    if (!isMapping(value)) throw new RangeError("a document is no mapping");
    found.push(value);
  }
  return found;
}

/** True for mappings. */
export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What stands at a dotted path; undefined when there is nothing. */
export function at(value: unknown, path: string): unknown {
  let found: unknown = value;
  for (const key of path.split(".")) found = isMapping(found) ? found[key] : undefined;
  return found;
}

/** The mappings in the list at a path; [] when there is none. */
export function listAt(value: unknown, path: string): readonly Mapping[] {
  const found = at(value, path);
  return Array.isArray(found) ? found.filter(isMapping) : [];
}

/** The text at a path; "" when there is none. */
export function textAt(value: unknown, path: string): string {
  const found = at(value, path);
  return typeof found === "string" ? found : "";
}

/** The texts in the list at a path; [] when there is none. */
export function textsAt(value: unknown, path: string): readonly string[] {
  const found = at(value, path);
  return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
}

/** Init containers and containers of a workload. */
export function containersOf(workload: Mapping): readonly Mapping[] {
  const pod = "spec.template.spec";
  return [...listAt(workload, `${pod}.initContainers`), ...listAt(workload, `${pod}.containers`)];
}

/** What is wrong with one document. A patch is only held against kind and version. */
export function problemsOf(document: Mapping, isPatch = false): readonly string[] {
  const kind = textAt(document, "kind");
  const rule = KINDS[kind];
  if (rule === undefined) return [`unknown kind "${kind}"`];
  const problems: string[] = [];
  if (at(document, "apiVersion") !== rule.api) problems.push(`${kind} is ${rule.api}`);
  const isKustomize = kind === "Kustomization" || kind === "Component";
  const name = textAt(document, "metadata.name");
  if (!isKustomize && !/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name))
    problems.push(`name "${name}"`);
  if (isPatch) return problems;
  for (const path of rule.needs) {
    if (at(document, path) === undefined) problems.push(`${kind} ${name}: no ${path}`);
  }
  if (kind === "StatefulSet" || kind === "Deployment") problems.push(...workloadProblems(document));
  if (kind === "NetworkPolicy") problems.push(...policyProblems(document));
  if (kind === "Service") problems.push(...servicePortProblems(document));
  return problems;
}

function workloadProblems(workload: Mapping): readonly string[] {
  const name = textAt(workload, "metadata.name");
  const problems: string[] = [];
  const labels = at(workload, "spec.template.metadata.labels");
  const selector = at(workload, "spec.selector.matchLabels");
  if (!selects(selector, labels)) problems.push(`${name}: the selector does not select its pods`);
  const volumes = new Set(
    listAt(workload, "spec.template.spec.volumes").map((one) => textAt(one, "name")),
  );
  const mounted = new Set<string>();
  const ports = new Set<string>();
  for (const container of containersOf(workload)) {
    problems.push(...containerProblems(container, workload).map((text) => `${name}: ${text}`));
    for (const mount of listAt(container, "volumeMounts")) mounted.add(textAt(mount, "name"));
    for (const port of listAt(container, "ports")) {
      const key = textAt(port, "name");
      if (ports.has(key)) problems.push(`${name}: port ${key} stands twice`);
      ports.add(key);
    }
  }
  for (const volume of mounted)
    if (!volumes.has(volume)) problems.push(`${name}: no volume ${volume}`);
  for (const volume of volumes)
    if (!mounted.has(volume)) problems.push(`${name}: unused volume ${volume}`);
  return problems;
}

function containerProblems(container: Mapping, workload: Mapping): readonly string[] {
  const name = textAt(container, "name");
  const problems: string[] = [];
  if (name === "" || textAt(container, "image") === "")
    problems.push(`container "${name}" without image`);
  const ports = new Map<string, unknown>();
  for (const port of listAt(container, "ports")) {
    const portName = textAt(port, "name");
    if (!/^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$/.test(portName))
      problems.push(`port name "${portName}"`);
    if (!isPort(at(port, "containerPort"))) problems.push(`port ${portName} has no number`);
    ports.set(portName, at(port, "containerPort"));
  }
  for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
    if (at(container, probe) === undefined) problems.push(`${name}: no ${probe}`);
    else if (!ports.has(textAt(container, `${probe}.httpGet.port`))) {
      problems.push(`${name}: ${probe} asks a port that is not named`);
    }
  }
  const variables = listAt(container, "env").map((one) => textAt(one, "name"));
  if (new Set(variables).size !== variables.length)
    problems.push(`${name}: a variable stands twice`);
  for (const one of listAt(container, "env")) {
    if (typeof at(one, "value") !== "string")
      problems.push(`${name}: ${textAt(one, "name")} is no text`);
  }
  for (const path of ["resources.requests.memory", "resources.limits.memory"]) {
    if (textAt(container, path) === "") problems.push(`${name}: no ${path}`);
  }
  if (at(container, "securityContext.allowPrivilegeEscalation") !== false) {
    problems.push(`${name}: privileges may grow`);
  }
  if (at(workload, "spec.template.spec.securityContext.seccompProfile.type") !== "RuntimeDefault") {
    problems.push(`${name}: no seccomp profile`);
  }
  return problems;
}

function policyProblems(policy: Mapping): readonly string[] {
  const problems: string[] = [];
  for (const rule of listAt(policy, "spec.ingress")) {
    if (listAt(rule, "from").length === 0) problems.push("a rule lets everybody in");
    if (listAt(rule, "ports").length === 0) problems.push("a rule opens every port");
    for (const port of listAt(rule, "ports")) {
      if (!isPort(at(port, "port"))) problems.push("a rule's port has no number");
    }
  }
  return problems;
}

function servicePortProblems(service: Mapping): readonly string[] {
  return listAt(service, "spec.ports")
    .filter((port) => !isPort(at(port, "port")) || textAt(port, "targetPort") === "")
    .map(
      (port) =>
        `${textAt(service, "metadata.name")}: port ${textAt(port, "name")} needs port and targetPort`,
    );
}

function isPort(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value < 65_536;
}

/** True when every label of the selector is among the labels, and there is one at least. */
export function selects(selector: unknown, labels: unknown): boolean {
  if (!isMapping(selector) || !isMapping(labels)) return false;
  const wanted = Object.entries(selector);
  return wanted.length > 0 && wanted.every(([key, value]) => labels[key] === value);
}
