/** Workers use the configuration that `coordinate config` prints, from any source. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { workerSettings } from "../../src/cli/worker-settings.ts";
import { readConfiguration } from "../../src/config/index.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-worker-settings-"));
afterAll(() => rmSync(place, { recursive: true, force: true }));

let made = 0;
function read(text: string, env: Record<string, string> = {}) {
  const directory = path.join(place, String(made++));
  mkdirSync(directory);
  writeFileSync(path.join(directory, "coordinate.yaml"), text);
  writeFileSync(path.join(directory, "fork.yaml"), "num_workers: 3\n");
  return workerSettings(readConfiguration({ directory, env: { HOME: place, ...env } }), 4);
}

describe("the settings of a worker", () => {
  test.each([
    ["", {}, {}],
    ["worker: {num_workers: 2, poll_interval: 0.5}", {}, { processes: 2, pollMs: 500 }],
    ["worker: !include fork.yaml", {}, { processes: 3 }],
    ["coordinate: {fork_worker: !include fork.yaml}", {}, { processes: 3 }],
    ["worker: {num_workers: 2}", { COORDINATE_NUM_WORKERS: "7" }, { processes: 7 }],
    ["worker: {num_workers_per_core: 2}", {}, { processes: 8 }],
    ["worker: {num_workers: 0, num_workers_per_core: 0.1}", {}, { processes: 1 }],
    ["worker: {available_gb: 2.5}", {}, { availableGb: 2.5 }],
    [
      "coordinate: {worker_job_fetch: 10, default_lifetime: 1500, fork_worker: {heartbeat_interval: 15, child_lifetime: 10, stop_jobs_early: 20}}",
      {},
      {
        maxAttempts: 10,
        lifetimeMs: 1_500_000,
        heartbeatMs: 15_000,
        childLifetimeMs: 10_000,
        stopEarlyMs: 20_000,
      },
    ],
  ])("%s with %j", (text, env, settings) => {
    expect(read(text, env)).toEqual(settings);
  });

  test("a value that no worker can have is refused with its place", () => {
    expect(() => read("worker:\n  worker_job_fetch: 0\n")).toThrow(
      /coordinate\.yaml:2: worker_job_fetch: expected 1 or more, got 0/,
    );
    expect(() => read("", { COORDINATE_DEFAULT_LIFETIME: "0.5" })).toThrow(
      "COORDINATE_DEFAULT_LIFETIME: default_lifetime: expected 1 or more, got 0.5",
    );
  });
});
