/** While more units are ready to run, settlements are sent together, and none waits longer than the configured time. */
import { expect, test } from "vitest";
import {
  CoordinateError,
  ManualClock,
  nextTurn,
  seededRandom,
  type AttemptChange,
  type AttemptChanged,
  type Coordinate,
} from "../../src/core/index.ts";
import { silentLogger } from "../../src/worker/log.ts";
import { Outage } from "../../src/worker/outage.ts";
import { Settler } from "../../src/worker/settler.ts";

const answerOf = ({ attempt }: AttemptChange): AttemptChanged => ({
  attempt,
  changed: true,
  error: null,
  status: "finished",
  expirationTime: 0,
  outputs: 0,
  chainingErrors: [],
});

function settling(): {
  clock: ManualClock;
  calls: string[][];
  more: { ready: boolean };
  settle: (...attempts: string[]) => Promise<unknown>;
  /** Lets the first call return. The other calls return at once. */
  answer: () => void;
} {
  const clock = new ManualClock();
  const calls: string[][] = [];
  const more = { ready: true };
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const settleAttempts: Coordinate["settleAttempts"] = async (_ns, changes) => {
    if (calls.push(changes.map(({ attempt }) => attempt)) === 1) await answered;
    return changes.map(answerOf);
  };
  const outage = new Outage(clock, seededRandom(1), silentLogger);
  const verbs = { settleAttempts } as Coordinate;
  const settler = new Settler(verbs, "", outage, { clock, ms: 10, isOn: () => more.ready });
  const settle = (...attempts: string[]): Promise<unknown> =>
    settler.settle(attempts.map((attempt) => ({ attempt, action: "finish" as const })));
  return { clock, calls, more, settle, answer };
}

test("is idle only when the change that follows a refused one is stored", async () => {
  const outage = new Outage(new ManualClock(), seededRandom(1), silentLogger);
  const stored: string[] = [];
  const settleAttempts: Coordinate["settleAttempts"] = (_ns, changes) => {
    if (changes.some(({ action }) => action === "finish"))
      return Promise.reject(new CoordinateError("too_large"));
    stored.push(...changes.map(({ action }) => action));
    return Promise.resolve(changes.map(answerOf));
  };
  const settler = new Settler({ settleAttempts } as Coordinate, "", outage);
  void settler.settle([{ attempt: "a", action: "finish" }]).catch(async () => {
    // several async functions pass the refusal on
    for (let i = 0; i < 10; i++) await Promise.resolve();
    await settler.settle([{ attempt: "a", action: "fail" }]);
  });
  await settler.idle();
  expect(stored).toEqual(["fail"]);
});

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 3; turn++) await nextTurn();
};

test("while more is ready to run, a settle waits for others, up to its time", async () => {
  const { clock, calls, settle, answer } = settling();
  answer();
  const both = Promise.all([settle("a"), settle("b")]);
  await turns();
  clock.advance(9);
  await turns();
  expect(calls).toEqual([]);
  clock.advance(1);
  await both;
  expect(calls).toEqual([["a", "b"]]);
});

test("when nothing more is ready, all go at once", async () => {
  const { calls, more, settle, answer } = settling();
  answer();
  const first = settle("a");
  await turns();
  more.ready = false;
  await Promise.all([first, settle("b")]);
  expect(calls).toEqual([["a", "b"]]);
  await settle("c");
  expect(calls).toEqual([["a", "b"], ["c"]]);
});

test("what comes while a call is under way is gathered as well, and many are enough", async () => {
  const { calls, more, settle, answer } = settling();
  more.ready = false;
  const first = settle("a");
  await turns();
  more.ready = true;
  const second = settle("b");
  answer();
  await first;
  await turns();
  expect(calls).toEqual([["a"]]);
  const names = Array.from({ length: 31 }, (_, n) => `n${n}`);
  await Promise.all([second, ...names.map((name) => settle(name))]);
  expect(calls).toEqual([["a"], ["b", ...names]]);
});
