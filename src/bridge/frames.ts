/**
 * What it is: the first stage: one ZeroMQ multipart of vLLM's publisher → topic, sequence number,
 * payload.
 * Owns: nothing.
 * Refuses: any other number of frames, a sequence of another width, the number that replay reserves
 * for its end marker, another topic than the configured one, payloads beyond the limit. It never
 * guesses which frame is the payload.
 * Does not do: look into the payload, judge the order of batches, read replies of the replay
 * socket.
 */
import {
  LIMITS,
  ok,
  parseSequenceFrame,
  type Result,
  refuse,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";

/** One live message, as the publisher framed it. `payload` is the frame itself, not a copy. */
export interface LiveMessage {
  readonly topic: string;
  readonly sequence: SequenceNumber;
  /** msgpack; 0 … `LIMITS.payloadBytes` bytes. */
  readonly payload: Uint8Array;
}

/** What the frames are held against. */
export interface FrameOptions {
  /**
   * The publisher's whole topic; undefined or "" takes every topic. A subscription matches prefixes
   * only.
   */
  readonly topic: string | undefined;
}

/** 0xFF in all 8 bytes: the end marker of a replay (vLLM, ZmqEventPublisher.END_SEQ). */
export const RESERVED_SEQUENCE = 0xffff_ffff_ffff_ffffn;

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Reads `[topic, sequence (8 bytes, big-endian), payload]`, the same in every vLLM revision since
 * 0.9.0. Refused with frame_count, sequence_width, sequence_reserved, text_too_long (a topic beyond
 * `LIMITS.textBytes`) or topic_mismatch. The payload's size is decode's to judge: a batch that is too large
 * still has its number, so the gate must see it.
 */
export function parseFrames(
  frames: readonly Uint8Array[],
  options: FrameOptions,
): Result<LiveMessage> {
  const [topicFrame, sequenceFrame, payload] = frames;
  if (
    frames.length !== 3 ||
    topicFrame === undefined ||
    sequenceFrame === undefined ||
    payload === undefined
  ) {
    return refuse("frame_count", "frames");
  }
  const sequence = parseSequenceFrame(sequenceFrame);
  if (sequence === undefined) return refuse("sequence_width", "frames[1]");
  if (sequence === RESERVED_SEQUENCE) return refuse("sequence_reserved", "frames[1]");
  const topic = parseTopic(topicFrame, options, "frames[0]");
  return topic.ok ? ok({ topic: topic.value, sequence, payload }) : topic;
}

/** The topic of a frame; refused with text_too_long or topic_mismatch under `path`. */
export function parseTopic(frame: Uint8Array, options: FrameOptions, path: string): Result<string> {
  if (frame.length > LIMITS.textBytes.value) return refuse("text_too_long", path);
  const topic = frame.length === 0 ? "" : UTF8.decode(frame);
  const isForeign = options.topic !== undefined && options.topic !== "" && topic !== options.topic;
  return isForeign ? refuse("topic_mismatch", path) : ok(topic);
}
