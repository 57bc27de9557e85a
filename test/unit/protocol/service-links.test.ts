/**
 * What it is: tests of telling Kubernetes' own variables from an operator's.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: merge.
 */
import { expect, test } from "vitest";
import { isServiceLink } from "../../../src/protocol/dist/service-links.js";

/** What a pod sees of a Service "kvgroup-bridge" with one named port. */
const linked = {
  KVGROUP_BRIDGE_SERVICE_HOST: "10.0.0.1",
  KVGROUP_BRIDGE_SERVICE_PORT: "7557",
  KVGROUP_BRIDGE_SERVICE_PORT_STREAM: "7557",
  KVGROUP_BRIDGE_PORT: "tcp://10.0.0.1:7557",
  KVGROUP_BRIDGE_PORT_7557_TCP: "tcp://10.0.0.1:7557",
  KVGROUP_BRIDGE_PORT_7557_TCP_PROTO: "tcp",
  KVGROUP_BRIDGE_PORT_7557_TCP_PORT: "7557",
  KVGROUP_BRIDGE_PORT_7557_TCP_ADDR: "10.0.0.1",
};

test.each(Object.keys(linked))("%s is a link", (variable) => {
  expect(isServiceLink(variable, linked)).toBe(true);
});

test("without the Service's own host, nothing is a link: a typing mistake stays one", () => {
  const alone = { ...linked, KVGROUP_BRIDGE_SERVICE_HOST: undefined };
  for (const variable of Object.keys(linked)) expect(isServiceLink(variable, alone)).toBe(false);
});

test("other variables of the prefix are an operator's, also beside a Service", () => {
  for (const variable of [
    "KVGROUP_BRIDGE_LISTEN_PORT",
    "KVGROUP_BRIDGE_LOG_LEVEL",
    "KVGROUP_BRIDGE_PORTS",
  ]) {
    expect(isServiceLink(variable, { ...linked, [variable]: "1" })).toBe(false);
  }
});

// A Service "kvgroup-bridge-health" makes KVGROUP_BRIDGE_HEALTH_PORT, which is a name of ours too.
test("where a link has the name of a value of ours, its form decides", () => {
  const host = { KVGROUP_BRIDGE_HEALTH_SERVICE_HOST: "10.0.0.2" };
  const variable = "KVGROUP_BRIDGE_HEALTH_PORT";
  expect(isServiceLink(variable, { ...host, [variable]: "tcp://10.0.0.2:80" })).toBe(true);
  expect(isServiceLink(variable, { ...host, [variable]: "7558" })).toBe(false);
});
