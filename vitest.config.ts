import { defineConfig } from "vitest/config";
import { LongFirst } from "./test/long-first.ts";
import { SkippedReporter } from "./test/skipped-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/temporary-files.ts",
    // Processes rather than threads: native drivers, child processes and signals behave as they do in production.
    pool: "forks",
    // More than two cores can do at once: many tests wait for processes, time and disks.
    maxWorkers: 4,
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // how long something takes to happen is not what most tests are about, and machines are busy
    expect: { poll: { timeout: 20_000 } },
    reporters: ["default", new SkippedReporter()],
  },
});
