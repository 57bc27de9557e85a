/**
 * What it is: a loopback endpoint where nobody listens.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: reserve: another process may take it.
 */
import { once } from "node:events";
import { createServer } from "node:net";

/** `tcp://127.0.0.1:port` of a port that was free a moment ago. */
export async function freeEndpoint(): Promise<string> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new TypeError("a port has a number");
  return `tcp://127.0.0.1:${address.port}`;
}
