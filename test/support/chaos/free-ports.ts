/**
 * What it is: ports for processes that must find their place again after a restart.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: reserve: it takes them from below the range from which the system hands out ports by itself, so that
 * a connection of somebody else does not sit on one while its owner is away.
 */
import { once } from "node:events";
import { createServer } from "node:net";

const FIRST = 20_000;
const COUNT = 10_000;
const STEP = 37;
let next = (process.pid * 101) % COUNT;

/** The first of `count` neighbouring ports where nobody listened a moment ago. */
export async function freePorts(count = 1): Promise<number> {
  for (;;) {
    next = (next + STEP) % COUNT;
    const first = FIRST + next;
    const free = await Promise.all(Array.from({ length: count }, (_, i) => isFree(first + i)));
    if (free.every(Boolean)) return first;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
