#!/usr/bin/env node
/** `coordinate COMMAND`: the commands, one file each. */
import { runDaemon } from "../daemon/index.ts";

const [command, ...rest] = process.argv.slice(2);
if (command === "serve") process.exit(await runDaemon(rest, process.env));
console.error("usage: coordinate serve [options]; see coordinate serve --help");
process.exit(64);
