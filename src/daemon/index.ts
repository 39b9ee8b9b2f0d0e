export { ConfigError, configOf, readConfig, settings, type Config } from "./config.ts";
export { startDaemon, type Daemon } from "./daemon.ts";
export { runDaemon } from "./main.ts";
export { createToken, listTokens, revokeToken, TokenAccess, type Grant, type TokenRow } from "./tokens.ts";
export { version } from "./version.ts";
