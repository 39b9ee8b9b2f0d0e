import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const minute = 60_000;
const worker = async (t: Context, name: string) => present((await t.c.getWorkers(t.ns, [name]))[0]);
const names = async (t: Context, query: object = {}): Promise<string[]> =>
  (await t.c.listWorkers(t.ns, query)).rows.map(({ name }) => name);

export const workers: CaseGroup = {
  concept: "workers",
  cases: [
    {
      name: "a worker is created by its first request for work: active for 15 minutes, without parent, mode and data",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        await t.claim({ worker: "w" });
        assert.deepEqual(await worker(t, "w"), {
          name: "w",
          parent: null,
          active: true,
          mode: "",
          data: null,
          lastUpdate: t.now,
          expiration: t.now + 15 * minute,
          desired: "run",
        });
      },
    },
    {
      name: "a worker is created by its first request for work also when there is none",
      async run(t) {
        assert.deepEqual(await t.claim({ worker: "w" }), []);
        assert.equal((await worker(t, "w")).active, true);
      },
    },
    {
      name: "a worker is created by its first request also where the names of namespace and worker, put together, are those of another",
      async run(t) {
        const other = `${t.ns}\u0000a`;
        await t.c.requestAttempts(t.ns, { worker: "a\u0000b" });
        await t.c.requestAttempts(other, { worker: "b" });
        assert.equal((await t.c.getWorkers(other, ["b"]))[0]?.active, true);
      },
    },
    {
      name: "a worker is created again by its request for work after its namespace was deleted",
      async run(t) {
        assert.deepEqual(await t.claim({ worker: "w" }), []);
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await t.claim({ worker: "w" }), []);
        assert.equal((await worker(t, "w")).active, true);
      },
    },
    {
      name: "a worker that is not known is null",
      async run(t) {
        assert.deepEqual(await t.c.getWorkers(t.ns, ["nobody"]), [null]);
      },
    },
    {
      name: "a check-in stores mode and data, and makes it active for 15 minutes from now",
      async run(t) {
        const data = encodeData({ pid: 7 });
        const [row] = await t.c.updateWorkers(t.ns, [{ name: "w", active: true, mode: "RUN", data }]);
        assert.deepEqual(
          [row?.mode, row?.data, row?.active, row?.expiration],
          ["RUN", data, true, t.now + 15 * minute],
        );
        await t.advance(10 * minute);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        const after = await worker(t, "w");
        assert.deepEqual(
          [after.mode, after.data, after.lastUpdate, after.expiration],
          ["RUN", data, t.now, t.now + 15 * minute],
        );
      },
    },
    {
      name: "a check-in may say its own times",
      async run(t) {
        const [row] = await t.c.updateWorkers(t.ns, [
          { name: "w", active: true, lastUpdate: t.now - 5, expiration: t.now + 500 },
        ]);
        assert.deepEqual([row?.lastUpdate, row?.expiration], [t.now - 5, t.now + 500]);
      },
    },
    {
      name: "a worker past its expiration is inactive, and active again after a check-in",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true, expiration: t.now + 1000 }]);
        await t.advance(999);
        assert.equal((await worker(t, "w")).active, true);
        await t.advance(1);
        assert.equal((await worker(t, "w")).active, false);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        assert.equal((await worker(t, "w")).active, true);
      },
    },
    {
      name: "a deactivated worker is inactive, keeps its data, and is active again after a check-in",
      async run(t) {
        const data = encodeData({ pid: 7 });
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true, data }]);
        const [row] = await t.c.updateWorkers(t.ns, [{ name: "w", active: false }]);
        assert.deepEqual([row?.active, row?.data], [false, data]);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        assert.equal((await worker(t, "w")).active, true);
      },
    },
    {
      name: "setting a parent changes nothing else, and creates a parent that is not known",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true, mode: "RUN" }]);
        const before = await worker(t, "w");
        await t.advance(1000);
        await t.c.updateWorkers(t.ns, [{ name: "w", parent: "boss" }]);
        assert.deepEqual(await worker(t, "w"), { ...before, parent: "boss" });
        assert.equal((await worker(t, "boss")).parent, null);
      },
    },
    {
      name: "setting a parent leaves an inactive worker inactive",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        await t.c.updateWorkers(t.ns, [{ name: "w", active: false }]);
        await t.c.updateWorkers(t.ns, [{ name: "w", parent: "boss" }]);
        assert.equal((await worker(t, "w")).active, false);
      },
    },
    {
      name: "a parent can be changed and cleared",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "w", parent: "one" }]);
        await t.c.updateWorkers(t.ns, [{ name: "w", parent: "two" }]);
        assert.deepEqual(await names(t, { parent: "one" }), []);
        assert.deepEqual(await names(t, { parent: "two" }), ["w"]);
        await t.c.updateWorkers(t.ns, [{ name: "w", parent: null }]);
        assert.equal((await worker(t, "w")).parent, null);
        assert.deepEqual(await names(t, { parent: "two" }), []);
      },
    },
    {
      name: "cycles of parents are refused, and nothing is changed",
      async run(t) {
        await t.refuses("worker_cycle", t.c.updateWorkers(t.ns, [{ name: "w", parent: "w" }]));
        await t.c.updateWorkers(t.ns, [
          { name: "b", parent: "a" },
          { name: "c", parent: "b" },
        ]);
        await t.refuses(
          "worker_cycle",
          t.c.updateWorkers(t.ns, [
            { name: "x", mode: "x", active: true },
            { name: "a", parent: "c" },
          ]),
        );
        assert.equal((await worker(t, "a")).parent, null);
        assert.deepEqual(await t.c.getWorkers(t.ns, ["x"]), [null]);
        await t.refuses(
          "worker_cycle",
          t.c.updateWorkers(t.ns, [
            { name: "y", parent: "z" },
            { name: "z", parent: "y" },
          ]),
        );
      },
    },
    {
      name: "a parent may be cleared and set in one call without a cycle",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "b", parent: "a" }]);
        await t.c.updateWorkers(t.ns, [
          { name: "b", parent: null },
          { name: "a", parent: "b" },
        ]);
        assert.equal((await worker(t, "a")).parent, "b");
      },
    },
    {
      name: "a desired state is given to a worker and taken back",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        await t.c.updateWorkers(t.ns, [{ name: "w", desired: "idle" }]);
        assert.equal((await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]))[0]?.desired, "idle");
        await t.c.updateWorkers(t.ns, [{ name: "w", desired: null }]);
        assert.equal((await worker(t, "w")).desired, "run");
      },
    },
    {
      name: "a namespace's desired state holds for all its workers, but for those with their own",
      async run(t) {
        await t.c.updateWorkers(t.ns, [{ name: "a" }, { name: "b", desired: "run" }]);
        await t.c.setNamespace(t.ns, { desired: "terminate" });
        await t.c.updateWorkers(t.ns, [{ name: "late" }]);
        assert.deepEqual(
          (await t.c.listWorkers(t.ns)).rows.map(({ name, desired }) => [name, desired]),
          [
            ["a", "terminate"],
            ["b", "run"],
            ["late", "terminate"],
          ],
        );
      },
    },
    {
      name: "an unknown desired state is refused",
      async run(t) {
        await t.refuses(
          "bad_argument",
          t.c.updateWorkers(t.ns, [{ name: "w", desired: "dance" as "run" }]),
          /desired/,
        );
        assert.deepEqual(await t.c.getWorkers(t.ns, ["w"]), [null]);
      },
    },
    {
      name: "workers are listed in name order, in pages",
      async run(t) {
        await t.c.updateWorkers(
          t.ns,
          ["c", "a", "é", "b"].map((name) => ({ name })),
        );
        const first = await t.c.listWorkers(t.ns, { limit: 3 });
        assert.deepEqual([first.rows.map(({ name }) => name), first.next], [["a", "b", "c"], "c"]);
        const rest = await t.c.listWorkers(t.ns, { limit: 3, previous: "c" });
        assert.deepEqual([rest.rows.map(({ name }) => name), rest.next], [["é"], null]);
      },
    },
    {
      name: "workers are filtered: active, root, by prefix, by parent, by names",
      async run(t) {
        await t.c.updateWorkers(t.ns, [
          { name: "p", active: true },
          { name: "p1", active: true, parent: "p" },
          { name: "p2", active: true, parent: "p" },
          { name: "q", active: true },
        ]);
        await t.c.updateWorkers(t.ns, [
          { name: "p2", active: false },
          { name: "q", active: false },
        ]);
        assert.deepEqual(await names(t, { active: true }), ["p", "p1"]);
        assert.deepEqual(await names(t, { active: false }), ["p2", "q"]);
        assert.deepEqual(await names(t, { root: true }), ["p", "q"]);
        assert.deepEqual(await names(t, { prefix: "p" }), ["p", "p1", "p2"]);
        assert.deepEqual(await names(t, { parent: "p", active: true }), ["p1"]);
        assert.deepEqual(await names(t, { names: ["q", "p", "x"] }), ["p", "q"]);
        assert.deepEqual(await names(t, { names: [] }), []);
      },
    },
    {
      name: "asking for work does not change a worker that is known",
      async run(t) {
        await t.spec("s");
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true, mode: "RUN" }]);
        const before = await worker(t, "w");
        await t.advance(1000);
        await t.claim({ worker: "w" });
        assert.deepEqual(await worker(t, "w"), before);
      },
    },
  ],
};
