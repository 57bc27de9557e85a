export const BENCHES: readonly string[];
export function chosenBenches(names: readonly string[]): readonly string[];
