/**
 * What it is: bugs of the protocol, planted on purpose: a simulation that does not find them proves nothing.
 * Owns: the list of their names.
 * Refuses: nothing.
 * Does not do: change code; every bug is made by what a hook of one run does.
 */
import type { Plant } from "./plant.ts";

/** Every bug. */
export const PLANTED_BUGS = ["snapshot_without_batches"] as const;

/** One of `PLANTED_BUGS`. */
export type PlantedBug = (typeof PLANTED_BUGS)[number];

/** The hooks that make a bug; fresh for each run. */
export function plantedBug(name: PlantedBug): Plant {
  switch (name) {
    case "snapshot_without_batches":
      return {
        stream: (_stream, deliver) => {
          let isWhole = false;
          return (response) => {
            const { message } = response;
            if (message.case === "start") isWhole = false;
            if (message.case === "snapshotChunk" && message.value.isLast) isWhole = true;
            if (message.case === "batch" && !isWhole && message.value.batch !== undefined) {
              message.value.batch.events = [];
            }
            deliver(response);
          };
        },
      };
  }
}
