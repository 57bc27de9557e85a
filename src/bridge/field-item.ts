/**
 * What it is: one message of a stream, serialised and framed once for all subscribers.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: know of subscribers.
 */
import { BinaryWriter } from "@bufbuild/protobuf/wire";

/** Field `no` of SubscribeResponse, serialised: 3 batch, 4 withdraw, 5 heartbeat, 6 engine. */
export interface FieldItem {
  readonly type: "field";
  readonly no: 3 | 4 | 5 | 6;
  /** The message with its length before it, as it stands on the wire after the field's tag. */
  readonly delimited: Uint8Array;
  /** The message alone: a view into `delimited`. */
  readonly bytes: Uint8Array;
}

/** Puts the length before the bytes once, so that no subscriber's stream has to. */
export function fieldItem(no: FieldItem["no"], bytes: Uint8Array): FieldItem {
  const delimited = new BinaryWriter().bytes(bytes).finish();
  return {
    type: "field",
    no,
    delimited,
    bytes: delimited.subarray(delimited.length - bytes.length),
  };
}
