/**
 * What it is: one message of a stream, serialised and framed once for all subscribers.
 * Owns: its bytes, which nobody changes.
 * Refuses: nothing.
 * Does not do: know of subscribers.
 */
import { BinaryWriter } from "@bufbuild/protobuf/wire";

/** Field of SubscribeResponse: 3 batch, 4 withdraw, 5 heartbeat, 6 engine. */
export type FieldNumber = 3 | 4 | 5 | 6;

/** Many are kept for long, so the message alone is a view that is made when it is asked for. */
export class FieldItem {
  readonly type = "field";
  readonly no: FieldNumber;
  /** The message with its length before it, as it stands on the wire after the field's tag. */
  readonly delimited: Uint8Array;
  private readonly prefixBytes: number;

  constructor(no: FieldNumber, message: Uint8Array) {
    this.no = no;
    // The length is put before the bytes once, so that no subscriber's stream has to.
    this.delimited = new BinaryWriter().bytes(message).finish();
    this.prefixBytes = this.delimited.length - message.length;
  }

  /** The message alone: a view into `delimited`. */
  get bytes(): Uint8Array {
    return this.delimited.subarray(this.prefixBytes);
  }
}
