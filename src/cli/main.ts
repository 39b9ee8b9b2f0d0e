#!/usr/bin/env node
/** `coordinate`: one command, or an interactive shell. */
import module from "node:module";

// Node 22.8 and later keep what was compiled for the next start; it must be asked before anything else is loaded
(module as { enableCompileCache?: () => unknown }).enableCompileCache?.();

const { runMain } = await import("./run-main.ts");
await runMain(process.argv.slice(2));
