/**
 * What it is: one ZeroMQ multipart of a replay reply, as a DEALER sees it → a batch or the end.
 * Owns: nothing.
 * Refuses: any other form than vLLM's two, a sequence of another width, the end marker's number on
 * a batch, another topic than the configured one. The form follows from the number of frames alone:
 * a topic may be as long as a sequence number.
 * Does not do: look into the payload, or judge whether the batch was asked for.
 */
import {
  ok,
  parseSequenceFrame,
  type Result,
  refuse,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";
import { type FrameOptions, parseTopic, RESERVED_SEQUENCE } from "./frames.ts";

/** One replayed batch. `payload` is the frame itself, not a copy. */
export interface ReplayedBatch {
  readonly type: "batch";
  /** Undefined where the engine's form has none: then nothing tells whose batch it is. */
  readonly topic: string | undefined;
  readonly sequence: SequenceNumber;
  readonly payload: Uint8Array;
}

/** What one message of a reply is. */
export type ReplayReply = ReplayedBatch | { readonly type: "end" };

/**
 * Reads `["", sequence, payload]` (vLLM up to 0.25.1) and `["", topic, sequence, payload]` (from
 * 0.26.0). The end is the reserved number with an empty payload; its topic is empty, and the
 * configured one is good too. Refused with frame_count (also where the first frame is not empty),
 * sequence_width, sequence_reserved, text_too_long or topic_mismatch.
 */
export function parseReplayReply(
  frames: readonly Uint8Array[],
  options: FrameOptions,
): Result<ReplayReply> {
  const [delimiter] = frames;
  const sequenceFrame = frames.at(-2);
  const payload = frames.at(-1);
  const hasTopic = frames.length === 4;
  if (
    (frames.length !== 3 && !hasTopic) ||
    delimiter?.length !== 0 ||
    sequenceFrame === undefined ||
    payload === undefined
  ) {
    return refuse("frame_count", "reply");
  }
  const sequencePath = `reply[${frames.length - 2}]`;
  const sequence = parseSequenceFrame(sequenceFrame);
  if (sequence === undefined) return refuse("sequence_width", sequencePath);
  const isReserved = sequence === RESERVED_SEQUENCE;
  if (isReserved && payload.length > 0) return refuse("sequence_reserved", sequencePath);
  const topicFrame = hasTopic ? frames[1] : undefined;
  if (topicFrame === undefined || (isReserved && topicFrame.length === 0)) {
    return ok(
      isReserved ? { type: "end" } : { type: "batch", topic: undefined, sequence, payload },
    );
  }
  const topic = parseTopic(topicFrame, options, "reply[1]");
  if (!topic.ok) return topic;
  return ok(
    isReserved ? { type: "end" } : { type: "batch", topic: topic.value, sequence, payload },
  );
}
