/**
 * What it is: what a bridge knows of the way in which its engine names blocks: searching, proven, not found, refuted, off.
 * Owns: the scheme, the checks that keep it honest, the adapters' paths, the memories that spans need beside their events.
 * Invariant: nothing is recomputed but in state "proven"; a contradiction ends it until the engine is another one.
 * Refuses: a proven way that a later store contradicts; counted as hash_not_reproduced and told once.
 * Does not do: place blocks (place-learner.ts does), or read paths from the engine (its caller does).
 */
import { BlockHasher, type PublishedForm } from "@kv-group-bridge/engine-hash";
import {
  type Digest,
  type ExtraKeyForm,
  type HashAlgorithm,
  type HashScheme,
  type HashSchemeStatus,
  type HashState,
  LIMITS,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import type { HashingMemory } from "./checkpoint-state.ts";
import type { Counters } from "./counters.ts";
import type { HashingConfig } from "./engine-config.ts";
import { type Found, type FoundWay, HashSearch, wholeDigest } from "./hash-search.ts";
import { hashStateText } from "./hash-state-text.ts";
import { type SearchedStore, searchedStore } from "./searched-store.ts";
import { isLocalGpu } from "./slot-table.ts";
import { showsKeys } from "./span-inputs.ts";
import { hasExtraKeys, isPlainSpan } from "./store-extras.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What a recomputer needs. */
export interface RecomputerOptions {
  readonly config: HashingConfig;
  /** Stated H; undefined = not stated. */
  readonly statedUnitTokens: number | undefined;
  readonly counters: Counters;
  readonly refuse: (reason: RefusalReason) => void;
  /** Told when the state changes, for the log; never with hashes or tokens. */
  readonly report: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** A store names an adapter whose path is not known. May be called often. */
  readonly onLoraPathWanted: ((loraName: string) => void) | undefined;
}

/** What a span can be computed with. */
export interface ProvenWay {
  readonly algorithm: HashAlgorithm;
  readonly unitTokens: number;
  readonly rootDigest: Digest | undefined;
  readonly form: PublishedForm;
  /** Undefined = none was reproduced yet: both are worth trying. */
  readonly extraKeyForm: ExtraKeyForm | undefined;
  /** Extra keys contradicted what was known of them: nothing with extra keys is computed. */
  readonly isExtraKeyFormRefuted: boolean;
}

/** One a rank. */
export class Recomputer {
  private readonly options: RecomputerOptions;
  private readonly search: HashSearch;
  private readonly hashers = new Map<string, BlockHasher>();
  private state: HashState;
  private way: FoundWay | undefined = undefined;
  private form: PublishedForm = "integer";
  private extraKeyForm: ExtraKeyForm | undefined = undefined;
  private isExtraKeyFormRefuted = false;
  private learntPaths: ReadonlyMap<string, string> = new Map();
  private readonly refutedPaths = new Map<string, string>();
  private loraPaths: ReadonlyMap<string, string>;
  /** Of those, the ones under which a published hash was reproduced: nobody else is told of the others. */
  private readonly reproducedPaths = new Map<string, string>();
  private storesSinceCheck = 0;
  private currentRevision = 1;

  constructor(options: RecomputerOptions) {
    this.options = options;
    this.search = new HashSearch(options.config);
    this.state = options.config.isRecognised ? "searching" : "off";
    this.loraPaths = options.config.loraPaths;
  }

  /** Grows whenever `status` would answer differently. */
  get revision(): number {
    return this.currentRevision;
  }

  /** What the engine description says of it. */
  get status(): HashSchemeStatus {
    return { state: this.state, scheme: this.scheme() };
  }

  /** H as proven; undefined = nothing is proven. */
  get unitTokens(): number | undefined {
    return this.state === "proven" ? this.way?.unitTokens : undefined;
  }

  /** What spans can be computed with; undefined = nothing is proven. */
  get proven(): ProvenWay | undefined {
    const { way, form, extraKeyForm, isExtraKeyFormRefuted } = this;
    if (this.state !== "proven" || way === undefined) return undefined;
    const { algorithm, unitTokens, rootDigest } = way;
    return { algorithm, unitTokens, rootDigest, form, extraKeyForm, isExtraKeyFormRefuted };
  }

  /** The hasher of an algorithm and form. */
  hasher(algorithm: HashAlgorithm, extraKeyForm: ExtraKeyForm): BlockHasher {
    const name = `${algorithm}/${extraKeyForm}`;
    let hasher = this.hashers.get(name);
    if (hasher === undefined) {
      hasher = new BlockHasher(algorithm, extraKeyForm);
      this.hashers.set(name, hasher);
    }
    return hasher;
  }

  /** A batch ends: nothing of a prompt is left in any buffer, and the next one may cost as much again. */
  endBatch(): void {
    for (const hasher of this.hashers.values()) hasher.wipe();
    this.search.endBatch();
  }

  /** The path of an adapter; asks for it when it is not known. */
  loraPath(loraName: string): string | undefined {
    const path = this.loraPaths.get(loraName);
    if (path === undefined) this.options.onLoraPathWanted?.(loraName);
    return path;
  }

  /** Paths as the engine tells them now. Stated ones win, and one that was contradicted does not come back. */
  setLoraPaths(paths: ReadonlyMap<string, string>): void {
    this.learntPaths = paths;
    this.mergePaths();
  }

  /**
   * A store: part of the search, or one of the checks. `isNeeded`: its span is recomputed anyway, which is a check of its
   * own.
   */
  see(event: StoreEvent, lookaheadTokens: number, isNeeded: boolean): void {
    if (this.state === "refuted" || this.state === "off") return;
    if (!isLocalGpu(event) || event.hashes.length === 0 || event.tokens.length === 0) return;
    if (event.loraName === undefined && event.loraId !== undefined) return;
    const path = (loraName: string): string | undefined => this.loraPath(loraName);
    const store = searchedStore(event, lookaheadTokens, path);
    if (store === undefined) return;
    if (this.way === undefined) this.seek(store);
    else if (this.way.rootDigest === undefined && event.parent === undefined) this.seekSeed(store);
    else if (!isNeeded && isPlainSpan(event)) this.check(this.way, store);
  }

  /** A hash with extra keys was reproduced; `loraName`: its adapter. */
  extraKeysReproduced(form: ExtraKeyForm, loraName: string | undefined): void {
    const path = loraName === undefined ? undefined : this.loraPaths.get(loraName);
    if (loraName !== undefined && path !== undefined && form === "tagged") {
      if (this.reproducedPaths.get(loraName) !== path) this.currentRevision += 1;
      this.reproducedPaths.set(loraName, path);
    }
    if (this.extraKeyForm === form) return;
    this.extraKeyForm = form;
    this.currentRevision += 1;
  }

  /** A store whose every input was known has a hash that is not what they give. */
  contradicted(event: StoreEvent): void {
    this.options.refuse("hash_not_reproduced");
    const { loraName } = event;
    const path = loraName === undefined ? undefined : this.loraPaths.get(loraName);
    // In the untagged form no path is hashed: another one would change nothing.
    if (loraName !== undefined && path !== undefined && this.extraKeyForm !== "untagged") {
      // The name leads to another path by now.
      this.refutedPaths.set(loraName, path);
      this.mergePaths();
      this.options.report("a LoRA adapter's path is not the one that is hashed", { loraName });
      return;
    }
    if (loraName !== undefined || hasExtraKeys(event)) {
      this.isExtraKeyFormRefuted = true;
      this.extraKeyForm = undefined;
      this.currentRevision += 1;
      this.options.report("extra keys are hashed in a way that is not known", {});
      return;
    }
    this.setState("refuted");
  }

  /** The engine is another one. */
  forget(): void {
    this.search.restart();
    this.way = undefined;
    this.extraKeyForm = undefined;
    this.isExtraKeyFormRefuted = false;
    this.refutedPaths.clear();
    this.reproducedPaths.clear();
    this.mergePaths();
    if (this.state !== "off") this.setState("searching");
  }

  /** What was found, as a value. */
  memory(): HashingMemory {
    const { state, way, form, extraKeyForm, isExtraKeyFormRefuted } = this;
    return { state, way, form, extraKeyForm, isExtraKeyFormRefuted };
  }

  /** Takes over what another process found out about the same engine. */
  restore(memory: HashingMemory): void {
    if (this.state === "off") return;
    this.way = memory.way;
    this.form = memory.form;
    this.extraKeyForm = memory.extraKeyForm;
    this.isExtraKeyFormRefuted = memory.isExtraKeyFormRefuted;
    this.state = memory.state === "off" ? "searching" : memory.state;
    this.currentRevision += 1;
  }

  private scheme(): HashScheme | undefined {
    const { way, extraKeyForm, reproducedPaths } = this;
    if (this.state !== "proven" || way === undefined) return undefined;
    // A path that was never reproduced may be wrong, and whoever hashes with it would be sure of a wrong answer.
    const loraPaths = new Map(
      [...this.loraPaths].filter(([name, path]) => reproducedPaths.get(name) === path),
    );
    const { algorithm, seedOrigin, rootDigest, unitTokens } = way;
    return { algorithm, seedOrigin, rootDigest, unitTokens, extraKeyForm, loraPaths };
  }

  private seek(store: SearchedStore): void {
    const hint = { statedTokens: this.options.statedUnitTokens };
    const { event, form } = store;
    const found =
      event.parent === undefined
        ? this.search.tryRoot(store, hint)
        : form === "bytes"
          ? this.search.tryBelow(store, hint)
          : undefined;
    if (found !== undefined) {
      this.take(found, store);
      this.form = form;
      this.setState("proven");
    } else if (this.search.isExhausted) this.setState("not_found");
  }

  /** The way is known from chains whose begin was not seen; a begin may tell the seed too. */
  private seekSeed(store: SearchedStore): void {
    const found = this.search.tryRoot(store, { statedTokens: this.way?.unitTokens });
    if (found === undefined) return;
    this.take(found, store);
    this.currentRevision += 1;
  }

  private take(found: Found, store: SearchedStore): void {
    this.way = found.way;
    if (store.extraKeyForms.length > 1) {
      this.extraKeysReproduced(found.extraKeyForm, store.event.loraName);
    }
  }

  private check(way: FoundWay, store: SearchedStore): void {
    const { event, lookaheadTokens } = store;
    const digest =
      event.parent === undefined ? way.rootDigest : wholeDigest(event.parent, way.algorithm);
    if (digest === undefined || !showsKeys(event)) return;
    if (!this.search.canCheck(way, event, lookaheadTokens)) return;
    this.storesSinceCheck += 1;
    if (this.storesSinceCheck < LIMITS.hashCheckStores.value) return;
    this.storesSinceCheck = 0;
    this.options.counters.add("hash_checks");
    if (!this.search.agrees(way, digest, store)) this.contradicted(event);
  }

  private mergePaths(): void {
    const merged = new Map([...this.learntPaths, ...this.options.config.loraPaths]);
    for (const [name, path] of this.refutedPaths)
      if (merged.get(name) === path) merged.delete(name);
    const isSame =
      merged.size === this.loraPaths.size &&
      [...merged].every(([name, path]) => this.loraPaths.get(name) === path);
    if (isSame) return;
    this.loraPaths = merged;
    this.currentRevision += 1;
  }

  private setState(state: HashState): void {
    if (state === this.state) return;
    this.state = state;
    this.currentRevision += 1;
    const { way } = this;
    const isKnown = state === "proven" && way !== undefined;
    this.options.report(`block hashes: ${hashStateText(state, this.options.config)}`, {
      reason: state,
      ...(isKnown
        ? { algorithm: way.algorithm, seedOrigin: way.seedOrigin, unitTokens: way.unitTokens }
        : {}),
    });
  }
}
