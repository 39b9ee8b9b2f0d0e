import assert from "node:assert/strict";
import {
  decodeData,
  encodeData,
  type AttemptRow,
  type Exclusion,
  type WorkUnitInput,
} from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

/** `a1`, `a2`, … of partition a, and so on: three for each letter by default. */
const units = (letters: string, count = 3): WorkUnitInput[] =>
  Array.from(letters).flatMap((partition) =>
    Array.from({ length: count }, (_, i) => ({ name: `${partition}${i + 1}`, partition })),
  );

async function start(t: Context, keys: Record<string, unknown>, letters = "abc", count = 3): Promise<void> {
  await t.spec("s", keys);
  await t.add("s", ...units(letters, count));
}

async function excluded(t: Context): Promise<Exclusion | null> {
  return present((await t.c.explain(t.ns)).find(({ workSpec }) => workSpec === "s")).excluded;
}

const finish = async (t: Context, attempts: readonly AttemptRow[]): Promise<void> => {
  for (const attempt of attempts) await t.settled(attempt, "finish");
};

/** Name, waiting, running, first, held. */
const partitionsOf = async (t: Context): Promise<unknown[][]> =>
  (await t.c.listPartitions(t.ns, "s")).rows.map(({ partition, waiting, running, first, held }) => [
    partition,
    waiting,
    running,
    first,
    held,
  ]);

export const partitions: CaseGroup = {
  concept: "partitions",
  cases: [
    {
      name: "a unit has the partition that it was added with, also when it is added again",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", partition: "tenant" }, "v");
        assert.equal((await t.unit("s", "u")).partition, "tenant");
        assert.equal((await t.unit("s", "v")).partition, "");
        await t.add("s", "u", { name: "v", partition: "\udc80 é" });
        assert.equal((await t.unit("s", "u")).partition, "");
        assert.equal((await t.unit("s", "v")).partition, "\udc80 é");
        const { rows } = await t.c.listWorkUnits(t.ns, "s");
        assert.deepEqual(
          rows.map(({ partition }) => partition),
          ["", "\udc80 é"],
        );
      },
    },
    {
      name: "a partition of more than 256 bytes is refused, and nothing is stored",
      async run(t) {
        await t.spec("s");
        const add = t.c.addWorkUnits(t.ns, "s", [{ name: "u" }, { name: "v", partition: "p".repeat(257) }]);
        await t.refuses("too_large", add, /partition/);
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "an output may say its partition",
      async run(t) {
        await t.spec("s", { then: "next" });
        await t.spec("next");
        await t.add("s", "u");
        const data = encodeData({ output: [["x", {}, { partition: "p" }], "y"] });
        await t.settled(await t.claimOne(), "finish", { data });
        assert.equal((await t.unit("next", "x")).partition, "p");
        assert.equal((await t.unit("next", "y")).partition, "");
      },
    },
    {
      name: "many units of many partitions are added at once",
      async run(t) {
        await t.spec("s", { max_running_per_partition: 1 });
        const many = Array.from({ length: 700 }, (_, i) => ({
          name: `u${String(i).padStart(4, "0")}`,
          partition: i % 3 === 0 ? "" : `p${i % 50}`,
        }));
        await t.add("s", ...many);
        assert.equal((await t.unit("s", "u0001")).partition, "p1");
        assert.equal((await t.claim({ number: 700 })).length, 51);
      },
    },
    {
      name: "many units that are added at once are answered in the order given, and taken in turns",
      async run(t) {
        await t.spec("s", { fair: "partition" });
        const letters = Array.from("edcba");
        const many = letters.flatMap((partition) => units(partition, 60));
        const added = await t.c.addWorkUnits(t.ns, "s", many);
        assert.deepEqual(
          added.map(({ name, created }) => [name, created]),
          many.map(({ name }) => [name, true]),
        );
        const ids = new Map((await t.c.listWorkUnits(t.ns, "s")).rows.map(({ name, id }) => [name, id]));
        for (const { name, id } of added) if (ids.has(name)) assert.equal(id, ids.get(name));
        const claimed = (await t.claim({ number: 300 })).map(({ workUnit }) => workUnit);
        const names = units("a", 60).map(({ name }) => name.slice(1));
        const inTurns = names.sort().flatMap((number) => letters.toSorted().map((letter) => letter + number));
        assert.deepEqual(claimed, inTurns);
      },
    },
    {
      name: "among many units that are added at once, a name may exist or come twice",
      async run(t) {
        await t.spec("s", { fair: "partition" });
        const one = encodeData({ of: 1 });
        const two = encodeData({ of: 2 });
        await t.add("s", { name: "there", partition: "z", data: one });
        const added = await t.c.addWorkUnits(t.ns, "s", [
          { name: "kept", partition: "b", data: one },
          ...units("c", 150),
          { name: "there", partition: "a", data: two },
          { name: "kept", partition: "a", data: two, onConflict: "ignore" },
          { name: "twice", partition: "b", data: one },
          { name: "twice", partition: "a", data: two },
        ]);
        assert.deepEqual(
          [0, 151, 152, 153, 154].map((i) => [added[i]?.name, added[i]?.created]),
          [
            ["kept", true],
            ["there", false],
            ["kept", false],
            ["twice", true],
            ["twice", false],
          ],
        );
        const found = async (name: string): Promise<unknown[]> => {
          const { partition, data } = await t.unit("s", name);
          return [partition, data === null ? null : decodeData(data)];
        };
        assert.deepEqual(await found("there"), ["a", { of: 2 }]);
        assert.deepEqual(await found("kept"), ["b", { of: 1 }]);
        assert.deepEqual(await found("twice"), ["a", { of: 2 }]);
        assert.deepEqual(await t.claimNames({ number: 5 }), ["there", "kept", "c1", "twice", "c10"]);
      },
    },
    {
      name: "units that ended while there were no rules are not handed out when there are rules again",
      async run(t) {
        await start(t, { fair: "partition" }, "a", 2);
        await t.spec("s");
        const [first, second] = await t.claim({ number: 2 });
        await t.settled(second!, "finish");
        await t.settled(first!, "retry");
        await t.spec("s", { fair: "partition" });
        assert.deepEqual(await t.claimNames({ number: 5 }), ["a1"]);
        await t.add("s", { name: "a3", partition: "a" });
        assert.deepEqual(await t.claimNames({ number: 5 }), ["a3"]);
      },
    },
    {
      name: "no more units of a partition run than max_running_per_partition says",
      async run(t) {
        await start(t, { max_running_per_partition: 2 });
        const first = await t.claim({ number: 100 });
        assert.deepEqual(
          first.map(({ workUnit }) => workUnit),
          ["a1", "b1", "c1", "a2", "b2", "c2"],
        );
        assert.deepEqual(await t.claimNames(), []);
        await t.settled(first[1]!, "fail");
        await t.settled(first[4]!, "retry");
        assert.deepEqual(await t.claimNames(), ["b2", "b3"]);
        assert.deepEqual(await t.claimNames(), []);
        await finish(t, [first[0]!, first[3]!]);
        assert.deepEqual(await t.claimNames(), ["a3"]);
      },
    },
    {
      name: "a place is given back when a lease ends, a unit is reset, or is deleted",
      async run(t) {
        await start(t, { max_running_per_partition: 1 });
        assert.deepEqual(await t.claimNames({ lifetimeMs: 1000 }), ["a1", "b1", "c1"]);
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["b1"] });
        await t.c.resetWorkUnits(t.ns, "s", { names: ["c1"] });
        assert.deepEqual(await t.claimNames({ lifetimeMs: 60_000 }), ["b2", "c1"]);
        await t.advance(1000);
        assert.deepEqual(await t.claimNames(), ["a1"]);
      },
    },
    {
      name: "a lease that ended is not renewed when another unit of the partition has its place",
      async run(t) {
        await start(t, { max_running_per_partition: 1 }, "ab");
        const [a1, b1] = await t.claim({ number: 2, lifetimeMs: 1000 });
        await t.advance(1000);
        await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["a2"] }, { set: 5 });
        assert.deepEqual(await t.claimNames({ number: 1 }), ["a2"]);
        assert.equal((await t.settle(a1!, "renew", { lifetimeMs: 1000 })).error, "lost_lease");
        await t.settled(b1!, "renew", { lifetimeMs: 1000 });
        assert.deepEqual(await t.claimNames(), []);
      },
    },
    {
      name: "a unit that moves to another partition is counted there",
      async run(t) {
        await start(t, { max_running_per_partition: 1 }, "a");
        assert.deepEqual(await t.claimNames(), ["a1"]);
        await t.add("s", { name: "a1", partition: "b" }, { name: "a3", partition: "b" });
        assert.deepEqual(await t.claimNames(), ["a2"]);
      },
    },
    {
      name: "a unit that moves to another partition while none of them has a rule is next there alone",
      async run(t) {
        await start(t, { max_running_per_partition: 1 }, "a");
        await t.spec("s");
        await t.add("s", { name: "a1", partition: "b" });
        await t.spec("s", { max_running_per_partition: 1 });
        const attempts = await t.claim({ number: 10 });
        assert.deepEqual(
          attempts.map(({ workUnit }) => workUnit),
          ["a2", "a1"],
        );
        await finish(t, attempts.slice(1));
        await t.add("s", ...units("b", 1));
        assert.deepEqual(await partitionsOf(t), [
          ["a", 1, 1, "a3", "max_running_per_partition"],
          ["b", 1, 0, "b1", null],
        ]);
        assert.deepEqual(await t.claimNames({ number: 10 }), ["b1"]);
      },
    },
    {
      name: "units without a partition are together in one",
      async run(t) {
        await t.spec("s", { max_running_per_partition: 1 });
        await t.add("s", "u", "v", { name: "w", partition: "p" });
        assert.deepEqual(await t.claimNames(), ["w", "u"]);
        assert.deepEqual(await t.claimNames(), []);
      },
    },
    {
      name: "the unit of the highest priority is next, whatever its partition; within a partition too",
      async run(t) {
        await start(t, { max_running_per_partition: 2 });
        await t.add(
          "s",
          { name: "b3", partition: "b", priority: 7 },
          { name: "c3", partition: "c", priority: 5 },
        );
        assert.deepEqual(await t.claimNames({ number: 4 }), ["b3", "c3", "a1", "b1"]);
      },
    },
    {
      name: "limits hold for units that were there, and run, before the limit was set",
      async run(t) {
        await start(t, {});
        const running = await t.claim({ number: 4 });
        await t.c.setWorkSpecMeta(t.ns, "s", { maxRunningPerPartition: 1 });
        assert.deepEqual(await t.claimNames(), ["c1"]);
        await finish(t, running);
        assert.deepEqual(await t.claimNames(), ["b2"]);
        await t.c.setWorkSpecMeta(t.ns, "s", { maxRunningPerPartition: 0 });
        assert.deepEqual(await t.claimNames(), ["b3", "c2", "c3"]);
      },
    },
    {
      name: "a unit that was tried too often is failed, and takes nobody's turn",
      async run(t) {
        await start(t, { max_running_per_partition: 1, max_retries: 1 }, "ab", 2);
        await t.settled(await t.claimOne(), "retry");
        assert.deepEqual(await t.claimNames({ number: 3 }), ["b1", "a2"]);
        assert.equal(await t.status("s", "a1"), "failed");
      },
    },
    {
      name: "rate: no more units begin than the rate allows, tokens do not come back, and a burst is allowed after a pause",
      async run(t) {
        await start(t, { rate: { limit: 2, period: 1, burst: 3 } }, "a", 9);
        const first = await t.claim({ number: 100 });
        assert.equal(first.length, 3);
        await finish(t, first);
        assert.deepEqual(await t.claimNames(), []);
        assert.equal(await excluded(t), "rate");
        await t.advance(499);
        assert.deepEqual(await t.claimNames(), []);
        await t.advance(1);
        assert.deepEqual(await t.claimNames(), ["a4"]);
        await t.advance(60_000);
        assert.deepEqual(await t.claimNames(), ["a5", "a6", "a7"]);
      },
    },
    {
      name: "rate: a request that waits is given a unit when the rate allows it",
      async run(t) {
        await start(t, { rate: { limit: 1, period: 10 } }, "a");
        assert.deepEqual(await t.claimNames(), ["a1"]);
        const waiting = t.claimNames({ waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.advance(10_000);
        assert.deepEqual(await waiting, ["a2"]);
      },
    },
    {
      name: "rate and rate_per_partition: a faster rate holds from then on, whatever the slower one has left",
      async run(t) {
        const slow = { limit: 1, period: 86_400 };
        for (const key of ["rate", "rate_per_partition"]) {
          await t.spec(key, { [key]: slow });
          await t.add(key, "1", "2", "3", "4");
          assert.deepEqual(await t.claimNames({ workSpecs: [key] }), ["1"]);
          await t.spec(key, { [key]: { limit: 1 } });
          assert.deepEqual(await t.claimNames({ workSpecs: [key] }), ["2"]);
          assert.deepEqual(await t.claimNames({ workSpecs: [key] }), []);
          await t.advance(999);
          assert.deepEqual(await t.claimNames({ workSpecs: [key] }), []);
          await t.advance(1);
          assert.deepEqual(await t.claimNames({ workSpecs: [key] }), ["3"]);
        }
      },
    },
    {
      name: "rate: without a limit there is none, and a limit that is no number is refused",
      async run(t) {
        await start(t, { rate: { limit: 0 } }, "a");
        assert.equal((await t.claimNames()).length, 3);
        await t.refuses("bad_work_spec", t.spec("s", { rate: { limit: "many" } }), /rate\.limit/);
        await t.refuses("bad_work_spec", t.spec("s", { rate: 5 }), /rate/);
      },
    },
    {
      name: "rate_per_partition: each partition has a rate of its own",
      async run(t) {
        await start(t, { rate_per_partition: { limit: 1, period: 1, burst: 2 } }, "ab", 4);
        assert.deepEqual(await t.claimNames(), ["a1", "b1", "a2", "b2"]);
        assert.equal(await excluded(t), "partitions");
        await t.add("s", { name: "c1", partition: "c" });
        assert.deepEqual(await t.claimNames(), ["c1"]);
        await t.advance(1000);
        assert.deepEqual(await t.claimNames({ number: 1 }), ["a3"]);
        assert.deepEqual(await t.claimNames(), ["b3"]);
        assert.deepEqual(await t.claimNames(), []);
        await t.advance(2000);
        assert.deepEqual(await t.claimNames(), ["a4", "b4"]);
      },
    },
    {
      name: "rate_per_partition: a request that waits is given a unit when a partition has a token",
      async run(t) {
        await start(t, { rate_per_partition: { limit: 1, period: 10 } }, "a");
        assert.deepEqual(await t.claimNames(), ["a1"]);
        const waiting = t.claimNames({ waitMs: 60_000 });
        await t.untilWaiting(1);
        await t.advance(10_000);
        assert.deepEqual(await waiting, ["a2"]);
      },
    },
    {
      name: "order: the next unit of a partition begins when the one before has ended, and not during a delay before its next try",
      async run(t) {
        await start(t, { order: "partition" }, "ab");
        const [a1, b1] = await t.claim({ number: 100 });
        assert.deepEqual([a1?.workUnit, b1?.workUnit], ["a1", "b1"]);
        assert.deepEqual(await t.claimNames(), []);
        await t.settled(a1!, "retry", { delayMs: 5000 });
        await t.settled(b1!, "fail");
        assert.deepEqual(await t.claimNames(), ["b2"]);
        assert.equal(await excluded(t), "partitions");
        await t.advance(5000);
        const again = await t.claimOne();
        assert.equal(again.workUnit, "a1");
        await t.settled(again, "finish");
        assert.deepEqual(await t.claimNames(), ["a2"]);
      },
    },
    {
      name: "order: a unit that was begun goes first, whatever came before it meanwhile",
      async run(t) {
        await start(t, { order: "partition" }, "a");
        const a1 = await t.claimOne();
        await t.add("s", { name: "a0", partition: "a", priority: 9 });
        await t.settled(a1, "retry");
        assert.deepEqual(await t.claimNames(), ["a1"]);
      },
    },
    {
      name: "order: a lease that ends keeps the place, a reset or a deletion gives it up",
      async run(t) {
        await start(t, { order: "partition" }, "ab");
        const [a1] = await t.claim({ number: 2, lifetimeMs: 1000 });
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["b1"] });
        await t.advance(1000);
        const next = await t.claim({ number: 100 });
        assert.deepEqual(
          next.map(({ workUnit }) => workUnit),
          ["a1", "b2"],
        );
        assert.equal((await t.settle(a1!, "finish")).error, "lost_lease");
        await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["a3"] }, { set: 1 });
        await t.c.resetWorkUnits(t.ns, "s", { names: ["a1"] });
        assert.deepEqual(await t.claimNames(), ["a3"]);
      },
    },
    {
      name: "fair: partitions take turns, one unit each, whatever their sizes and priorities",
      async run(t) {
        await t.spec("s", { fair: "partition" });
        await t.add("s", ...units("b", 6), ...units("a", 2), { name: "c1", partition: "c", priority: 9 });
        await t.add("s", { name: "b6", partition: "b", priority: 5 });
        assert.deepEqual(await t.claimNames({ number: 2 }), ["a1", "b6"]);
        assert.deepEqual(await t.claimNames({ number: 1 }), ["c1"]);
        assert.deepEqual(await t.claimNames({ number: 1 }), ["a2"]);
        await t.add("s", { name: "d1", partition: "d" }, { name: "a9", partition: "a" });
        assert.deepEqual(await t.claimNames(), ["b1", "d1", "a9", "b2", "b3", "b4", "b5"]);
      },
    },
    {
      name: "fair: a partition that comes later waits for no more than one unit of each other",
      async run(t) {
        await start(t, { fair: "partition" }, "m", 50);
        await t.claimNames({ number: 10 });
        for (const name of ["a", "z"]) {
          await t.add("s", { name, partition: name });
          assert.ok((await t.claimNames({ number: 2 })).includes(name));
        }
      },
    },
    {
      name: "fair: beside one partition with many units, 99 others are done after a hundredth more units than alone",
      async run(t) {
        await t.spec("s", { fair: "partition" });
        await t.add(
          "s",
          ...Array.from({ length: 400 }, (_, i) => ({ name: `large ${i}`, partition: "large" })),
          ...Array.from({ length: 297 }, (_, i) => ({ name: `small ${i}`, partition: `tenant ${i % 99}` })),
        );
        let given = 0;
        for (let left = 297; left > 0;) {
          const attempts = await t.claim({ number: 20 });
          assert.ok(attempts.length > 0);
          await t.c.settleAttempts(
            t.ns,
            attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
          );
          given += attempts.length;
          left -= attempts.filter(({ workUnit }) => workUnit.startsWith("small")).length;
        }
        assert.ok(given <= 1.1 * 297, `${given} units`);
      },
    },
    {
      name: "fair: a turn is as many units as the partition's weight, over any number of requests",
      async run(t) {
        await t.spec("s", { fair: "partition", partition_weights: { a: 3, c: 2, nobody: 9 } });
        await t.add("s", ...units("abc", 6));
        assert.deepEqual(await t.claimNames({ number: 2 }), ["a1", "a2"]);
        assert.deepEqual(await t.claimNames({ number: 3 }), ["a3", "b1", "c1"]);
        assert.deepEqual(await t.claimNames({ number: 1 }), ["c2"]);
        assert.deepEqual(await t.claimNames({ number: 100 }), [
          ...["a4", "a5", "a6", "b2", "c3", "c4"],
          ...["b3", "c5", "c6", "b4", "b5", "b6"],
        ]);
      },
    },
    {
      name: "fair: a partition that is held back in its turn, or has nothing left, gives the rest of it up",
      async run(t) {
        await t.spec("s", {
          fair: "partition",
          partition_weights: { a: 4, b: 4 },
          max_running_per_partition: 2,
        });
        await t.add("s", ...units("ac", 3), { name: "b1", partition: "b" });
        const [a1] = await t.claim({ number: 3 });
        assert.deepEqual(await t.claimNames({ number: 1 }), ["c1"]);
        await t.settled(a1!, "finish");
        assert.deepEqual(await t.claimNames({ number: 100 }), ["a3", "c2"]);
      },
    },
    {
      name: "fair: weights may be changed in the midst of a turn",
      async run(t) {
        await t.spec("s", { fair: "partition", partition_weights: { a: 5 } });
        await t.add("s", ...units("ab", 5));
        assert.deepEqual(await t.claimNames({ number: 3 }), ["a1", "a2", "a3"]);
        await t.spec("s", { fair: "partition", partition_weights: { a: 2, b: 2 } });
        assert.deepEqual(await t.claimNames({ number: 4 }), ["b1", "b2", "a4", "a5"]);
        await t.spec("s", { fair: "partition" });
        assert.deepEqual(await t.claimNames({ number: 100 }), ["b3", "b4", "b5"]);
      },
    },
    {
      name: "weights without fair change nothing, and those that are none are refused",
      async run(t) {
        await t.spec("s", { max_running_per_partition: 9, partition_weights: { b: 3 } });
        await t.add("s", ...units("ab", 2));
        assert.deepEqual(await t.claimNames({ number: 100 }), ["a1", "b1", "a2", "b2"]);
        for (const wrong of [{ a: 0 }, { a: 1.5 }, { a: "2" }, ["a"], { a: 1_000_001 }])
          await t.refuses("bad_work_spec", t.spec("s", { partition_weights: wrong }), /partition_weights/);
      },
    },
    {
      name: "all of it together, with max_running and dependencies",
      async run(t) {
        await t.spec("s", {
          fair: "partition",
          order: "partition",
          rate_per_partition: { limit: 1, period: 1 },
          rate: { limit: 3, period: 1, burst: 3 },
          max_running: 2,
        });
        await t.add("s", ...units("abc", 2));
        await t.add("s", { name: "a9", partition: "a", dependencies: [{ workUnit: "a1" }] });
        const [a1, b1] = await t.claim({ number: 100 });
        assert.deepEqual([a1?.workUnit, b1?.workUnit], ["a1", "b1"]);
        await t.settled(a1!, "finish");
        assert.deepEqual(await t.claimNames(), ["c1"]);
        await t.settled(b1!, "finish");
        assert.deepEqual(await t.claimNames(), []);
        await t.advance(1000);
        assert.deepEqual(await t.claimNames(), ["a2"]);
      },
    },
    {
      name: "explain says what holds a work spec back",
      async run(t) {
        await start(t, { max_running_per_partition: 1 }, "a");
        assert.equal(await excluded(t), null);
        await t.claimOne();
        const [row] = await t.c.explain(t.ns);
        assert.equal(row?.excluded, "partitions");
        assert.match(present(row).reason, /max_running_per_partition/);
      },
    },
    {
      name: "listed: what waits and runs in each, and what holds it back",
      async run(t) {
        await t.spec("s", { max_running_per_partition: 2 });
        await t.add("s", ...units("ba"), { name: "c1", partition: "c" }, "alone");
        await t.claim({ number: 6 });
        // one each without a partition and of a, b and c, and a second one of a and b
        assert.deepEqual(await partitionsOf(t), [
          ["", 0, 1, null, null],
          ["a", 1, 2, "a3", "max_running_per_partition"],
          ["b", 1, 2, "b3", "max_running_per_partition"],
          ["c", 0, 1, null, null],
        ]);
        const { rows } = await t.c.listPartitions(t.ns, "s");
        assert.deepEqual(
          rows.map(({ reason }) => reason),
          ["no waiting units", "2 of 2 running", "2 of 2 running", "no waiting units"],
        );
        await t.add("s", { name: "c2", partition: "c" }, { name: "c0", partition: "c" });
        assert.deepEqual((await partitionsOf(t))[3], ["c", 2, 1, "c0", null]);
      },
    },
    {
      name: "listed: the order, while a unit runs and while it waits for its retry",
      async run(t) {
        await start(t, { order: "partition" }, "a", 2);
        const [attempt] = await t.claim();
        assert.deepEqual(await partitionsOf(t), [["a", 1, 1, "a2", "order"]]);
        await t.settled(present(attempt), "retry", { delayMs: 1000 });
        assert.deepEqual(await partitionsOf(t), [["a", 1, 0, "a2", "order"]]);
        await t.advance(1000);
        assert.deepEqual(await partitionsOf(t), [["a", 2, 0, "a1", null]]);
      },
    },
    {
      name: "listed: a rate says until when, and leases that have ended do not count",
      async run(t) {
        await start(t, { rate_per_partition: { limit: 1, period: 10 } }, "ab", 2);
        await t.claim({ number: 1, lifetimeMs: 2000 });
        const { rows } = await t.c.listPartitions(t.ns, "s");
        assert.deepEqual(
          rows.map(({ held, until }) => [held, until]),
          [
            ["rate_per_partition", t.now + 10_000],
            [null, 0],
          ],
        );
        await t.advance(2000);
        assert.deepEqual(await partitionsOf(t), [
          ["a", 2, 0, "a1", "rate_per_partition"],
          ["b", 2, 0, "b1", null],
        ]);
        await t.advance(8000);
        assert.deepEqual((await partitionsOf(t))[0], ["a", 2, 0, "a1", null]);
      },
    },
    {
      name: "listed: page by page, those that come meanwhile included, and not those where all has ended",
      async run(t) {
        await start(t, { fair: "partition" }, "bdf", 1);
        const first = await t.c.listPartitions(t.ns, "s", { limit: 2 });
        assert.deepEqual([first.rows.map(({ partition }) => partition), first.next], [["b", "d"], "d"]);
        await t.add("s", ...units("ace", 1), { name: "none" });
        const rest = await t.c.listPartitions(t.ns, "s", { previous: "d", limit: 2 });
        assert.deepEqual([rest.rows.map(({ partition }) => partition), rest.next], [["e", "f"], null]);
        await finish(t, await t.claim({ number: 4 }));
        await t.sweep();
        const names = async (): Promise<string[]> => (await partitionsOf(t)).map(([name]) => name as string);
        assert.deepEqual(await names(), ["", "e", "f"]);
        await t.add("s", { name: "d2", partition: "d" });
        assert.deepEqual(await names(), ["", "d", "e", "f"]);
        const { rows, next } = await t.c.listPartitions(t.ns, "s", { limit: 1 });
        assert.deepEqual([rows.map(({ partition }) => partition), next], [[""], ""]);
        const after = await t.c.listPartitions(t.ns, "s", { previous: "", limit: 1 });
        assert.deepEqual(
          after.rows.map(({ partition }) => partition),
          ["d"],
        );
      },
    },
    {
      name: "listed: names of any bytes and length; 1,000 units are counted",
      async run(t) {
        await t.spec("s", { fair: "partition" });
        const names = ["\udc80 é", "p".repeat(256), `${"p".repeat(255)}q`];
        await t.add("s", ...names.map((partition, i) => ({ name: `u${i}`, partition })));
        await t.c.addWorkUnits(
          t.ns,
          "s",
          Array.from({ length: 1001 }, (_, i) => ({ name: `many ${i}`, partition: "many" })),
        );
        const { rows } = await t.c.listPartitions(t.ns, "s");
        assert.deepEqual(new Set(rows.map(({ partition }) => partition)), new Set(["many", ...names]));
        assert.deepEqual(present(rows.find(({ partition }) => partition === "many")).waiting, 1000);
        // reading page by page returns the same partitions
        const found: string[] = [];
        for (let previous: string | null = null, i = 0; i < 5; i++) {
          const page = await t.c.listPartitions(t.ns, "s", {
            limit: 1,
            ...(previous !== null && { previous }),
          });
          found.push(...page.rows.map(({ partition }) => partition));
          if ((previous = page.next) === null) break;
        }
        assert.deepEqual(
          found,
          rows.map(({ partition }) => partition),
        );
      },
    },
    {
      name: "listed: nothing without a rule for partitions, and all once there is one; a work spec that is missing is an error",
      async run(t) {
        await start(t, {}, "ab", 2);
        await t.claimOne();
        assert.deepEqual(await partitionsOf(t), []);
        await t.spec("s", { max_running_per_partition: 1 });
        assert.deepEqual(await partitionsOf(t), [
          ["a", 1, 1, "a2", "max_running_per_partition"],
          ["b", 2, 0, "b1", null],
        ]);
        await t.refuses("no_such_work_spec", t.c.listPartitions(t.ns, "t"));
      },
    },
    {
      name: "a unit that was tried too often does not cost its partition the turn",
      async run(t) {
        await t.spec("s", { order: "partition", max_retries: 1 });
        await t.add("s", { name: "a1", partition: "a", priority: 5 });
        await t.claimOne({ lifetimeMs: 1000 });
        await t.add("s", { name: "a2", partition: "a", priority: 1 }, { name: "b1", partition: "b" });
        await t.advance(1000);
        assert.deepEqual(await t.claimNames({ number: 2 }), ["a2"]);
        assert.equal((await t.unit("s", "a1")).status, "failed");
        assert.deepEqual(await t.claimNames(), ["b1"]);
      },
    },
    {
      name: "a word that is no order or share is refused",
      async run(t) {
        await t.refuses(
          "bad_work_spec",
          t.spec("s", { order: "random" }),
          /order: expected one of partition/,
        );
        await t.refuses("bad_work_spec", t.spec("s", { fair: true }), /fair/);
      },
    },
    {
      name: "housekeeping forgets partitions that are as good as new, and nothing else",
      async run(t) {
        await start(t, { rate_per_partition: { limit: 1, period: 10 } }, "ab", 2);
        await finish(t, await t.claim({ number: 100 }));
        await t.sweep();
        assert.deepEqual(await t.claimNames(), []);
        await t.advance(10_000);
        await t.sweep();
        assert.deepEqual(await t.claimNames(), ["a2", "b2"]);
      },
    },
  ],
};
