/** The daemon's settings, under the names that the daemon uses. */
export {
  configOf,
  ConfigError,
  daemonSettings as settings,
  readConfig,
  type DaemonConfig as Config,
} from "../config/index.ts";
