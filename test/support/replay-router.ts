/**
 * What it is: an engine's replay socket that answers as a test says.
 * Owns: one ROUTER socket, and the requests that it has seen.
 * Refuses: nothing: it answers requests of any form, so that a test can judge them.
 * Does not do: keep batches.
 */
import { Router } from "zeromq";

/** Frames of one reply without the identity, as the asking DEALER will see them. */
export type Reply = readonly (Uint8Array | string)[];

/** A request as it came, without the identity. */
export interface SeenRequest {
  readonly frames: readonly Buffer[];
  /** Sends to who asked; resolves when libzmq has taken it, which may mean that it was dropped. */
  readonly send: (reply: Reply) => Promise<void>;
}

/** The socket; `answer` is called for each request, one after the other. */
export class ReplayRouter {
  readonly seen: SeenRequest[] = [];
  private readonly router: Router;
  private loop: Promise<void> | undefined;

  /** Beyond the mark a ROUTER drops; 1,000 is libzmq's default, and vLLM's before 0.33. */
  constructor(sendHighWaterMark = 1_000) {
    this.router = new Router({ linger: 0, sendHighWaterMark });
  }

  /** Binds and returns the endpoint. */
  async open(
    answer: (request: SeenRequest) => Promise<void> | void = () => {},
    address = "tcp://127.0.0.1:*",
  ): Promise<string> {
    await this.router.bind(address);
    this.loop = this.serve(answer);
    return this.router.lastEndpoint ?? "";
  }

  async close(): Promise<void> {
    this.router.close();
    await this.loop;
  }

  private async serve(answer: (request: SeenRequest) => Promise<void> | void): Promise<void> {
    for await (const [identity = Buffer.alloc(0), ...frames] of this.router) {
      const send = async (reply: Reply): Promise<void> => {
        if (!this.router.closed) await this.router.send([identity, ...reply.map(toBuffer)]);
      };
      const request = { frames, send };
      this.seen.push(request);
      await answer(request);
    }
  }
}

function toBuffer(frame: Uint8Array | string): Buffer {
  return typeof frame === "string"
    ? Buffer.from(frame)
    : Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
}
