/** The version of this package, from the file that says it once. */
import { createRequire } from "node:module";

const { version: stated } = createRequire(import.meta.url)("../../package.json") as { version: string };

export const version = stated;
