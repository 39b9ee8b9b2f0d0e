import assert from "node:assert/strict";
import { cborData, encodeData, type Data } from "../../core/index.ts";
import { present, sameData, type CaseGroup } from "../stack.ts";

export const actions: CaseGroup = {
  concept: "actions",
  cases: [
    {
      name: "a record is stored under its key, in the encoding it came in",
      async run(t) {
        const json = encodeData({ code: "x", deep: { a: [1, "é"] } });
        const cbor = cborData(Uint8Array.of(0xa1, 0x61, 0x61, 0xf9, 0x3c, 0x00));
        assert.deepEqual(
          await t.c.putActions(t.ns, [
            { key: "one", data: json },
            { key: "two", data: cbor },
          ]),
          [true, true],
        );
        const [two, none, one] = await t.c.getActions(t.ns, ["two", "none", "one"]);
        assert.equal(none, null);
        sameData(present(one).data, json);
        sameData(present(two).data, cbor);
        assert.equal(present(one).key, "one");
        assert.equal(present(one).createdTime, t.now);
      },
    },
    {
      name: "the same record again is no change, another one under its key is refused, and nothing is stored",
      async run(t) {
        const data = encodeData({ n: 1 });
        await t.c.putActions(t.ns, [{ key: "k", data }]);
        await t.advance(10);
        assert.deepEqual(
          await t.c.putActions(t.ns, [
            { key: "k", data },
            { key: "new", data },
            { key: "new", data },
          ]),
          [false, true, false],
        );
        const other = encodeData({ n: 2 });
        await t.refuses(
          "name_exists",
          t.c.putActions(t.ns, [
            { key: "fresh", data },
            { key: "k", data: other },
          ]),
          /\bk\b/,
        );
        await t.refuses(
          "name_exists",
          t.c.putActions(t.ns, [
            { key: "fresh", data },
            { key: "fresh", data: other },
          ]),
          /fresh/,
        );
        const [k, fresh] = await t.c.getActions(t.ns, ["k", "fresh"]);
        assert.equal(fresh, null);
        sameData(present(k).data, data);
        assert.equal(present(k).createdTime, t.now - 10);
      },
    },
    {
      name: "records are listed by page in the order of keys, and deleted",
      async run(t) {
        const data = encodeData({});
        const keys = ["b", "a", "é", "z", "\u{1f600}"];
        await t.c.putActions(
          t.ns,
          keys.map((key) => ({ key, data })),
        );
        const listed: string[] = [];
        let previous: string | undefined;
        for (;;) {
          const { rows, next } = await t.c.listActions(t.ns, {
            limit: 2,
            ...(previous !== undefined && { previous }),
          });
          listed.push(...rows.map(({ key }) => key));
          if (next === null) break;
          previous = next;
        }
        assert.deepEqual(listed, ["a", "b", "z", "é", "\u{1f600}"]);
        assert.deepEqual(await t.c.deleteActions(t.ns, ["a", "none", "z"]), [true, false, true]);
        assert.deepEqual(
          (await t.c.listActions(t.ns)).rows.map(({ key }) => key),
          ["b", "é", "\u{1f600}"],
        );
        assert.deepEqual(await t.c.putActions(t.ns, [{ key: "a", data: encodeData({ n: 2 }) }]), [true]);
      },
    },
    {
      name: "records are their namespace's, and go with it",
      async run(t) {
        const data = encodeData({});
        await t.c.putActions(t.ns, [{ key: "k", data }]);
        assert.ok((await t.c.listNamespaces()).some(({ name }) => name === t.ns));
        assert.deepEqual(await t.c.getActions(`${t.ns} other`, ["k"]), [null]);
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await t.c.getActions(t.ns, ["k"]), [null]);
        assert.deepEqual((await t.c.listActions(t.ns)).rows, []);
        assert.deepEqual(await t.c.putActions(t.ns, [{ key: "k", data: encodeData({ n: 2 }) }]), [true]);
      },
    },
    {
      name: "of several conflicts the first in the order given is named",
      async run(t) {
        const records = (n: number, ...keys: string[]) =>
          keys.map((key) => ({ key, data: encodeData({ n }) }));
        await t.c.putActions(t.ns, records(1, "k1", "k2", "k3"));
        await t.refuses("name_exists", t.c.putActions(t.ns, records(2, "new", "k3", "k1", "k2")), /k3/);
        await t.refuses("name_exists", t.c.putActions(t.ns, records(2, "k2", "k1")), /k2/);
        const twice = [...records(1, "new"), ...records(2, "k1"), ...records(2, "new")];
        await t.refuses("name_exists", t.c.putActions(t.ns, twice), /k1/);
        assert.equal((await t.c.listActions(t.ns)).rows.length, 3);
      },
    },
    {
      name: "what is no record is refused, and nothing is stored",
      async run(t) {
        const data = encodeData({});
        await t.refuses("bad_name", t.c.putActions(t.ns, [{ key: "", data }]), /action/);
        await t.refuses("bad_data", t.c.putActions(t.ns, [{ key: "k", data: null as unknown as Data }]));
        await t.refuses("too_large", t.c.getActions(t.ns, ["k".repeat(1025)]), /action/);
        assert.deepEqual((await t.c.listActions(t.ns)).rows, []);
      },
    },
    {
      name: "of two who store other data under one key at the same time one is refused",
      async run(t) {
        const results = await Promise.allSettled(
          [1, 2, 3, 4].map((n) => t.c.putActions(t.ns, [{ key: "k", data: encodeData({ n }) }])),
        );
        assert.equal(results.filter(({ status }) => status === "fulfilled").length, 1);
        assert.equal((await t.c.listActions(t.ns)).rows.length, 1);
      },
    },
  ],
};
