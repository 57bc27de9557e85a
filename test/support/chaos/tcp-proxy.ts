/**
 * What it is: a TCP proxy on the loopback that can fail as networks do.
 * Owns: its listener and both sides of every connection.
 * Refuses: nothing.
 * Does not do: look at bytes, or count time.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  isSwallowed: boolean;
}

/** Forwards `port` → target. All ways to fail keep both sockets open, but `cut`. */
export class TcpProxy {
  readonly port: number;
  private readonly server: Server;
  private readonly pairs = new Set<Pair>();
  private isStalled = false;

  private constructor(server: Server, targetPort: number) {
    this.server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on("connection", (near) => this.join(near, targetPort));
  }

  /** Listens on a free port. */
  static async open(targetPort: number): Promise<TcpProxy> {
    const server = createServer({ pauseOnConnect: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new TcpProxy(server, targetPort);
  }

  /** A partition: nothing passes, old and new connections alike; `resume` lets everything that waited pass. */
  stall(): void {
    this.isStalled = true;
    for (const { near, far } of this.pairs) {
      near.pause();
      far.pause();
    }
  }

  /** Ends a partition. */
  resume(): void {
    this.isStalled = false;
    for (const { near, far } of this.pairs) {
      near.resume();
      far.resume();
    }
  }

  /** The open connections lead nowhere from now on: what they carry is lost. New ones are forwarded. */
  swallow(): void {
    for (const pair of this.pairs) pair.isSwallowed = true;
  }

  /** Resets every open connection. */
  cut(): void {
    for (const { near, far } of this.pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
    this.pairs.clear();
  }

  /** Connections open now. */
  get connections(): number {
    return this.pairs.size;
  }

  /** Ends everything. */
  async close(): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    this.cut();
    await closed;
  }

  private join(near: Socket, targetPort: number): void {
    const far = connect(targetPort, "127.0.0.1");
    const pair: Pair = { near, far, isSwallowed: false };
    this.pairs.add(pair);
    this.forward(pair, near, far);
    this.forward(pair, far, near);
    if (this.isStalled) far.pause();
    else near.resume();
  }

  private forward(pair: Pair, from: Socket, to: Socket): void {
    from.setNoDelay(true);
    from.on("data", (bytes) => {
      if (pair.isSwallowed || to.write(bytes)) return;
      from.pause();
      to.once("drain", () => {
        if (!this.isStalled) from.resume();
      });
    });
    from.on("error", () => {});
    from.on("close", () => {
      if (!pair.isSwallowed) to.destroy();
      if (to.closed) this.pairs.delete(pair);
    });
  }
}
