/**
 * What it is: the rule of what may be listened on, the same for bridge and gateway: cleartext only on
 * loopback, unless the operator says that the network is trusted.
 * Owns: nothing.
 * Refuses: other cleartext listeners (`listen_insecure`).
 * Does not do: resolve names: only "localhost" is known to be loopback.
 */
import { isIPv4, isIPv6 } from "node:net";
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

/** True for addresses that no other machine reaches. Brackets are not part of an address. */
export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === "localhost") return true;
  const mapped = /^::ffff:([0-9.]+)$/i.exec(host)?.[1] ?? host;
  if (isIPv4(mapped)) return mapped.startsWith("127.");
  return isIPv6(host) && /^(0*:)+0*1$/.test(host);
}

/** Fails with `listen_insecure` when the listener is neither loopback, nor TLS, nor consented to. */
export function checkListener(request: ListenerRequest): void {
  if (request.hasTls || request.isInsecureAllowed || isLoopback(request.host)) return;
  const { name, host } = request;
  throw new KvEventsError(
    "listen_insecure",
    `${name}.host ${host} is reachable by others and has no TLS; set ${name}.insecure to accept that`,
  );
}
