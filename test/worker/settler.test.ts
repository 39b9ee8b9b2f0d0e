/** While more units are ready to run, settlements are sent together, and none waits longer than the configured time. */
import { expect, test } from "vitest";
import {
  CoordinateError,
  encodeData,
  ManualClock,
  nextTurn,
  seededRandom,
  type AttemptChange,
  type AttemptChanged,
  type Coordinate,
  type Data,
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

/** A settler without gathering, and the changes of each call; calls wait until `answer` is called. */
function sending(): { settler: Settler; calls: (readonly AttemptChange[])[]; answer: () => void } {
  const calls: (readonly AttemptChange[])[] = [];
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const settleAttempts: Coordinate["settleAttempts"] = async (_ns, changes) => {
    calls.push(changes);
    await answered;
    return changes.map(answerOf);
  };
  const outage = new Outage(new ManualClock(), seededRandom(1), silentLogger);
  return { settler: new Settler({ settleAttempts } as Coordinate, "", outage), calls, answer };
}

const mebibyte = 1024 * 1024;
const dataOf = (mebibytes: number): Data =>
  encodeData({ x: "y".repeat(mebibytes * mebibyte - `{"x":""}`.length) });
const lengthsOf = (calls: readonly (readonly AttemptChange[])[]): number[] =>
  calls.map((changes) => changes.reduce((sum, { data }) => sum + (data?.length ?? 0), 0) / mebibyte);

test("large results go in calls of at most 8 MiB, unless a single one is larger", async () => {
  const { settler, calls, answer } = sending();
  const data = [dataOf(3), dataOf(3), dataOf(3), dataOf(9), dataOf(1)];
  const all = data.map((data, n) => settler.settle([{ attempt: `a${n}`, action: "finish", data }]));
  answer();
  await Promise.all(all);
  expect(lengthsOf(calls)).toEqual([6, 3, 9, 1]);
});

test("log lines count as well", async () => {
  const { settler, calls, answer } = sending();
  const log = { first: 1, lines: [{ text: "z".repeat(5 * mebibyte) }] };
  const all = ["a", "b"].map((attempt) => settler.settle([{ attempt, action: "finish", log }]));
  answer();
  await Promise.all(all);
  expect(calls.map((changes) => changes.length)).toEqual([1, 1]);
});

test("a change that does not fit is not overtaken by a later one of the same attempt", async () => {
  const { settler, calls, answer } = sending();
  const all = [
    settler.settle([{ attempt: "a", action: "finish", data: dataOf(6) }]),
    settler.settle([{ attempt: "b", action: "renew", data: dataOf(6) }]),
    settler.settle([{ attempt: "b", action: "finish" }]),
  ];
  answer();
  await Promise.all(all);
  expect(calls.map((changes) => changes.map(({ attempt, action }) => `${attempt} ${action}`))).toEqual([
    ["a finish"],
    ["b renew", "b finish"],
  ]);
});

test("no work is claimed while 64 MiB of results are not stored", async () => {
  const { settler, answer } = sending();
  const data = dataOf(8);
  const all = Array.from({ length: 8 }, (_, n) =>
    settler.settle([{ attempt: `a${n}`, action: "finish", data }]),
  );
  expect(settler.isBehind).toBe(false);
  all.push(settler.settle([{ attempt: "last", action: "finish", data }]));
  expect(settler.isBehind).toBe(true);
  answer();
  await Promise.all(all);
  await settler.idle();
  expect(settler.isBehind).toBe(false);
});
