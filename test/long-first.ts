/** Runs the test files that take longest first, so that none of them runs alone at the end. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const long = [
  "python/package",
  "dashboard/pages",
  "first-hour/first-hour",
  "postgres/wakeups",
  "dashboard/actions",
  "stacks/rest-postgres",
  "postgres/differential",
  "stacks/postgres",
  "jobs/postgres",
  "sqlite/differential",
  "daemon/daemon",
  "cli/places",
  "worker/process/crash",
  "sqlite/faults",
  "bench/bench",
  "postgres/partitions",
  "postgres/store",
  "dashboard/history",
  "worker/stacks",
  "examples/examples",
  "daemon/start",
  "sqlite/crash",
  "stacks/failure-groups",
  "stacks/pgbouncer",
  "cli/flow",
  "cli/bulk",
];

export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = long.findIndex((name) => moduleId.endsWith(`${name}.test.ts`));
      return at < 0 ? long.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
