// What it is: the public names of workload W1.
// Owns: nothing.
// Refuses: nothing.
// Does not do: anything.
export { BLOCK_TOKENS, Chain, Draws, fmix32, KEY_SEED, keysOf, SEED, tokenOf } from "./chain.mjs";
export { CHECKS, check } from "./fleet-checks.mjs";
export { Fleet, LONG_BLOCKS, PROMPT_TOKENS } from "./fleet-lists.mjs";
export { OnePrompt } from "./one-prompt.mjs";
export { layoutOf, VARIANTS } from "./variants.mjs";
