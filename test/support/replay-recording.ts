/**
 * What it is: the reader of a recorded replay: live frames of a real publisher, then real replies of its replay
 * socket.
 * Owns: nothing.
 * Refuses: nothing; a recording is a fixture.
 * Does not do: interpret frames.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** One request and every multipart that a DEALER received for it, the end marker included. */
export interface RecordedReply {
  readonly from: bigint;
  readonly messages: readonly (readonly Buffer[])[];
}

/** A recording. */
export interface ReplayRecording {
  readonly topic: string;
  /** Live multiparts in order: topic, sequence, payload. */
  readonly live: readonly (readonly Buffer[])[];
  readonly replies: readonly RecordedReply[];
}

/** Recordings by the vLLM version that made them. */
export const RECORDED_VERSIONS = ["0.14.1", "0.23.0", "0.33.0"] as const;

interface Line {
  readonly engine?: { readonly topic: string };
  readonly frame?: readonly [string, number, string];
  readonly request?: number;
  readonly reply?: readonly (readonly string[])[];
}

/** The recording of a version. */
export function replayRecording(version: (typeof RECORDED_VERSIONS)[number]): ReplayRecording {
  const path = join(import.meta.dirname, `../fixtures/traces/replay-${version}.jsonl`);
  const lines = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
  const live: Buffer[][] = [];
  const replies: RecordedReply[] = [];
  for (const { frame, request, reply } of lines) {
    if (frame !== undefined) {
      const sequence = Buffer.alloc(8);
      sequence.writeBigUInt64BE(BigInt(frame[1]));
      live.push([Buffer.from(frame[0]), sequence, Buffer.from(frame[2], "base64")]);
    }
    if (request !== undefined && reply !== undefined) {
      const messages = reply.map((frames) => frames.map((text) => Buffer.from(text, "base64")));
      replies.push({ from: BigInt(request), messages });
    }
  }
  return { topic: lines[0]?.engine?.topic ?? "", live, replies };
}
