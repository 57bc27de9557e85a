import { LIMITS } from "@kv-group-bridge/protocol";
import { expect, test } from "vitest";
import { parseFrames } from "../../../src/bridge/dist/frames.js";
import { sequenceFrame } from "../../support/wire-builder.ts";

const ANY = { topic: undefined };
const topic = (text: string): Uint8Array => new TextEncoder().encode(text);
const payload = new Uint8Array([0x90]);

test("topic, sequence and payload of a live message are told apart by place", () => {
  const result = parseFrames([topic("kv@pod@model"), sequenceFrame(7n), payload], ANY);
  expect(result).toEqual({ ok: true, value: { topic: "kv@pod@model", sequence: 7n, payload } });
});

test("an empty topic and an empty payload are good frames", () => {
  const frames = [topic(""), sequenceFrame(0n), new Uint8Array(0)];
  const result = parseFrames(frames, { topic: "" });
  expect(result).toMatchObject({ ok: true, value: { topic: "", sequence: 0n } });
});

test.each([0, 1, 2, 4])("a message of %i frames is refused, whatever they hold", (count) => {
  const frames = Array.from({ length: count }, () => sequenceFrame(1n));
  expect(parseFrames(frames, ANY)).toEqual({
    ok: false,
    error: { reason: "frame_count", path: "frames" },
  });
});

test.each([0, 4, 7, 9])("a sequence of %i bytes is refused", (size) => {
  const result = parseFrames([topic("t"), new Uint8Array(size), payload], ANY);
  expect(result).toEqual({ ok: false, error: { reason: "sequence_width", path: "frames[1]" } });
});

test("the end marker of a replay is no live sequence, the number before it is", () => {
  const reserved = parseFrames([topic("t"), sequenceFrame(-1n), payload], ANY);
  expect(reserved).toEqual({
    ok: false,
    error: { reason: "sequence_reserved", path: "frames[1]" },
  });
  const last = parseFrames([topic("t"), sequenceFrame(-2n), payload], ANY);
  expect(last).toMatchObject({ ok: true, value: { sequence: 0xffff_ffff_ffff_fffen } });
});

test("a configured topic matches whole: the prefix that ZeroMQ subscribes to is not enough", () => {
  const read = (name: string) => {
    const result = parseFrames([topic(name), sequenceFrame(0n), payload], { topic: "kv" });
    return result.ok ? "read" : result.error.reason;
  };
  expect(read("kv")).toBe("read");
  expect(read("kv-other")).toBe("topic_mismatch");
  expect(read("")).toBe("topic_mismatch");
  expect(read("\ufeffkv")).toBe("topic_mismatch");
});

test("a topic at the limit of text is read, one byte more is refused", () => {
  const limit = LIMITS.textBytes.value;
  const read = (size: number) =>
    parseFrames([new Uint8Array(size).fill(0x61), sequenceFrame(0n), payload], ANY);
  expect(read(limit).ok).toBe(true);
  expect(read(limit + 1)).toEqual({
    ok: false,
    error: { reason: "text_too_long", path: "frames[0]" },
  });
});

test("a payload beyond its limit is passed on: decode refuses it, the gate must see its number", () => {
  const bytes = new Uint8Array(LIMITS.payloadBytes.value + 1);
  expect(parseFrames([topic(""), sequenceFrame(0n), bytes], ANY).ok).toBe(true);
});
