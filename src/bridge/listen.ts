/**
 * What it is: starts a listener and tells where it listens.
 * Owns: nothing.
 * Refuses: nothing; a failure is `listen_failed` with the address in its message.
 * Does not do: decide whether an address is safe to listen on (config.ts does).
 */
import type { Server } from "node:net";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { withSystemCode } from "@kv-group-bridge/runtime";

/** Where a server listens. */
export interface ListenAddress {
  /** Address as bound; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Resolves when the server listens; fails with `listen_failed`. Port 0 = any free port. */
export function listen(server: Server, at: ListenAddress): Promise<ListenAddress> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error): void => {
      const message = withSystemCode(`cannot listen on ${at.host} port ${at.port}`, cause);
      reject(new KvEventsError("listen_failed", message, { cause }));
    };
    server.once("error", onError);
    server.listen({ host: at.host, port: at.port }, () => {
      server.removeListener("error", onError);
      const bound = server.address();
      if (bound === null || typeof bound === "string") {
        reject(new KvEventsError("listen_failed", `no address for ${at.host} port ${at.port}`));
      } else {
        resolve({ host: bound.address, port: bound.port });
      }
    });
  });
}
