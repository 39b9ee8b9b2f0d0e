export { ConfigError } from "../config/config-error.ts";
