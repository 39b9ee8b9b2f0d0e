/** The daemon's settings, under the names that it calls them by. */
export {
  configOf,
  ConfigError,
  daemonSettings as settings,
  help,
  readConfig,
  type DaemonConfig as Config,
} from "../config/index.ts";
