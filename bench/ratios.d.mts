export interface BenchRow {
  readonly case: string;
  readonly row: string;
  readonly unit: string;
  readonly better: "less" | "more";
  readonly samples: number;
  readonly best?: number;
  readonly median?: number;
  readonly tail?: number;
  readonly cpu?: number;
  readonly spread?: number;
}

export interface BenchResult {
  readonly bench: string;
  readonly size: string;
  readonly rows: readonly BenchRow[];
}

export function costRatio(before: number, after: number, better: "less" | "more"): number;
export function ratioTable(
  before: readonly BenchResult[],
  after: readonly BenchResult[],
): string | undefined;
