// What it is: a publisher as a process of its own, so that a test can kill, stop and restart it.
// It binds a PUB socket at argv[2], prints "bound", and sends ["kv", sequence, argv[3]] every few milliseconds,
// from sequence 0 on, until it is killed. A port that its killed predecessor still holds is tried again.
import { createRequire } from "node:module";
import { join } from "node:path";

// Resolved as the bridge would: the dependency is declared there.
const requireAsBridge = createRequire(join(import.meta.dirname, "../../src/bridge/package.json"));
const { Publisher } = requireAsBridge("zeromq");
const [, , endpoint, name] = process.argv;
const publisher = new Publisher({ linger: 0 });

async function bind() {
  for (;;) {
    try {
      await publisher.bind(endpoint);
      return;
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

await bind();
console.log("bound");
let sent = 0n;
setInterval(() => {
  const sequence = Buffer.alloc(8);
  sequence.writeBigUInt64BE(sent++);
  void publisher.send(["kv", sequence, name]);
}, 2);
