/**
 * What it is: the shipped reuse rules and prefix index, dressed as the dull twin's interfaces want them.
 * Owns: one prefix index and the names of its media.
 * Refuses: nothing.
 * Does not do: compute any answer itself.
 */
import { createHash } from "node:crypto";
import {
  ALL,
  closeGroup,
  compileLayout,
  computeReuse,
  EndRuns,
  PrefixIndex,
  type RankHandle,
  type RankLayout,
  ScoreBuffer,
} from "../../src/prefix-index/dist/index.js";
import { type ComparableIndex, type KeyRun, scoringMedium } from "./dull-index.ts";
import type { ReuseFunction } from "./dull-reuse.ts";
import { Dice } from "./random-caches.ts";

const runs = new EndRuns();
const dice = new Dice(7);

/** The shipped rules as a function of end sets, which are cut into runs in many ways. */
export const fastReuse: ReuseFunction = (layout, promptTokens, ends) => {
  const compiled = compileLayout(layout);
  runs.restart();
  for (const [group, set] of ends.entries()) {
    runs.open(group);
    addRuns([...set].sort((left, right) => left - right));
    closeGroup(compiled, group, runs);
  }
  const out = { reusableTokens: 0, limitingGroupId: -1 };
  computeReuse(compiled, promptTokens, runs, out);
  return out.reusableTokens;
};

/**
 * Cuts ends into progressions: the longest of a random step from each end that is left, or a shorter
 * one; in order or, now and then, shuffled.
 */
function addRuns(ends: readonly number[]): void {
  const left = new Set(ends);
  const found: [number, number, number][] = [];
  const isFinest = dice.chance(0.5);
  for (const first of ends) {
    if (!left.delete(first)) continue;
    const next = [...left].find((end) => end > first);
    const step = isFinest && next !== undefined ? next - first : dice.pick([1, 2, 4, 8, 16, 6, 12]);
    let last = first;
    while (left.has(last + step) && dice.chance(0.95)) {
      last += step;
      left.delete(last);
    }
    found.push([first, last, step]);
  }
  if (dice.chance(0.2)) found.sort(() => dice.next() - 0.5);
  for (const [first, last, step] of found) runs.add(first, last, step);
}

/** Operations between two audits: an audit reads the whole index. */
const AUDIT_EVERY = 16;

/** The shipped index; it audits itself as it goes. */
export class FastIndex implements ComparableIndex {
  private readonly index = new PrefixIndex({ maxNodes: 100_000, maxEntriesPerRank: 100_000 });
  private readonly handles: RankHandle[] = [];
  private operations = 0;
  private readonly scores = new ScoreBuffer();

  addRank(layout: RankLayout): number {
    this.handles.push(this.index.addRank(layout));
    return this.handles.length - 1;
  }

  setLayout(rank: number, layout: RankLayout): void {
    this.index.setLayout(this.handle(rank), layout);
    this.auditSometimes();
  }

  retireRank(rank: number): void {
    this.index.retireRank(this.handle(rank));
    this.auditSometimes();
  }

  store(rank: number, groupId: number, medium: string, key: string, endTokens: number): void {
    this.index.storeRun(this.handle(rank), groupId, mediumId(medium), keyOf(key), endTokens, 1);
    this.auditSometimes();
  }

  storeRun(rank: number, groupId: number, medium: string, run: KeyRun): void {
    const keys = Buffer.concat(run.keys.map(keyOf));
    const { firstEndTokens, stepTokens } = run;
    const parent = run.parent === undefined ? undefined : keyOf(run.parent);
    const handle = this.handle(rank);
    this.index.storeRun(
      handle,
      groupId,
      mediumId(medium),
      keys,
      firstEndTokens,
      stepTokens,
      parent,
    );
    this.auditSometimes();
  }

  remove(rank: number, groupId: number, medium: string, key: string): void {
    if (!this.index.isLive(this.handle(rank))) return;
    this.index.removeKeys(this.handle(rank), groupId, mediumId(medium), keyOf(key));
    this.auditSometimes();
  }

  clear(rank: number, groupId?: number, medium?: string): void {
    const where = medium === undefined ? ALL : mediumId(medium);
    this.index.clear(this.handle(rank), groupId ?? ALL, where);
    this.auditSometimes();
  }

  score(
    promptKeyAt: (positionTokens: number) => string,
    promptTokens: number,
  ): ReadonlyMap<number, number> {
    const reader = {
      keyLow: 0,
      keyHigh: 0,
      seek(positionTokens: number): void {
        const bytes = Buffer.from(keyOf(promptKeyAt(positionTokens)));
        this.keyLow = bytes.readUInt32LE(0);
        this.keyHigh = bytes.readUInt32LE(4);
      },
    };
    this.index.score(reader, promptTokens, this.scores);
    const answers = new Map<number, number>();
    for (let line = 0; line < this.scores.count; line += 1) {
      const rank = this.handles.indexOf(this.scores.rankAt(line));
      answers.set(rank, this.scores.reusableTokensAt(line));
    }
    return answers;
  }

  private auditSometimes(): void {
    this.operations += 1;
    if (this.operations % AUDIT_EVERY === 0) this.index.audit();
  }

  private handle(rank: number): RankHandle {
    const handle = this.handles[rank];
    if (handle === undefined) throw new RangeError("no such rank");
    return handle;
  }
}

function mediumId(medium: string): number {
  return medium === scoringMedium ? 0 : 1;
}

const keys = new Map<string, Uint8Array>();

function keyOf(text: string): Uint8Array {
  let key = keys.get(text);
  if (key === undefined) {
    key = createHash("sha256").update(text).digest().subarray(0, 8);
    keys.set(text, key);
  }
  return key;
}
