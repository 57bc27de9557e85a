// What it is: time of one query over a whole fleet: 65,536 tokens in, one answer a worker out, hashing included. Each prompt is
// another one and is made just before it is asked, so that memory is as cold as with real traffic.
// Run: npm run bench -- gateway-query. Answers are checked against what the workload's lists say before anything is timed.
import { FleetGateway } from "./fleet-gateway.mjs";
import { runBench, timeEach } from "./harness.mjs";
import { MapMatcher } from "./map-matcher.mjs";
import { Fleet, OnePrompt } from "./workloads/fleet.mjs";

const ALIGNMENT = { a: 1, b: 64, c: 1, d: 64 };
const YARDSTICK = "yardstick";
const WRITER_BLOCKS_PER_SECOND = 100_000;

/** Case names: subject or yardstick, shape, workers, variant. */
const CASES = {
  tiny: ["fleet w1 c", "writer w1 b", "depths w16 d"],
  quick: [
    "fleet w1 b",
    "fleet w64 b",
    "fleet w1000 b",
    "fleet w1000 a",
    "holes w1000 b",
    "depths w1000 b",
    "all w1000 b",
    "million w8 b",
    "writer w1000 b",
  ],
  full: [
    ...[1, 10, 64, 100, 1_000].flatMap((workers) => [`fleet w${workers} b`, `fleet w${workers} a`]),
    "fleet w1000 c",
    "fleet w1000 d",
    "holes w1000 b",
    "depths w1000 b",
    "all w1000 b",
    "million w8 b",
    "million w64 b",
    "writer w1000 b",
  ],
};
const YARDSTICK_CASES = {
  tiny: ["yardstick w1 b"],
  quick: ["yardstick w64 b"],
  full: ["yardstick w64 b", "yardstick w1000 b"],
};

function shapeOf(shape, workers, context) {
  const long = context.pick(256, 4_096, 4_096);
  if (shape === "depths" || shape === "all") return new OnePrompt(workers, shape, long);
  if (shape === "million")
    return new OnePrompt(workers, "all", context.pick(1_024, 65_536, 65_536));
  return new Fleet(workers);
}

/** Prompts by row, and what each is answered, where the lists say it. */
function queriesOf(work, variant, hasHoles) {
  if (work instanceof OnePrompt) {
    const { tokens } = work;
    return [{ row: "the prompt", prompt: () => tokens }];
  }
  // The last token is always computed anew.
  const whole = (blocks, promptBlocks) => {
    const most = blocks === promptBlocks ? blocks - 1 : blocks;
    return (most - (most % ALIGNMENT[variant])) * 16;
  };
  const answer = (of, promptBlocks) => (q) => {
    const { blocks, workers, holders } = of(q);
    return { tokens: whole(blocks, promptBlocks), workers, holders };
  };
  const first = answer((q) => work.firstAnswer(q), 4_096);
  const second = answer((q) => work.secondAnswer(q), 4_096);
  return [
    {
      row: "Q1, 16K held",
      prompt: (q) => work.firstQuery(q),
      answer: hasHoles ? undefined : first,
    },
    {
      row: "Q2, 64K held",
      prompt: (q) => work.secondQuery(q),
      answer: hasHoles ? undefined : second,
    },
    { row: "Q1, 10 % misses", prompt: (q) => work.mixedQuery(q) },
  ];
}

function checkAnswers(subject, { row, prompt, answer }) {
  for (let q = 0; q < 3 && answer !== undefined; q++) {
    subject.score(prompt(q));
    const [found, wanted] = [subject.summary(), answer(q)].map((value) => JSON.stringify(value));
    if (found !== wanted) throw new Error(`${row}, prompt ${q}: ${found}, not ${wanted}`);
  }
}

/** What a writer does without end: removals of W1, then everything stored anew. */
function* changesOf(work, variant) {
  for (;;) {
    yield* work.removals(variant);
    yield* work.batches(variant);
  }
}

/** Before each query the batches that came meanwhile, at WRITER_BLOCKS_PER_SECOND of the time between two queries. */
function writerOf(subject, work, variant) {
  const changes = changesOf(work, variant);
  let last = performance.now();
  return () => {
    const due = ((performance.now() - last) / 1_000) * WRITER_BLOCKS_PER_SECOND;
    last = performance.now();
    for (let blocks = 0; blocks < due; ) blocks += subject.apply([changes.next().value]);
  };
}

/** Bytes of the heap that one query leaves behind. */
function allocatedBy(subject, tokens) {
  const queries = 20;
  subject.score(tokens);
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < queries; i++) subject.score(tokens);
  return Math.max(0, process.memoryUsage().heapUsed - before) / queries;
}

await runBench(import.meta.url, {
  name: "gateway-query",
  what: "time of one query of 65,536 tokens over all workers",
  cases: (context) => [
    ...CASES[context.size],
    ...(context.hasYardstick ? YARDSTICK_CASES[context.size] : []),
  ],
  run(name, context) {
    const [shape, workersText, variant] = name.split(" ");
    const workers = Number(workersText.slice(1));
    const work = shapeOf(shape, workers, context);
    const Subject = shape === YARDSTICK ? MapMatcher : FleetGateway;
    const subject = new Subject(workers, variant);
    subject.apply(work.batches(variant));
    if (shape === "holes") subject.apply(work.holes());
    const write = shape === "writer" ? writerOf(subject, work, variant) : () => {};
    for (const query of queriesOf(work, variant, shape === "holes")) {
      checkAnswers(subject, query);
      const { samples, cpu } = timeEach({
        count: context.pick(4, 300, 2_000),
        least: context.pick(2, 10, 50),
        warmUp: context.pick(1, 5, 20),
        budgetMs: context.pick(500, 12_000, 60_000),
        // Far from those of the check, and each another one.
        prepare(i) {
          const tokens = query.prompt(i + 1_000);
          write();
          return tokens;
        },
        work: (tokens) => subject.score(tokens),
      });
      context.row(query.row, "us", samples, { cpu });
      if (shape !== "fleet") continue;
      context.row(`${query.row}: allocated`, "B", [allocatedBy(subject, query.prompt(999))]);
    }
  },
});
