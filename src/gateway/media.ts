/**
 * What it is: the caches of one rank by name: (medium, locality, ownership) interned as small
 * numbers.
 * Owns: the names of the current view. Invariants: 0 is the rank's own GPU and nothing else;
 * every other triple has its own number below `LIMITS.mediaPerRank`.
 * Refuses: triples beyond the bound (undefined; the caller drops the store and counts it).
 * Does not do: give a medium a meaning. Names are an open set and are compared as they are.
 */
import { LIMITS } from "@kv-group-bridge/protocol";

/** The medium id of a rank's own GPU. */
export const GPU_MEDIUM_ID = 0;

/** Where a block is, as an event names it. */
export interface MediumNames {
  readonly medium: string;
  readonly locality: string;
  readonly ownership: string;
}

/** Interned media of one rank. */
export class MediaTable {
  private readonly ids = new Map<string, number>();
  private readonly names: string[] = ["GPU"];

  /** The id of a store's medium; undefined at the bound. */
  intern(event: MediumNames): number | undefined {
    const known = this.find(event);
    if (known !== undefined) return known;
    if (this.names.length >= LIMITS.mediaPerRank.value) return undefined;
    const id = this.names.length;
    this.names.push(mediumName(event.medium));
    this.ids.set(tripleName(event), id);
    return id;
  }

  /** The id if the medium is known; undefined = nothing was ever stored there. */
  find(event: MediumNames): number | undefined {
    return isOwnGpu(event) ? GPU_MEDIUM_ID : this.ids.get(tripleName(event));
  }

  /** Every id of a medium's name, whatever locality and ownership; "" is GPU. */
  idsNamed(medium: string): readonly number[] {
    const name = mediumName(medium);
    const found: number[] = [];
    for (let id = 0; id < this.names.length; id++) if (this.names[id] === name) found.push(id);
    return found;
  }

  /** Forgets all but the GPU. */
  reset(): void {
    this.ids.clear();
    this.names.length = 1;
  }
}

function isOwnGpu(event: MediumNames): boolean {
  return (
    (event.medium === "" || event.medium === "GPU") &&
    (event.locality === "" || event.locality === "LOCAL") &&
    event.ownership === ""
  );
}

function mediumName(medium: string): string {
  return medium === "" ? "GPU" : medium;
}

function tripleName(event: MediumNames): string {
  const locality = event.locality === "" ? "LOCAL" : event.locality;
  return JSON.stringify([mediumName(event.medium), locality, event.ownership]);
}
