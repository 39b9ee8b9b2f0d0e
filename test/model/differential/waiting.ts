/** Random operations: a caller waits during another operation. */
import fc from "fast-check";
import { both, compare, outcome, sides, told } from "../pair.ts";
import { crowd, spec, usual } from "../vocabulary.ts";
import { keep } from "./claiming.ts";
import { operation, some } from "./operation.ts";
import { queue } from "./queues.ts";
import { change, settle } from "./settling.ts";

/** A caller waits, then units are added or settled. A caller with a reason to wake up wakes up at once. */
operation(
  "wait",
  2,
  0.2,
  fc.record({
    for: fc.constantFrom("work", "messages", "units"),
    spec,
    queue,
    names: fc.array(usual, { minLength: 1, maxLength: 2 }),
    then: fc.oneof(
      fc.record({ add: usual }),
      fc.record({ settle: fc.array(change, { minLength: 1, maxLength: 2 }) }),
    ),
  }),
  async (pair, { for: what, spec, queue, names, then }) => {
    pair.draw.value = 0;
    // the wait ends by its signal, not by its deadline: at a deadline, a store may or may not read a last time
    const end = new AbortController();
    const options = { waitMs: 50, signal: end.signal };
    const asking = sides(pair).map(({ engine, ns }) => {
      const answer = outcome(
        what === "work"
          ? engine.requestAttempts(ns, { worker: crowd, workSpecs: [spec], ...options, lifetimeMs: 1000 })
          : what === "units"
            ? engine.awaitWorkUnits(ns, spec, names, options)
            : engine.takeMessages(ns, queue, { ...options, max: 1 }).then(told),
      );
      const waiting = { engine, answer, over: false };
      const ended = (): void => {
        waiting.over = true;
      };
      answer.then(ended, ended);
      return waiting;
    });
    for (const one of asking) await until(() => one.over || one.engine.waiting > 0);
    // `engine.waiting` counts a wait before its first read has ended
    for (let i = 0; i < 5; i++) await turn();
    if ("add" in then)
      await both(pair, ({ engine, ns }) =>
        engine.addWorkUnits(ns, spec, [{ name: then.add, queues: [queue] }]),
      );
    else await settle(pair, then.settle);
    const [memory, other] = asking;
    if (memory === undefined || other === undefined) throw new Error("unreachable");
    for (let i = 0; i < 20 && !memory.over; i++) await turn();
    if (memory.over) await until(() => other.over);
    else end.abort();
    const [expected, got] = [await memory.answer, await other.answer];
    compare(pair, got, expected);
    if (what === "work") keep(pair, expected);
    return some(expected);
  },
);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error("waited for ten seconds in vain");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
