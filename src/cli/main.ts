#!/usr/bin/env node
/** `coordinate COMMAND`: the commands, one file each. */
import { runDaemon } from "../daemon/index.ts";
import { runToken } from "./token.ts";

const usage = `usage: coordinate COMMAND [options]

  serve   runs the daemon; the same as coordinated
  token   makes, lists and revokes tokens for the daemon

coordinate COMMAND --help tells more.`;

const [command, ...rest] = process.argv.slice(2);
if (command === "serve") process.exit(await runDaemon(rest, process.env));
if (command === "token") process.exit(runToken(rest, process.env));
const asked = command === "help" || command === "--help";
console[asked ? "log" : "error"](
  command === undefined || asked ? usage : `coordinate: no such command ${command}\n${usage}`,
);
process.exit(asked ? 0 : 2);
