import assert from "node:assert/strict";
import { eachPage } from "../../core/index.ts";
import { table, type CaseGroup } from "../stack.ts";

const one = { owner: "one" };
const two = { owner: "two" };

export const locks: CaseGroup = {
  concept: "locks",
  cases: [
    {
      name: "a path is locked, read and unlocked",
      async run(t) {
        assert.equal(await t.c.lock(t.ns, { ...one, paths: [["a", "b"]] }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a", "b"], ["a"], ["a", "b", "c"], []]), [
          "one",
          null,
          null,
          null,
        ]);
        assert.equal(await t.c.unlock(t.ns, { ...one, paths: [["a", "b"]] }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a", "b"]]), [null]);
      },
    },
    ...table(
      [
        { what: "the path itself", path: ["a", "b"], ok: false },
        { what: "a path above it", path: ["a"], ok: false },
        { what: "a path below it", path: ["a", "b", "c"], ok: false },
        { what: "the root", path: [], ok: false },
        { what: "its sibling", path: ["a", "x"], ok: true },
        { what: "a path whose text only begins alike", path: ["a", "bc"], ok: true },
        { what: "a path of the same text cut otherwise", path: ["ab"], ok: true },
      ],
      ({ what, ok }) => `while a path is locked, ${what} can${ok ? "" : "not"} be locked`,
      async (t, { path, ok }) => {
        await t.c.lock(t.ns, { ...one, paths: [["a", "b"]] });
        const refusal = await t.c.lock(t.ns, { ...two, paths: [path] });
        assert.equal(refusal === null, ok);
        if (!ok) assert.deepEqual(refusal?.path, path);
      },
    ),
    {
      name: "reading locks does not create the namespace",
      async run(t) {
        await t.c.readLocks(t.ns, [["a"]]);
        assert.ok(!(await t.c.listNamespaces()).some(({ name }) => name === t.ns));
      },
    },
    {
      name: "locks are not re-entrant",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"]] });
        assert.deepEqual(await t.c.lock(t.ns, { ...one, paths: [["a"]] }), { path: ["a"], owner: "one" });
        assert.notEqual(await t.c.lock(t.ns, { ...one, paths: [["a", "b"]] }), null);
      },
    },
    {
      name: "lock is all or nothing",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["b"]] });
        assert.deepEqual(await t.c.lock(t.ns, { ...two, paths: [["a"], ["b"]] }), {
          path: ["b"],
          owner: "one",
        });
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["b"]]), [null, "one"]);
      },
    },
    {
      name: "paths of one lock call are not checked against each other",
      async run(t) {
        assert.equal(await t.c.lock(t.ns, { ...one, paths: [["a"], ["a"], ["a", "b"]] }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["a", "b"]]), ["one", "one"]);
      },
    },
    {
      name: "locking no path succeeds",
      async run(t) {
        assert.equal(await t.c.lock(t.ns, { ...one, paths: [] }), null);
        assert.deepEqual(await t.c.lockSome(t.ns, { ...one, paths: [] }), []);
      },
    },
    {
      name: "lockSome goes in order and checks each path against the locks just taken",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["x"]] });
        assert.deepEqual(await t.c.lockSome(t.ns, { ...two, paths: [["s"], ["s", "t"], ["x"], ["y"]] }), [
          true,
          false,
          false,
          true,
        ]);
        assert.deepEqual(await t.c.readLocks(t.ns, [["s"], ["s", "t"], ["x"], ["y"]]), [
          "two",
          null,
          "one",
          "two",
        ]);
      },
    },
    {
      name: "the root can be locked only when nothing is, and then nothing else can be",
      async run(t) {
        assert.equal(await t.c.lock(t.ns, { ...one, paths: [[]] }), null);
        assert.notEqual(await t.c.lock(t.ns, { ...two, paths: [["a"]] }), null);
        await t.c.unlock(t.ns, { ...one, paths: [[]] });
        assert.equal(await t.c.lock(t.ns, { ...two, paths: [["a"]] }), null);
      },
    },
    {
      name: "a lock passes after a minute when it does not say, and can then be taken",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"]] });
        await t.c.lock(t.ns, { ...one, paths: [["b"]], timeoutMs: 0 });
        await t.advance(60_000);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["b"]]), ["one", "one"]);
        await t.advance(1);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["b"]]), [null, null]);
        assert.equal(await t.c.lock(t.ns, { ...two, paths: [["a"]] }), null);
      },
    },
    {
      name: "a lock with a negative time is taken and has already passed",
      async run(t) {
        assert.equal(await t.c.lock(t.ns, { ...one, paths: [["a"]], timeoutMs: -1000 }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), [null]);
      },
    },
    {
      name: "the longest time is 1,000,000 seconds",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"]], timeoutMs: 9e12 });
        await t.advance(1_000_000_000);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), ["one"]);
        await t.advance(1);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), [null]);
      },
    },
    {
      name: "renewing extends every path, or none",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"], ["b"]], timeoutMs: 1000 });
        assert.equal(await t.c.renewLocks(t.ns, { ...one, paths: [["a"]], timeoutMs: 5000 }), null);
        await t.advance(2000);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["b"]]), ["one", null]);
        assert.deepEqual(await t.c.renewLocks(t.ns, { ...one, paths: [["a"], ["b"]], timeoutMs: 9000 }), {
          path: ["b"],
          owner: null,
        });
        await t.advance(3001);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), [null]);
      },
    },
    {
      name: "only the owner renews and unlocks",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"]] });
        assert.deepEqual(await t.c.renewLocks(t.ns, { ...two, paths: [["a"]] }), {
          path: ["a"],
          owner: "one",
        });
        assert.deepEqual(await t.c.unlock(t.ns, { ...two, paths: [["a"]] }), { path: ["a"], owner: "one" });
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), ["one"]);
      },
    },
    {
      name: "a path that is only above a lock is held by nobody",
      async run(t) {
        await t.c.lock(t.ns, { owner: "", paths: [["a", "b"]] });
        assert.deepEqual(await t.c.renewLocks(t.ns, { owner: "", paths: [["a"]] }), {
          path: ["a"],
          owner: null,
        });
        assert.deepEqual(await t.c.unlock(t.ns, { owner: "", paths: [["a"]] }), { path: ["a"], owner: null });
        assert.deepEqual(await t.c.readLocks(t.ns, [["a", "b"]]), [""]);
      },
    },
    {
      name: "unlocking is all or nothing",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a"]] });
        await t.c.lock(t.ns, { ...two, paths: [["b"]] });
        assert.notEqual(await t.c.unlock(t.ns, { ...one, paths: [["a"], ["b"]] }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"], ["b"]]), ["one", "two"]);
      },
    },
    {
      name: "listing shows what is held at and below a path, in order, a page at a time, and not what has passed",
      async run(t) {
        const lock = (owner: string, timeoutMs: number, ...path: string[]) => ({
          path,
          owner,
          deadline: t.now + timeoutMs,
        });
        const below = [
          lock("one", 5000, "a", "x", "1"),
          lock("one", 5000, "a", "y"),
          lock("two", 9000, "a", "z"),
        ];
        const all = [...below, lock("two", 9000, "ab")];
        await t.c.lock(t.ns, {
          ...one,
          timeoutMs: 5000,
          paths: [
            ["a", "y"],
            ["a", "x", "1"],
          ],
        });
        await t.c.lock(t.ns, { ...two, timeoutMs: 9000, paths: [["ab"], ["a", "z"]] });
        assert.deepEqual(await t.c.listLocks(t.ns), { rows: all, next: null });
        assert.deepEqual((await t.c.listLocks(t.ns, { path: ["a"] })).rows, below);
        assert.deepEqual((await t.c.listLocks(t.ns, { path: ["a", "y"] })).rows, [below[1]]);
        assert.deepEqual((await t.c.listLocks(t.ns, { path: ["b"] })).rows, []);
        const seen: unknown[] = [];
        for await (const rows of eachPage((from) => t.c.listLocks(t.ns, { ...from, limit: 3 }))) {
          assert.ok(rows.length <= 3);
          seen.push(...rows);
        }
        assert.deepEqual(seen, all);
        await t.advance(5001);
        assert.deepEqual((await t.c.listLocks(t.ns, { path: ["a"] })).rows, [below[2]]);
      },
    },
    {
      name: "clearing releases everything at and below a path, whoever holds it",
      async run(t) {
        await t.c.lock(t.ns, { ...one, paths: [["a", "x"]] });
        await t.c.lock(t.ns, { ...two, paths: [["a", "y"], ["ab"]] });
        await t.c.clearLocks(t.ns, ["a"]);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a", "x"], ["a", "y"], ["ab"]]), [null, null, "two"]);
      },
    },
    {
      name: "labels may hold anything: empty, NUL, separators",
      async run(t) {
        const paths = [[""], ["", ""], ["\u0000"], ["\u0001"], ["a\u0000b"], ["a", "b\u0000"], ["/"]];
        for (const path of paths.filter((path) => path.length === 1))
          assert.equal(await t.c.lock(t.ns, { ...one, paths: [path] }), null, JSON.stringify(path));
        assert.notEqual(await t.c.lock(t.ns, { ...two, paths: [["", ""]] }), null);
        assert.equal(await t.c.lock(t.ns, { ...two, paths: [["a", "b\u0000"]] }), null);
        assert.deepEqual(await t.c.readLocks(t.ns, paths), ["one", null, "one", "one", "one", "two", "one"]);
      },
    },
    {
      name: "a lock on a label that sorts after all others is below the root like any other",
      async run(t) {
        const path = ["\uffff".repeat(100)];
        await t.c.lock(t.ns, { ...one, paths: [path] });
        assert.deepEqual(
          (await t.c.listLocks(t.ns)).rows.map((lock) => lock.path),
          [path],
        );
        assert.deepEqual(await t.c.lock(t.ns, { ...two, paths: [[]] }), { path: [], owner: null });
        await t.c.clearLocks(t.ns, []);
        assert.deepEqual(await t.c.readLocks(t.ns, [path]), [null]);
      },
    },
  ],
};
