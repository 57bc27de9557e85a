/**
 * What it is: the rule of what may be listened on, the same for bridge and gateway: cleartext only
 * on loopback, unless the operator says that the network is trusted; the same for probes.
 * Owns: nothing.
 * Refuses: other cleartext listeners (`listen_insecure`).
 * Does not do: resolve names: only "localhost" is known to be loopback.
 */
import { configInvalid } from "./config-source.ts";
import { KvEventsError } from "./errors.ts";

/** A listener as configured. */
export interface ListenerRequest {
  /** Its group in the configuration: "listen" or "http". */
  readonly name: string;
  readonly host: string;
  readonly hasTls: boolean;
  /** The explicit consent: <name>.insecure. */
  readonly isInsecureAllowed: boolean;
}

const V4_LOOPBACK = /^(?:::ffff:)?127(?:\.[0-9]{1,3}){3}$/i;
const V6_LOOPBACK = /^(?:::(?:0{1,4}:){0,5}|(?:0{1,4}:){7})0{0,3}1$/;

/**
 * True for addresses that no other machine reaches. Brackets are not part of an address. Unusual
 * spellings of ::1 are not recognised: the safe side.
 */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === "localhost" || V4_LOOPBACK.test(host) || V6_LOOPBACK.test(host);
}

/**
 * Fails with `listen_insecure` when the listener is neither loopback, nor TLS, nor consented to.
 */
export function checkListener(request: ListenerRequest): void {
  if (request.hasTls || request.isInsecureAllowed || isLoopback(request.host)) return;
  const { name, host } = request;
  throw new KvEventsError(
    "listen_insecure",
    `${name}.host ${host} is reachable by others, without TLS; set ${name}.insecure to accept it`,
  );
}

/** The plain-HTTP listener of probes and metrics, and the main one it must not collide with. */
export interface HealthListenerRequest {
  readonly host: string;
  readonly port: number;
  /** The explicit consent: health.public. */
  readonly isPublicAllowed: boolean;
  readonly listenHost: string;
  readonly listenPort: number;
}

/**
 * Fails with `listen_insecure` when others can reach it without consent, and with `config_invalid` when it is the main
 * listener's own address. Port 0 = any free port.
 */
export function checkHealthListener(request: HealthListenerRequest): void {
  const { host, port, listenHost, listenPort } = request;
  if (!request.isPublicAllowed && !isLoopback(host)) {
    throw new KvEventsError(
      "listen_insecure",
      `health.host ${host} is reachable by others; set health.public to accept that`,
    );
  }
  if (port !== 0 && port === listenPort && host === listenHost) {
    throw configInvalid(["health.port: the same as listen.port"]);
  }
}
