#!/usr/bin/env node
/** The daemon under its own name. */
import { runDaemon } from "../daemon/index.ts";

process.exit(await runDaemon(process.argv.slice(2), process.env));
