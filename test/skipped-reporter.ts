/**
 * Lists the skipped tests and the reasons at the end of a run: a test that cannot run here must not look like one that passed. The
 * reason is in the title, "(skipped: …)", or the argument of `skip`. On CI, a full run in which no browser test passed is a failure.
 */
import path from "node:path";
import type { Reporter, TestCase, TestModule, TestSuite, Vitest } from "vitest/node";

/** The suffix of a test title; empty without a reason. */
export const whySkipped = (reason: string | null | undefined): string =>
  reason === null || reason === undefined || reason === "" ? "" : ` (skipped: ${reason})`;

/** A run with at least this many files is a full run. */
const manyFiles = 50;

export class SkippedReporter implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // tests excluded by a name pattern are not reported
    if (this.#vitest?.config.testNamePattern !== undefined) return;
    const groups = new Map<string, number>();
    let browser = 0;
    for (const module of modules) {
      const file = path.relative(process.cwd(), module.moduleId);
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === "passed" && file.startsWith(path.join("test", "dashboard"))) browser++;
        if (result.state !== "skipped") continue;
        const said = `${file}: ${reasonOf(test, result.note)}`;
        groups.set(said, (groups.get(said) ?? 0) + 1);
      }
    }
    const total = [...groups.values()].reduce((sum, count) => sum + count, 0);
    if (total === 0) console.log("\nSkipped: nothing.");
    else console.log(`\nSkipped: ${total} ${total === 1 ? "test" : "tests"}.`);
    for (const [said, count] of groups) console.log(`  ${said}${count > 1 ? ` (${count} tests)` : ""}`);
    if (process.env.CI === "true" && modules.length >= manyFiles && browser === 0) {
      console.error("No test of the dashboard passed: they must run on CI, in a real browser.");
      process.exitCode = 1;
    }
  }
}

/** The outermost title with a reason, or else the note of the test itself. */
function reasonOf(test: TestCase, note: string | undefined): string {
  const titles: string[] = [test.name];
  for (let at: TestSuite | TestModule = test.parent; at.type === "suite"; at = at.parent)
    titles.unshift(at.name);
  const found = titles.findIndex((title) => title.includes("(skipped: "));
  if (found >= 0) return titles.slice(0, found + 1).join(" > ");
  return `${titles.join(" > ")} (skipped: ${note ?? "no reason given"})`;
}
