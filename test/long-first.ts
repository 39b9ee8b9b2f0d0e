/** Runs the test files that take minutes first, so that none of them runs alone at the end. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const long = [
  "python/package",
  "dashboard/pages",
  "first-hour/first-hour",
  "postgres/wakeups",
  "postgres/differential",
  "dashboard/actions",
  "stacks/rest-postgres",
  "stacks/postgres",
  "stacks/pgbouncer",
  "daemon/daemon",
  "worker/process/crash",
  "cli/bulk",
  "sqlite/crash",
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
