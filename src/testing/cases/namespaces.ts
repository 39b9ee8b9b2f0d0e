import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import type { CaseGroup } from "../stack.ts";

export const namespaces: CaseGroup = {
  concept: "namespaces",
  cases: [
    {
      name: "a namespace exists once something was put into it",
      async run(t) {
        const names = async (): Promise<string[]> => (await t.c.listNamespaces()).map(({ name }) => name);
        assert.ok(!(await names()).includes(t.ns));
        await t.spec("s");
        assert.ok((await names()).includes(t.ns));
      },
    },
    {
      name: "namespaces are listed in name order",
      async run(t) {
        for (const suffix of [" b", " a", " é", " A"]) await t.c.setNamespace(t.ns + suffix, {});
        const names = (await t.c.listNamespaces())
          .map(({ name }) => name)
          .filter((name) => name.startsWith(t.ns));
        assert.deepEqual(names, [t.ns + " A", t.ns + " a", t.ns + " b", t.ns + " é"]);
      },
    },
    {
      name: "the empty name is a namespace like any other",
      async run(t) {
        const spec = `default ${t.ns}`;
        await t.c.setWorkSpecs("", [{ data: encodeData({ name: spec }) }]);
        assert.equal((await t.c.getWorkSpecs("", [spec]))[0]?.name, spec);
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, [spec]), [null]);
        assert.deepEqual(await t.c.deleteWorkSpecs("", [spec]), [true]);
      },
    },
    {
      name: "no state is shared: specs, units, workers and locks of one are not seen in another",
      async run(t) {
        const other = `${t.ns} other`;
        await t.spec("s");
        await t.add("s", "u");
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        await t.c.lock(t.ns, { owner: "o", paths: [["a"]] });
        assert.deepEqual((await t.c.listWorkSpecs(other)).rows, []);
        await t.refuses("no_such_work_spec", t.c.listWorkUnits(other, "s"));
        assert.deepEqual((await t.c.listWorkers(other)).rows, []);
        assert.deepEqual(await t.c.readLocks(other, [["a"]]), [null]);
        assert.deepEqual(await t.c.requestAttempts(other, { worker: "w" }), []);
        assert.deepEqual(await t.c.tally(other), []);
      },
    },
    {
      name: "an attempt of one namespace cannot be seen or settled from another",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        const other = `${t.ns} other`;
        await t.c.setNamespace(other, {});
        assert.deepEqual(await t.c.getAttempts(other, [attempt.id]), [null]);
        const [changed] = await t.c.settleAttempts(other, [{ attempt: attempt.id, action: "finish" }]);
        assert.equal(changed?.error, "no_such_attempt");
        assert.equal(await t.status("s", "u"), "pending");
      },
    },
    {
      name: "deleting a namespace deletes all that is in it",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        await t.c.updateWorkers(t.ns, [{ name: "w", active: true }]);
        await t.c.lock(t.ns, { owner: "o", paths: [["a"]] });
        await t.c.setNamespace(t.ns, { policy: "python" });
        await t.c.deleteNamespace(t.ns);
        assert.ok(!(await t.c.listNamespaces()).some(({ name }) => name === t.ns));
        assert.deepEqual((await t.c.listWorkSpecs(t.ns)).rows, []);
        assert.deepEqual((await t.c.listWorkers(t.ns)).rows, []);
        assert.deepEqual(await t.c.readLocks(t.ns, [["a"]]), [null]);
        assert.equal((await t.c.getNamespace(t.ns)).settings.policy, "weighted");
        assert.deepEqual(await t.c.tally(t.ns), []);
      },
    },
    {
      name: "after a namespace is deleted and made again, old attempts are gone",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        await t.c.deleteNamespace(t.ns);
        await t.spec("s");
        await t.add("s", "u");
        assert.equal((await t.settle(attempt, "finish")).error, "gone");
        assert.deepEqual(await t.c.getAttempts(t.ns, [attempt.id]), [null]);
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "deleting a namespace that does not exist is no error",
      async run(t) {
        await t.c.deleteNamespace(t.ns);
      },
    },
    {
      name: "a namespace's settings are the defaults until they are set, and are kept",
      async run(t) {
        assert.deepEqual(await t.c.getNamespace(t.ns), {
          name: t.ns,
          settings: { policy: "weighted", share: "choices", desired: "run" },
        });
        await t.c.setNamespace(t.ns, { policy: "python" });
        await t.c.setNamespace(t.ns, { desired: "idle" });
        await t.c.setNamespace(t.ns, { share: "time" });
        assert.deepEqual((await t.c.getNamespace(t.ns)).settings, {
          policy: "python",
          share: "time",
          desired: "idle",
        });
      },
    },
    {
      name: "an unknown policy or setting is refused, and nothing is changed",
      async run(t) {
        await t.refuses("bad_argument", t.c.setNamespace(t.ns, { policy: "fair" as "python" }), /policy/);
        await t.refuses("bad_argument", t.c.setNamespace(t.ns, { colour: "red" } as object), /colour/);
        assert.equal((await t.c.getNamespace(t.ns)).settings.policy, "weighted");
      },
    },
  ],
};
