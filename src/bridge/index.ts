export {
  type BridgeDeps,
  type BridgeSettings,
  type RunningBridge,
  runBridge,
} from "./bridge-process.ts";
export { rankFingerprint } from "./checkpoint-fingerprint.ts";
export { type Checkpoint, checkpointFloor, readCheckpoint } from "./checkpoint-reader.ts";
export { CheckpointWriter } from "./checkpoint-writer.ts";
export { parseEngineDescription } from "./config-engine.ts";
export {
  type EngineConfig,
  type GroupConfig,
  type RemovalRule,
  UNSTATED_ENGINE,
} from "./engine-config.ts";
export { FanOut, type FanOutOptions } from "./fan-out.ts";
export type { RankRepair } from "./gate-runner.ts";
export type { RankOutput, RankView, SnapshotReader } from "./rank-output.ts";
export { RankPipeline, type RankPipelineOptions } from "./rank-pipeline.ts";
export type { ReplayHandlers, ReplayPort } from "./replay-port.ts";
export { Subscriber } from "./subscriber.ts";
export { toResponse } from "./subscriber-stream.ts";
