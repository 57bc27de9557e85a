// Goal: the played engine answers replay requests as vLLM 0.33 does. Method: a real DEALER on its real ROUTER.
import { expect, test } from "vitest";
import { Dealer } from "zeromq";
import { EnginePlayer } from "../../src/cli/dist/engine-player.js";
import { sequenceFrame } from "../support/wire-builder.ts";

async function replay(endpoint: string, request: readonly Uint8Array[]): Promise<Buffer[][]> {
  const dealer = new Dealer({ receiveTimeout: 2_000, linger: 0 });
  dealer.connect(endpoint);
  await dealer.send(request.map((frame) => Buffer.from(frame)));
  const replies: Buffer[][] = [];
  for (;;) {
    const frames = await dealer.receive();
    if (frames[2]?.equals(Buffer.alloc(8, 0xff)) === true && frames[3]?.length === 0) break;
    replies.push(frames);
  }
  dealer.close();
  return replies;
}

test("a replay begins where it was asked to, or at the oldest batch kept, and ends with the marker", async () => {
  const player = new EnginePlayer(3);
  const { replay: endpoint } = await player.open();
  const topic = Buffer.from("kv");
  for (let i = 0n; i < 5n; i++) {
    await player.publish([topic, sequenceFrame(i), Buffer.of(Number(i))]);
  }
  const empty = new Uint8Array(0);
  const from4 = await replay(endpoint, [empty, sequenceFrame(4n)]);
  expect(from4).toEqual([[Buffer.alloc(0), topic, Buffer.from(sequenceFrame(4n)), Buffer.of(4)]]);
  const from0 = await replay(endpoint, [empty, sequenceFrame(0n)]);
  expect(from0.map((frames) => frames[3]?.[0])).toEqual([2, 3, 4]);
  expect(await replay(endpoint, [empty, sequenceFrame(99n)])).toEqual([]);
  player.restart();
  expect(await replay(endpoint, [empty, sequenceFrame(0n)])).toEqual([]);
  await player.close();
});
