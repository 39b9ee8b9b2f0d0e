#!/usr/bin/env node
/** The program `coordinated`: the daemon. */
import { runDaemon } from "../daemon/index.ts";

process.exit(await runDaemon(process.argv.slice(2), process.env));
