export { type EngineConfig, type GroupConfig, type RemovalRule, UNSTATED_ENGINE } from "./engine-config.ts";
export type { RankOutput, RankView, SnapshotReader } from "./rank-output.ts";
export { RankPipeline, type RankPipelineOptions } from "./rank-pipeline.ts";
