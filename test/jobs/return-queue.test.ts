/** Outcomes that were removed from the store are not lost when a request fails, or when its answer is lost. */
import { expect, test } from "vitest";
import { CoordinateError, Engine, override, type Clock } from "../../src/core/index.ts";
import { openJobs, type Jobs, type Outcome } from "../../src/jobs/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { fn } from "./job-worker.ts";

/** "down": the request does not arrive; "deaf": its answer does not. */
type State = "up" | "down" | "deaf";

interface Bench {
  readonly jobs: Jobs;
  /** The state of the connection when the messages of a queue are requested. */
  readonly connection: { state: (queue: string) => State };
  /** How long the queues waited before they asked again. */
  readonly pauses: number[];
  /** Puts an outcome into each of these queues, and returns the id of its job. */
  end: (...queues: string[]) => Promise<string>;
}

function bench(): Bench {
  const engine = new Engine(new MemoryStore());
  const connection: Bench["connection"] = { state: () => "up" };
  const verbs = override(engine, {
    takeMessages: async (ns, queue, options) => {
      const state = connection.state(queue);
      if (state === "down") throw new CoordinateError("unavailable");
      const messages = await engine.takeMessages(ns, queue, options);
      if (state === "deaf") throw new CoordinateError("unknown_outcome");
      return messages;
    },
  });
  const pauses: number[] = [];
  const now = Date.now();
  const clock: Clock = { now: () => now, waitUntil: async (time) => void pauses.push(time - now) };
  const jobs = openJobs(verbs, { namespace: "n", clock });
  return {
    jobs,
    connection,
    pauses,
    end: async (...returnQueues) => {
      const job = await jobs.schedule(fn, { returnQueues });
      await job.cancel();
      return job.id;
    },
  };
}

/** The first request is answered, the later ones are not. */
function firstThen(state: State): () => State {
  let asked = 0;
  return () => (asked++ === 0 ? "up" : state);
}

const idsOf = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ id }) => id);

test("take: after a failure the next one returns the outcomes that had arrived", async () => {
  const { jobs, connection, pauses, end } = bench();
  const queue = jobs.returnQueue("q");
  const ids = [await end("q"), await end("q")];
  connection.state = firstThen("down");
  await expect(queue.take(3)).rejects.toMatchObject({ code: "unavailable" });
  expect(pauses).toEqual([250, 250, 250, 250]);
  connection.state = () => "up";
  ids.push(await end("q"));
  expect(await queue.size()).toBe(3);
  expect(idsOf(await queue.take(3))).toEqual(ids);
});

test("take: the next one repeats a request whose answers were lost, and keeps what it does not need", async () => {
  const { jobs, connection, end } = bench();
  const queue = jobs.returnQueue("q");
  const ids = [await end("q"), await end("q")];
  connection.state = () => "deaf";
  await expect(queue.take(2)).rejects.toMatchObject({ code: "unknown_outcome" });
  connection.state = () => "up";
  expect(idsOf(await queue.take(1))).toEqual(ids.slice(0, 1));
  expect(idsOf(await queue.take(1))).toEqual(ids.slice(1));
});

test("drain: after a failure the next one returns all", async () => {
  const { jobs, connection, end } = bench();
  const queue = jobs.returnQueue("q");
  const ids = [await end("q"), await end("q")];
  connection.state = firstThen("deaf");
  await expect(queue.drain()).rejects.toMatchObject({ code: "unknown_outcome" });
  connection.state = () => "up";
  expect(idsOf(await queue.drain())).toEqual(ids);
  expect(await queue.drain()).toEqual([]);
});

test("takeAll: when one queue cannot be read, the next one returns the outcomes of the others, too", async () => {
  const { jobs, connection, end } = bench();
  const ids = [await end("a"), await end("b")];
  connection.state = (queue) => (queue === "b" ? "down" : "up");
  await expect(jobs.takeAll(["a", "b"])).rejects.toMatchObject({ code: "unavailable" });
  connection.state = () => "up";
  expect(idsOf(await jobs.takeAll(["a", "b"]))).toEqual(ids);
});
