#!/usr/bin/env node
/** `coordinate`: one command, or an interactive shell. */
import { runMain } from "./run-main.ts";

await runMain(process.argv.slice(2));
