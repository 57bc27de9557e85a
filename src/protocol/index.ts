export {
  type ConfigDefinition,
  type ConfigField,
  type ConfigFields,
  type ConfigValues,
  configField,
  configTable,
  type FieldForm,
  type FieldIssue,
  type FieldType,
  flagOf,
  flagOptions,
  variableOf,
} from "./config-field.ts";
export {
  type ConfigOrigin,
  type ConfigSources,
  configInvalid,
  type MergedConfig,
  mergeConfig,
  printConfig,
} from "./config-source.ts";
export {
  type Cursor,
  contains,
  isSameCursor,
  parseCursor,
  type ResumePoint,
  type Succession,
  succession,
} from "./cursor.ts";
export {
  type Certainty,
  type EagleBound,
  type EngineDescription,
  engineDescriptionFromWire,
  engineDescriptionToWire,
  type GroupDescription,
} from "./engine-description.ts";
export {
  ERROR_CODES,
  type ErrorCode,
  KvEventsError,
  ok,
  REFUSAL_REASONS,
  type Refusal,
  type RefusalReason,
  type Result,
  refuse,
} from "./errors.ts";
export { HashKeys } from "./hash-keys.ts";
export {
  type Digest,
  digestBytesOf,
  digestOf,
  type ExtraKeyForm,
  HASH_ALGORITHMS,
  HASH_STATES,
  type HashAlgorithm,
  type HashScheme,
  type HashSchemeStatus,
  type HashState,
  hashSchemeFromWire,
  hashSchemeToWire,
  isDigestOf,
  MAX_LORA_PATHS,
  SEED_ORIGINS,
  type SeedOrigin,
} from "./hash-scheme.ts";
export {
  type BlockHash,
  blockHashBytes,
  type DpRank,
  type Epoch,
  FIRST_SEQUENCE,
  type GroupId,
  isBlockHash,
  isUint32,
  parseByteHash,
  parseDpRank,
  parseEpoch,
  parseGroupId,
  parseIntegerHash,
  parseSequenceFrame,
  parseSequenceNumber,
  type SequenceNumber,
  sequenceBefore,
  successorOf,
} from "./ids.ts";
export {
  type ChosenSeed,
  chooseSeed,
  PUBLIC_SEED,
  SEED_MIN_CHARACTERS,
  type SeedSources,
} from "./key-seed.ts";
export { LIMITS, type Limit, type LimitName } from "./limits.ts";
export {
  checkHealthListener,
  checkListener,
  type HealthListenerRequest,
  isLoopback,
  type ListenerRequest,
} from "./listen-rule.ts";
export {
  type ItemStart,
  KEY_SCHEME_ID,
  KeyedHasher,
  type Namespace,
  PLAIN,
  PrefixState,
  STATE_WORDS,
  writeKey,
} from "./prefix-key.ts";
