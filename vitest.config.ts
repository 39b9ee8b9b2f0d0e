import { defineConfig } from "vitest/config";
import { LongFirst } from "./test/long-first.ts";
import { SkippedReporter } from "./test/skipped-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Processes rather than threads: native drivers, child processes and signals behave as they do in production.
    pool: "forks",
    // The default, one less than the cores, would be a single worker on a two-core machine.
    maxWorkers: 2,
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // how long something takes to happen is not what most tests are about, and machines are busy
    expect: { poll: { timeout: 20_000 } },
    reporters: ["default", new SkippedReporter()],
  },
});
