/**
 * What it is: the public names of the gateway package.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: export the stages inside.
 */
export {
  ANSWER_REASONS,
  type AnswerReason,
  type AnswerState,
  LAYOUT_REASONS,
  type LayoutReason,
  type UnseenGroupPolicy,
} from "./answer.ts";
export { AnswerBuffer, type RankAnswer } from "./answer-buffer.ts";
export {
  type GatewayConfig,
  type GatewayConfigSources,
  type GatewayTls,
  gatewaySettings,
  parseGatewayConfig,
  printGatewayConfig,
} from "./config.ts";
export {
  type BridgeAddress,
  type BridgeSource,
  type BridgeTransport,
  type ClientTls,
  grpcTransport,
  type KeepaliveOptions,
  type StreamHandlers,
} from "./connect-source.ts";
export { createGateway, Gateway } from "./gateway.ts";
export type { GatewayOptions, StateListener } from "./gateway-options.ts";
export {
  type GatewayDeps,
  type GatewaySettings,
  type RunningGateway,
  runGateway,
} from "./gateway-process.ts";
export type { ListenAddress, ServerTls } from "./http-listener.ts";
export type { MultimodalItem } from "./prompt-keys.ts";
export type { Query } from "./query.ts";
export type { GroupExplanation, RankExplanation, RankStatus } from "./rank-status.ts";
export {
  SUBSCRIPTION_ERRORS,
  type SubscriptionError,
  type SubscriptionState,
} from "./subscription.ts";
export type { WorkerSettings } from "./worker.ts";
