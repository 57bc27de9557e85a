/**
 * What it is: how a failure of libzmq is told from a bug of ours, and what it is called.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: decide what a failed socket costs.
 */
import { KvEventsError } from "@kv-group-bridge/protocol";

/** True for what zeromq.js throws: libzmq's failures carry a number; what a callback throws does not. */
export function isSocketError(error: unknown): error is Error & { readonly errno: number } {
  return error instanceof Error && "errno" in error && typeof error.errno === "number";
}

/** `engine_socket_failed` for the socket of an address. */
export function socketFailed(address: string, cause: unknown): KvEventsError {
  return new KvEventsError("engine_socket_failed", `the socket of ${address} failed`, { cause });
}
