export { ConfigError } from "./config-error.ts";
export {
  defaultConfiguration,
  dumpConfiguration,
  dumpWords,
  jobConfiguration,
  readConfiguration,
  shownConfiguration,
  type Configuration,
  type ConfigurationRequest,
  type DumpWord,
  type Overrides,
} from "./configuration.ts";
export { configOf, help, readConfig, type CommandLine } from "./daemon-config.ts";
export { didYouMean, nearest } from "./did-you-mean.ts";
export {
  documentLimits,
  isMapping,
  parseDocumentText,
  readDocument,
  reasonOf,
  setOwn,
  YamlDocument,
  type DocumentLimits,
  type DocumentOptions,
  type Path,
  type Location,
} from "./document.ts";
export { shown } from "./file.ts";
export { findFile, type Environment } from "./find-file.ts";
export { difference, overlay } from "./overlay.ts";
export { configurationSchema } from "./schema.ts";
export { isSecretKey, redactUrl, starred, withoutSecrets } from "./secret.ts";
export {
  daemonSettings,
  flagOf,
  sections,
  type ClientConfig,
  type DaemonConfig,
  type JobsConfig,
  type Setting,
  type WorkerConfig,
} from "./settings.ts";
