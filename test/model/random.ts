/**
 * Runs a property over histories of plain data: with fixed seeds, then with a fresh one. A failing history is shortened and
 * printed with the command that repeats it.
 */
import fc from "fast-check";

export interface RandomTest<Step> {
  /** The prefix of the environment variables: `DIFFERENTIAL` reads `DIFFERENTIAL_RUNS` and so on. */
  prefix: "DIFFERENTIAL" | "MODEL";
  /** The file and the name of the test, for the command. */
  file: string;
  name: string;
  histories: fc.Arbitrary<Step[]>;
  /** Throws if the history fails. Must not depend on earlier runs. */
  run: (history: readonly Step[]) => Promise<void>;
  /** The number of histories for each fixed seed, and for the fresh one. */
  runs: { fixed: number; fresh: number };
}

const fixedSeeds = [1, 2, 3];
/** A failing history is shortened for at most this long. */
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

/** Removes smaller and smaller parts of the history, as long as the rest still fails. */
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
