export type SetName = "b1" | "b16" | "b64";

export function payload(first: number, count: number, hasDigests?: boolean): Uint8Array;
export function removalPayload(first: number, count: number, hasDigests?: boolean): Uint8Array;
export function payloads(name: SetName, messages?: number): readonly Uint8Array[];
export function frames(sequence: number, body: Uint8Array): readonly Uint8Array[];
export function check(messages?: number): void;
