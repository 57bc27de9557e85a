import type { BenchRow } from "./ratios.mjs";

type Round = Omit<BenchRow, "case">;

export function joinRounds(rounds: readonly (readonly Round[])[]): readonly Round[];
export function middle(sorted: readonly number[]): number;
