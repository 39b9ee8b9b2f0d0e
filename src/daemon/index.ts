export {
  ConfigError,
  configOf,
  daemonSettings as settings,
  readConfig,
  type DaemonConfig as Config,
} from "../config/index.ts";
export { startDaemon, version, type Daemon } from "./daemon.ts";
export { runDaemon } from "./main.ts";
export { createToken, listTokens, revokeToken, TokenAccess, type Grant, type TokenRow } from "./tokens.ts";
