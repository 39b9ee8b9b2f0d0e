/**
 * Runs a property over histories of plain data: fixed seeds, then fresh ones. A failure is made shorter and printed with
 * the one command that repeats it.
 */
import fc from "fast-check";

export interface RandomTest<Step> {
  /** The beginning of the names of the environment variables: `DIFFERENTIAL` reads `DIFFERENTIAL_RUNS` and so on. */
  prefix: "DIFFERENTIAL" | "MODEL";
  /** The file of the test and the name of the test in it, for the command. */
  file: string;
  name: string;
  histories: fc.Arbitrary<Step[]>;
  /** Throws when something is wrong. Must not depend on what ran before it. */
  run: (history: readonly Step[]) => Promise<void>;
  /** Histories for every fixed seed, and with a fresh one. */
  runs: { fixed: number; fresh: number };
}

const fixedSeeds = [1, 2, 3];
/** A failing history is made shorter for this long at most. */
const shorteningMs = 20_000;

export async function checkRandom<Step>(test: RandomTest<Step>): Promise<void> {
  const variable = (name: string): string | undefined => process.env[`${test.prefix}_${name}`];
  const seed = variable("SEED");
  const runs = variable("RUNS");
  if (seed !== undefined)
    return check(test, Number(seed), runs === undefined ? test.runs.fresh : Number(runs), variable("PATH"));
  if (runs === undefined) for (const fixed of fixedSeeds) await check(test, fixed, test.runs.fixed);
  await check(test, freshSeed(), runs === undefined ? test.runs.fresh : Number(runs));
}

const freshSeed = (): number => Math.floor(Math.random() * 2 ** 31);

async function check<Step>(
  test: RandomTest<Step>,
  seed: number,
  numRuns: number,
  path?: string,
): Promise<void> {
  if (numRuns === 0) return;
  const property = fc.asyncProperty(test.histories, test.run);
  const details = await fc.check(property, {
    seed,
    numRuns,
    endOnFailure: true,
    ...(path !== undefined && { path }),
  });
  if (!details.failed) return;
  const [failing] = details.counterexample as [Step[]];
  const { history, error } = await shorten(failing, details.errorInstance, test.run);
  const command = [
    `${test.prefix}_SEED=${details.seed} ${test.prefix}_PATH=${details.counterexamplePath}`,
    `npx vitest run ${test.file} -t ${JSON.stringify(test.name)}`,
  ].join(" ");
  throw new Error(
    [
      `${history.length} steps of ${failing.length} are left:`,
      ...history.map((step) => `  ${JSON.stringify(step)},`),
      "",
      `Repeat it: ${command}`,
      "",
      error instanceof Error ? error.message : String(error),
    ].join("\n"),
    { cause: error },
  );
}

/** Leaves out pieces of the history, ever smaller ones, as long as what is left fails. */
async function shorten<Step>(
  failing: readonly Step[],
  first: unknown,
  run: RandomTest<Step>["run"],
): Promise<{ history: readonly Step[]; error: unknown }> {
  const until = performance.now() + shorteningMs;
  let history = failing;
  let error = first;
  for (let size = Math.ceil(history.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < history.length && performance.now() < until;) {
      const shorter = [...history.slice(0, at), ...history.slice(at + size)];
      const failed = await run(shorter).then(
        () => null,
        (reason: unknown) => ({ reason }),
      );
      if (failed === null) at += size;
      else {
        history = shorter;
        error = failed.reason;
      }
    }
  }
  return { history, error };
}
