/**
 * What it is: a recorded engine on real sockets: a PUB socket for live batches, a ROUTER socket for replay, framed
 * as vLLM 0.33 frames them.
 * Owns: both sockets and the batches published so far, at most `bufferSteps` of them.
 * Refuses: replay requests of another form than `[identity, "", sequence]`: no answer, as vLLM gives none.
 * Does not do: read traces or keep time.
 *
 * The publisher is an XPUB socket: on the wire the same as PUB, but it tells when a subscriber has come, so that a
 * player need not guess when to begin. vLLM's own default buffer is 10,000 batches (KVEventsConfig.buffer_steps).
 */
import { KvEventsError } from "@kv-group-bridge/protocol";
import { Router, XPublisher } from "zeromq";

/** Where a player is reached. */
export interface PlayerEndpoints {
  readonly publish: string;
  readonly replay: string;
}

const END_SEQUENCE = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);

/** One played publisher. */
export class EnginePlayer {
  private readonly publisher = new XPublisher({ linger: 0, sendHighWaterMark: 100_000 });
  private readonly router = new Router({ linger: 0 });
  private readonly buffer: (readonly Uint8Array[])[] = [];
  private readonly bufferSteps: number;
  private replayLoop: Promise<void> | undefined = undefined;

  constructor(bufferSteps = 10_000) {
    this.bufferSteps = bufferSteps;
  }

  /** Binds both sockets on free ports of the loopback and begins to answer replay requests. */
  async open(): Promise<PlayerEndpoints> {
    await this.publisher.bind("tcp://127.0.0.1:*");
    await this.router.bind("tcp://127.0.0.1:*");
    this.replayLoop = this.answerReplays();
    const publish = this.publisher.lastEndpoint;
    const replay = this.router.lastEndpoint;
    if (publish === null || replay === null) {
      throw new KvEventsError("engine_socket_failed", "the player has no endpoint");
    }
    return { publish, replay };
  }

  /** Resolves when a subscriber's subscription has arrived. */
  async subscribed(): Promise<void> {
    for (;;) {
      const [message] = await this.publisher.receive();
      if (message?.[0] === 1) return;
    }
  }

  /** Publishes one multipart: topic, sequence (8 bytes big-endian), payload. */
  async publish(frames: readonly Uint8Array[]): Promise<void> {
    this.buffer.push(frames);
    if (this.buffer.length > this.bufferSteps) this.buffer.shift();
    await this.publisher.send([...frames].map((frame) => Buffer.from(frame)));
  }

  /** A new engine process on the same sockets: nothing to replay. */
  restart(): void {
    this.buffer.length = 0;
  }

  /** Closes both sockets. */
  async close(): Promise<void> {
    this.publisher.close();
    this.router.close();
    await this.replayLoop;
  }

  private async answerReplays(): Promise<void> {
    for await (const [identity, delimiter, start, ...rest] of this.router) {
      if (identity === undefined || start === undefined || delimiter?.length !== 0) continue;
      if (rest.length > 0) continue;
      const from = start.length === 0 ? 0n : BigInt(`0x${start.toString("hex")}`);
      for (const [topic, sequence, payload] of this.buffer) {
        if (topic === undefined || sequence === undefined || payload === undefined) continue;
        if (Buffer.from(sequence).readBigUInt64BE() < from) continue;
        await this.router.send([
          identity,
          EMPTY,
          Buffer.from(topic),
          Buffer.from(sequence),
          Buffer.from(payload),
        ]);
      }
      await this.router.send([identity, EMPTY, EMPTY, END_SEQUENCE, EMPTY]);
    }
  }
}
