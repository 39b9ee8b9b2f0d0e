import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

const data = (n: number) => encodeData({ n });

/** Brings the unit `u` of spec `s` into a status. */
async function bring(t: Context, status: string): Promise<void> {
  await t.spec("s");
  if (status === "blocked") {
    await t.spec("other");
    await t.add("other", "dep");
    await t.add("s", { name: "u", data: data(1), dependencies: [{ workSpec: "other", workUnit: "dep" }] });
    return;
  }
  await t.add("s", { name: "u", data: data(1), ...(status === "delayed" && { delayMs: 60_000 }) });
  if (status === "available" || status === "delayed") return;
  const attempt = await t.claimOne();
  if (status === "finished") await t.settled(attempt, "finish", { data: data(2) });
  if (status === "failed") await t.settled(attempt, "fail", { data: data(2) });
}

const every = ["available", "delayed", "blocked", "pending", "finished", "failed"] as const;

export const workUnits: CaseGroup = {
  concept: "work units",
  cases: [
    {
      name: "units are listed with the data that they were added with, when asked for",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", data: encodeData({ n: 1 }) }, "b", "c");
        await t.settled(await t.claimOne(), "finish", { data: encodeData({ done: true }) });
        await t.settled(await t.claimOne(), "fail", { data: encodeData({ traceback: "no" }) });
        const data = async (asAdded?: boolean): Promise<unknown[]> =>
          (await t.c.listWorkUnits(t.ns, "s", asAdded === undefined ? {} : { asAdded })).rows.map(
            (row) => row.data,
          );
        const now = [encodeData({ done: true }), encodeData({ traceback: "no" }), null];
        assert.deepEqual(await data(), now);
        assert.deepEqual(await data(false), now);
        assert.deepEqual(await data(true), [encodeData({ n: 1 }), null, null]);
      },
    },
    {
      name: "an added unit is available, with priority 0 and no delay",
      async run(t) {
        await t.spec("s");
        const added = present((await t.c.addWorkUnits(t.ns, "s", [{ name: "u", data: data(1) }]))[0]);
        assert.deepEqual(added, { name: "u", id: added.id, created: true, status: "available" });
        assert.deepEqual(await t.unit("s", "u"), {
          id: added.id,
          workSpec: "s",
          name: "u",
          status: "available",
          reason: null,
          data: data(1),
          priority: 0,
          notBefore: 0,
          createdTime: t.now,
          attempts: 0,
          activeAttempt: null,
          origin: null,
          dependencies: [],
          queues: [],
          partition: "",
          labels: [],
        });
      },
    },
    {
      name: "adding no units is no error",
      async run(t) {
        await t.spec("s");
        assert.deepEqual(await t.c.addWorkUnits(t.ns, "s", []), []);
      },
    },
    {
      name: "adding to a spec that does not exist is refused",
      async run(t) {
        await t.refuses("no_such_work_spec", t.add("s", "u"), /s/);
      },
    },
    {
      name: "a name twice in one call: the last one wins",
      async run(t) {
        await t.spec("s");
        const added = await t.c.addWorkUnits(t.ns, "s", [
          { name: "u", data: data(1) },
          { name: "u", data: data(2), priority: 3 },
        ]);
        assert.deepEqual(
          added.map(({ created }) => created),
          [true, false],
        );
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.data, unit.priority], [data(2), 3]);
        assert.equal((await t.counts("s")).available, 1);
      },
    },
    {
      name: "a batch with one bad unit is refused whole, naming the item",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_argument", t.add("s", "a", { name: "b", priority: NaN }), /item 1.*priority/);
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    ...table(
      every,
      (status) => `adding over a unit that is ${status}`,
      async (t, status) => {
        await bring(t, status);
        const before = await t.unit("s", "u");
        const [added] = await t.c.addWorkUnits(t.ns, "s", [{ name: "u", data: data(9), priority: 4 }]);
        assert.equal(added?.created, false);
        const after = await t.unit("s", "u");
        assert.equal(after.id, before.id);
        assert.equal(after.priority, 4);
        assert.equal(after.attempts, before.attempts);
        if (status === "pending") {
          assert.equal(after.status, "pending");
          assert.deepEqual(after.data, data(1), "a running attempt goes on with the data it was given");
          assert.deepEqual(after.activeAttempt?.id, before.activeAttempt?.id);
        } else {
          // new metadata without a delay ends the delay; a blocked unit keeps its dependencies
          assert.equal(after.status, status === "blocked" ? "blocked" : "available");
          assert.deepEqual(after.data, data(9));
          assert.equal(after.activeAttempt, null);
        }
      },
    ),
    ...table(
      ["finished", "failed"] as const,
      (status) => `adding over a ${status} unit keeps its history`,
      async (t, status) => {
        await bring(t, status);
        await t.add("s", { name: "u", data: data(9) });
        assert.deepEqual(
          (await t.attempts("s", "u")).map((one) => [one.number, one.status, one.active]),
          [[1, status, false]],
        );
        const next = await t.claimOne();
        assert.equal(next.number, 2);
        assert.deepEqual(next.data, data(9));
        const [first] = await t.attempts("s", "u");
        assert.deepEqual(first?.data, data(2), "every attempt keeps its own copy");
      },
    ),
    {
      name: "an attempt that wrote nothing keeps the data it was given, whatever is added over its unit",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        await t.settled(attempt, "finish");
        await t.add("s", { name: "u", data: data(2) });
        assert.deepEqual((await t.attempt(attempt.id)).data, data(1));
      },
    },
    {
      name: "a running attempt that is overtaken by an add finishes with its own data",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        await t.add("s", { name: "u", data: data(2) });
        await t.settled(attempt, "finish");
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.data], ["finished", data(1)]);
      },
    },
    {
      name: "data that was added over a running unit is what its next attempt starts from",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: data(1) });
        const attempt = await t.claimOne();
        await t.add("s", { name: "u", data: data(2) });
        await t.settled(attempt, "retry", { data: data(3) });
        assert.deepEqual((await t.claimOne()).data, data(2));
      },
    },
    {
      name: "adding over an available unit moves it to its new priority",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.add("s", { name: "b", priority: 1 });
        assert.deepEqual(await t.claimNames(), ["b", "a"]);
      },
    },
    {
      name: "adding over an available unit with a delay delays it",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.add("s", { name: "u", delayMs: 1000 });
        assert.equal(await t.status("s", "u"), "delayed");
        assert.deepEqual(await t.claim(), []);
      },
    },

    // ---- priorities

    {
      name: "claim order: highest priority first, then name order",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          "c",
          "a",
          { name: "z", priority: 1 },
          { name: "y", priority: 0.5 },
          { name: "m", priority: -1 },
          "b",
        );
        assert.deepEqual(await t.claimNames(), ["z", "y", "a", "b", "c", "m"]);
      },
    },
    {
      name: "priorities are set by query, and units change places",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        assert.equal(await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["c", "none"] }, { set: 7 }), 1);
        assert.equal((await t.unit("s", "c")).priority, 7);
        assert.deepEqual(await t.claimNames(), ["c", "a", "b"]);
      },
    },
    {
      name: "priorities are adjusted by query",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "a", priority: 2 }, { name: "b", priority: 1 });
        assert.equal(await t.c.setWorkUnitPriorities(t.ns, "s", { prefix: "b" }, { adjust: 1.5 }), 1);
        assert.equal((await t.unit("s", "b")).priority, 2.5);
        assert.deepEqual(await t.claimNames(), ["b", "a"]);
      },
    },
    ...table(
      every,
      (status) => `the priority of a unit that is ${status} can be set, and it stays so`,
      async (t, status) => {
        await bring(t, status);
        assert.equal(await t.c.setWorkUnitPriorities(t.ns, "s", { names: ["u"] }, { set: 3 }), 1);
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.priority, unit.status], [3, status]);
      },
    ),
    {
      name: "a priority that is not a number is refused, and nothing is changed",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", priority: 1 });
        await t.refuses(
          "bad_argument",
          t.c.setWorkUnitPriorities(t.ns, "s", { names: ["u"] }, { set: NaN }),
          /priority/,
        );
        await t.refuses(
          "bad_argument",
          t.c.setWorkUnitPriorities(t.ns, "s", { names: ["u"] }, { adjust: Infinity }),
          /priority/,
        );
        assert.equal((await t.unit("s", "u")).priority, 1);
      },
    },

    // ---- delays

    {
      name: "a delayed unit is not handed out before its time, and is at its time",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", delayMs: 1000 });
        assert.equal(await t.status("s", "u"), "delayed");
        assert.equal((await t.unit("s", "u")).notBefore, t.now + 1000);
        await t.advance(999);
        assert.deepEqual(await t.claim(), []);
        await t.advance(1);
        assert.equal(await t.status("s", "u"), "available");
        assert.deepEqual(await t.claimNames(), ["u"]);
      },
    },
    {
      name: "notBefore gives the time itself",
      async run(t) {
        await t.spec("s");
        const notBefore = t.now + 500;
        await t.add("s", { name: "u", notBefore });
        assert.equal((await t.unit("s", "u")).notBefore, notBefore);
        await t.advance(500);
        assert.deepEqual(await t.claimNames(), ["u"]);
      },
    },
    {
      name: "a delay of zero is none, and there is none below it",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_argument", t.add("s", { name: "b", delayMs: -5 }));
        await t.add("s", { name: "a", delayMs: 0 });
        assert.deepEqual(await t.claimNames(), ["a"]);
      },
    },
    {
      name: "a delayed unit of higher priority waits, and takes its place when it is due",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "z", priority: 5, delayMs: 100 });
        assert.deepEqual(
          (await t.claim({ number: 1 })).map(({ workUnit }) => workUnit),
          ["a"],
        );
        await t.add("s", "b");
        await t.advance(100);
        assert.deepEqual(await t.claimNames(), ["z", "b"]);
      },
    },
    {
      name: "delays are set by query: longer, and none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", delayMs: 1000 });
        await t.c.setWorkUnitDelays(t.ns, "s", { names: ["a"] }, t.now + 50);
        await t.c.setWorkUnitDelays(t.ns, "s", { names: ["b"] }, 0);
        assert.deepEqual(await t.statuses("s"), { a: "delayed", b: "available" });
        await t.advance(50);
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "available" });
      },
    },
    ...table(
      ["pending", "finished", "failed"] as const,
      (status) => `the delay of a unit that is ${status} is not touched`,
      async (t, status) => {
        await bring(t, status);
        assert.equal(await t.c.setWorkUnitDelays(t.ns, "s", { names: ["u"] }, t.now + 1000), 0);
        assert.equal((await t.unit("s", "u")).notBefore, 0);
      },
    ),
    {
      name: "a limit beyond all bounds is no error",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        assert.equal((await t.c.listWorkUnits(t.ns, "s", { limit: 1e9 })).rows.length, 1);
      },
    },
    {
      name: "a delay that ends in 25 days, or in ten years, is kept",
      async run(t) {
        await t.spec("s");
        const day = 24 * 3600 * 1000;
        await t.add("s", { name: "a", delayMs: 25 * day }, { name: "b", delayMs: 3650 * day });
        assert.deepEqual(await t.claim(), []);
        assert.equal((await t.unit("s", "b")).notBefore, t.now + 3650 * day);
      },
    },

    // ---- looking

    {
      name: "units are got by name in the order asked for, null where there is none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const rows = await t.c.getWorkUnits(t.ns, "s", ["b", "none", "a", "b"]);
        assert.deepEqual(
          rows.map((row) => row?.name ?? null),
          ["b", null, "a", "b"],
        );
      },
    },
    ...table(
      every,
      (status) => `a query by status finds units that are ${status}`,
      async (t, status) => {
        await bring(t, status);
        await t.add("s", { name: "x", delayMs: status === "delayed" ? 0 : 999 });
        const { rows } = await t.c.listWorkUnits(t.ns, "s", { statuses: [status] });
        assert.deepEqual(
          rows.map(({ name }) => name),
          ["u"],
        );
        const all = await t.c.listWorkUnits(t.ns, "s", { statuses: [...every] });
        assert.deepEqual(
          all.rows.map(({ name }) => name),
          ["u", "x"],
        );
      },
    ),
    {
      name: "conditions are combined with and, values with or",
      async run(t) {
        await t.spec("s");
        await t.add("s", "aa", "ab", "ba", { name: "ac", delayMs: 10 });
        const find = async (query: object): Promise<string[]> =>
          (await t.c.listWorkUnits(t.ns, "s", query)).rows.map(({ name }) => name);
        assert.deepEqual(await find({ prefix: "a" }), ["aa", "ab", "ac"]);
        assert.deepEqual(await find({ prefix: "a", statuses: ["available"] }), ["aa", "ab"]);
        assert.deepEqual(await find({ names: ["ba", "ab", "ac"], statuses: ["available"] }), ["ab", "ba"]);
        assert.deepEqual(await find({ names: ["ba", "ab"], prefix: "b" }), ["ba"]);
        assert.deepEqual(await find({ prefix: "a", previous: "aa" }), ["ab", "ac"]);
        assert.deepEqual(await find({ prefix: "b", previous: "a" }), ["ba"]);
        assert.deepEqual(await find({ previous: "zz" }), []);
        assert.deepEqual(await find({ statuses: ["delayed", "available"], previous: "ab" }), ["ac", "ba"]);
        assert.deepEqual(await find({}), ["aa", "ab", "ac", "ba"]);
      },
    },
    {
      name: "an empty list of names or statuses matches nothing",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        assert.deepEqual((await t.c.listWorkUnits(t.ns, "s", { names: [] })).rows, []);
        assert.deepEqual((await t.c.listWorkUnits(t.ns, "s", { statuses: [] })).rows, []);
      },
    },
    {
      name: "listings are paged by limit and next",
      async run(t) {
        await t.spec("s");
        await t.add("s", "c", "a", "b", "d");
        const first = await t.c.listWorkUnits(t.ns, "s", { limit: 3 });
        assert.deepEqual([first.rows.map(({ name }) => name), first.next], [["a", "b", "c"], "c"]);
        const last = await t.c.listWorkUnits(t.ns, "s", { limit: 3, previous: "c" });
        assert.deepEqual([last.rows.map(({ name }) => name), last.next], [["d"], null]);
      },
    },
    {
      name: "a page is 1,000 rows when no limit is given",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...Array.from({ length: 1001 }, (_, i) => String(i).padStart(4, "0")));
        const { rows, next } = await t.c.listWorkUnits(t.ns, "s");
        assert.deepEqual([rows.length, next], [1000, "0999"]);
      },
    },
    {
      name: "counts are exact through every change of status",
      async run(t) {
        await t.spec("s");
        const expect = async (counts: object): Promise<void> => {
          assert.deepEqual(await t.counts("s"), {
            available: 0,
            delayed: 0,
            blocked: 0,
            pending: 0,
            finished: 0,
            failed: 0,
            ...counts,
          });
        };
        await expect({});
        await t.add("s", "a", "b", "c", { name: "d", delayMs: 1000 });
        await expect({ available: 3, delayed: 1 });
        const [a, b, c] = await t.claim({ number: 3 });
        assert.ok(a && b && c);
        await expect({ pending: 3, delayed: 1 });
        await t.settled(a, "finish");
        await t.settled(b, "fail");
        await t.settled(c, "retry", { delayMs: 500 });
        await expect({ finished: 1, failed: 1, delayed: 2 });
        await t.advance(1000);
        await expect({ finished: 1, failed: 1, available: 2 });
        await t.c.deleteWorkUnits(t.ns, "s", { statuses: ["failed"] });
        await expect({ finished: 1, available: 2 });
      },
    },
    {
      name: "the tally of everything has every namespace and spec",
      async run(t) {
        await t.spec("b");
        await t.spec("a");
        await t.add("b", "u");
        const rows = (await t.c.tally()).filter(({ namespace }) => namespace === t.ns);
        assert.deepEqual(
          rows.map(({ workSpec, counts }) => [workSpec, counts.available]),
          [
            ["a", 0],
            ["b", 1],
          ],
        );
      },
    },

    // ---- deleting

    {
      name: "units are deleted by name, by status and by prefix",
      async run(t) {
        await t.spec("s");
        await t.add("s", "aa", "ab", "ba", "bb", { name: "d", delayMs: 10 });
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: ["aa", "none"] }), 1);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { statuses: ["delayed"] }), 1);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { prefix: "b" }), 2);
        assert.deepEqual(await t.statuses("s"), { ab: "available" });
      },
    },
    {
      name: "deleting with names and a status deletes only those of that status",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", delayMs: 10 });
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: ["a", "b"], statuses: ["delayed"] }), 1);
        assert.deepEqual(await t.statuses("s"), { a: "available" });
      },
    },
    {
      name: "deleting by query: an empty list of names matches nothing",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: [] }), 0);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { statuses: [] }), 0);
        assert.deepEqual(await t.statuses("s"), { a: "available" });
      },
    },
    {
      name: "to delete everything the caller must say so: a query that names nothing is refused",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.refuses("empty_query", t.c.deleteWorkUnits(t.ns, "s", {}));
        await t.refuses("empty_query", t.c.deleteWorkUnits(t.ns, "s", { all: false }));
        await t.refuses("empty_query", t.c.setWorkUnitPriorities(t.ns, "s", {}, { set: 1 }));
        await t.refuses("empty_query", t.c.resetWorkUnits(t.ns, "s", { prefix: "" }));
        assert.equal((await t.counts("s")).available, 2);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { all: true }), 2);
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
    {
      name: "more units than one slice are deleted, and changed, in one call",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...Array.from({ length: 4500 }, (_, i) => String(i)));
        assert.equal(await t.c.setWorkUnitPriorities(t.ns, "s", { all: true }, { adjust: 2 }), 4500);
        assert.equal((await t.unit("s", "4499")).priority, 2);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { all: true }), 4500);
        assert.equal((await t.counts("s")).available, 0);
      },
    },
    ...table(
      every,
      (status) => `a unit that is ${status} can be deleted, and is handed out no more`,
      async (t, status) => {
        await bring(t, status);
        assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: ["u"] }), 1);
        assert.deepEqual(await t.c.getWorkUnits(t.ns, "s", ["u"]), [null]);
        await t.advance(3_600_000);
        assert.deepEqual(await t.claim({ workSpecs: ["s"] }), []);
        assert.equal(
          Object.values(await t.counts("s")).reduce((a, b) => a + b),
          0,
        );
      },
    ),
    {
      name: "a deleted and recreated unit is another unit, and old attempts cannot touch it",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.unit("s", "u");
        const attempt = await t.claimOne();
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["u"] });
        await t.add("s", "u");
        assert.notEqual((await t.unit("s", "u")).id, id);
        for (const action of ["finish", "fail", "retry", "expire", "renew"] as const)
          assert.equal((await t.settle(attempt, action, { data: data(5) })).error, "gone", action);
        assert.deepEqual(await t.c.getAttempts(t.ns, [attempt.id]), [null]);
        const unit = await t.unit("s", "u");
        assert.deepEqual([unit.status, unit.data, unit.attempts], ["available", null, 0]);
        assert.deepEqual(await t.attempts("s", "u"), []);
      },
    },

    // ---- clearing

    ...table(
      ["pending", "finished", "failed"] as const,
      (status) =>
        `clearing the active attempt of a ${status} unit makes it available, its data reverts, the history stays`,
      async (t, status) => {
        await bring(t, status);
        const { activeAttempt } = await t.unit("s", "u");
        assert.ok(activeAttempt);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { names: ["u"] }), 1);
        const unit = await t.unit("s", "u");
        assert.deepEqual(
          [unit.status, unit.data, unit.activeAttempt, unit.attempts],
          ["available", data(1), null, 1],
        );
        assert.equal((await t.attempts("s", "u"))[0]?.id, activeAttempt.id);
        assert.deepEqual(await t.claimNames(), ["u"]);
      },
    ),
    ...table(
      ["available", "delayed", "blocked"] as const,
      (status) => `clearing does not touch a unit that is ${status}`,
      async (t, status) => {
        await bring(t, status);
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { names: ["u"] }), 0);
        assert.equal(await t.status("s", "u"), status);
      },
    ),
    {
      name: "failed units are retried by query",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c");
        const [a, b, c] = await t.claim({ number: 3 });
        assert.ok(a && b && c);
        await t.settled(a, "fail");
        await t.settled(b, "finish");
        await t.settled(c, "fail");
        assert.equal(await t.c.resetWorkUnits(t.ns, "s", { statuses: ["failed"] }), 2);
        assert.deepEqual(await t.statuses("s"), { a: "available", b: "finished", c: "available" });
      },
    },
    {
      name: "whoever held a cleared attempt has lost the lease",
      async run(t) {
        await bring(t, "pending");
        const { activeAttempt } = await t.unit("s", "u");
        assert.ok(activeAttempt);
        await t.c.resetWorkUnits(t.ns, "s", { names: ["u"] });
        assert.equal((await t.settle(activeAttempt, "finish")).error, "lost_lease");
        assert.equal(await t.status("s", "u"), "available");
        const { rows } = await t.c.listWorkerAttempts(t.ns, "worker", { which: "active" });
        assert.deepEqual(rows, []);
      },
    },
  ],
};
