// Goal: a reply is read by the number of its frames, whatever they hold. Method: the replies of three real
// releases, and forms that no release sends.
import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { parseReplayReply } from "../../../src/bridge/dist/replay-frames.js";
import { RECORDED_VERSIONS, replayRecording } from "../../support/replay-recording.ts";
import { sequenceFrame } from "../../support/wire-builder.ts";

const ANY = { topic: undefined };
const EMPTY = new Uint8Array(0);
const payload = Uint8Array.of(0x90);
const topic = (text: string): Uint8Array => new TextEncoder().encode(text);
const END = sequenceFrame(-1n);

function reasonOf(frames: readonly Uint8Array[], options: { topic: string | undefined } = ANY) {
  const result = parseReplayReply(frames, options);
  return result.ok ? result.value.type : `${result.error.reason} ${result.error.path}`;
}

describe.each(RECORDED_VERSIONS)("vLLM %s", (version) => {
  const recording = replayRecording(version);
  const hasTopic = version === "0.33.0";

  test("was recorded with a topic and replies of every kind", () => {
    expect(recording.topic).toBe("kv@pod-0@model");
    expect(recording.replies.map(({ messages }) => messages.length)).toEqual([
      26, 26, 26, 12, 2, 1, 1,
    ]);
  });

  test("every reply is the live batches from the start or the oldest kept, then the end", () => {
    const { live, replies } = recording;
    const kept = live.slice(-25);
    for (const { from, messages } of replies) {
      const read = messages.map((frames) => {
        const result = parseReplayReply(frames, { topic: recording.topic });
        return result.ok ? result.value : result.error;
      });
      const due = kept.filter(([, sequence]) => (sequence?.readBigUInt64BE() ?? 0n) >= from);
      expect(read).toEqual([
        ...due.map(([, sequence, bytes]) => ({
          type: "batch",
          topic: hasTopic ? recording.topic : undefined,
          sequence: sequence?.readBigUInt64BE(),
          payload: bytes,
        })),
        { type: "end" },
      ]);
    }
  });

  test("a bridge that follows another topic refuses what says its topic", () => {
    const types = new Set(
      recording.replies
        .flatMap(({ messages }) => messages)
        .map((frames) => reasonOf(frames, { topic: "kv@pod-1@model" })),
    );
    expect([...types].sort()).toEqual(
      hasTopic ? ["end", "topic_mismatch reply[1]"] : ["batch", "end"],
    );
  });
});

test("a topic as long as a sequence number is a topic, even one that looks like the end", () => {
  const read = parseReplayReply([EMPTY, topic("12345678"), sequenceFrame(3n), payload], ANY);
  expect(read).toEqual({
    ok: true,
    value: { type: "batch", topic: "12345678", sequence: 3n, payload },
  });
  expect(reasonOf([EMPTY, END, sequenceFrame(3n), payload])).toBe("batch");
  expect(reasonOf([EMPTY, END, sequenceFrame(3n), EMPTY])).toBe("batch");
});

test("a payload may be empty or as long as a sequence number, or as the end's", () => {
  for (const bytes of [EMPTY, sequenceFrame(7n), END]) {
    expect(reasonOf([EMPTY, sequenceFrame(3n), bytes])).toBe("batch");
    expect(reasonOf([EMPTY, topic("kv"), sequenceFrame(3n), bytes])).toBe("batch");
  }
});

test("the end has an empty payload, and no topic or the configured one", () => {
  expect(reasonOf([EMPTY, END, EMPTY])).toBe("end");
  expect(reasonOf([EMPTY, EMPTY, END, EMPTY])).toBe("end");
  expect(reasonOf([EMPTY, EMPTY, END, EMPTY], { topic: "kv" })).toBe("end");
  expect(reasonOf([EMPTY, topic("kv"), END, EMPTY], { topic: "kv" })).toBe("end");
  expect(reasonOf([EMPTY, topic("other"), END, EMPTY], { topic: "kv" })).toBe(
    "topic_mismatch reply[1]",
  );
  expect(reasonOf([EMPTY, END, payload])).toBe("sequence_reserved reply[1]");
  expect(reasonOf([EMPTY, EMPTY, END, payload])).toBe("sequence_reserved reply[2]");
});

test("the number before the end's is a batch", () => {
  expect(reasonOf([EMPTY, sequenceFrame(-2n), EMPTY])).toBe("batch");
});

test.each([0, 1, 2, 5, 6])("a reply of %i frames is refused, whatever they hold", (count) => {
  expect(reasonOf(Array.from({ length: count }, () => EMPTY))).toBe("frame_count reply");
  expect(reasonOf([EMPTY, ...Array(count).fill(END)].slice(0, count))).toBe("frame_count reply");
});

test("a first frame with content is no delimiter: a live message is no reply", () => {
  expect(reasonOf([topic("kv"), sequenceFrame(1n), payload])).toBe("frame_count reply");
  expect(reasonOf([topic("id"), topic("kv"), sequenceFrame(1n), payload])).toBe(
    "frame_count reply",
  );
});

test.each([0, 4, 7, 9])("a sequence of %i bytes is refused in both forms", (size) => {
  const bytes = new Uint8Array(size);
  expect(reasonOf([EMPTY, bytes, payload])).toBe("sequence_width reply[1]");
  expect(reasonOf([EMPTY, topic("kv"), bytes, payload])).toBe("sequence_width reply[2]");
});

test("a configured topic matches whole; an empty one takes every topic", () => {
  const read = (name: string, wanted: string) =>
    reasonOf([EMPTY, topic(name), sequenceFrame(0n), payload], { topic: wanted });
  expect(read("kv", "kv")).toBe("batch");
  expect(read("kv-other", "kv")).toBe("topic_mismatch reply[1]");
  expect(read("", "kv")).toBe("topic_mismatch reply[1]");
  expect(read("anything", "")).toBe("batch");
});

test("a topic at the limit of text is read, one byte more is refused", () => {
  const read = (size: number) =>
    reasonOf([EMPTY, new Uint8Array(size).fill(0x61), sequenceFrame(0n), payload]);
  expect(read(LIMITS.textBytes.value)).toBe("batch");
  expect(read(LIMITS.textBytes.value + 1)).toBe("text_too_long reply[1]");
});
