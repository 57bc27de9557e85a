// What it is: the names of all benches; each is the file of that name in this folder.
// Owns: the list, which a test holds against the folder.
// Refuses: nothing.
// Does not do: run anything.

/** In the order of running. Those at the end have processes of their own. */
export const BENCHES = [
  "gateway-query",
  "gateway-apply",
  "bridge-ingest",
  "recompute",
  "mirror-memory",
  "prefix-key",
  "engine-hash",
  "snapshot",
  "checkpoint",
  "end-to-end",
  "recovery",
  "paused-subscriber",
];

/** The benches whose names were given, or all; throws when one does not exist. */
export function chosenBenches(names) {
  const unknown = names.filter((name) => !BENCHES.includes(name));
  if (unknown.length > 0) {
    throw new Error(`no bench ${unknown.join(", ")}; there are ${BENCHES.join(", ")}`);
  }
  return names.length > 0 ? BENCHES.filter((name) => names.includes(name)) : BENCHES;
}

/** The options of `npm run bench` and `npm run bench:compare`, for parseArgs. */
export const BENCH_OPTIONS = {
  tiny: { type: "boolean" },
  quick: { type: "boolean" },
  full: { type: "boolean" },
  only: { type: "string" },
  rounds: { type: "string" },
};
