import assert from "node:assert/strict";
import { present, table, type CaseGroup, type Context } from "../stack.ts";

const given = async (t: Context, labels: readonly string[] | undefined): Promise<boolean> =>
  (await t.claim(labels === undefined ? {} : { labels })).length > 0;

const rows: readonly { requires: string; labels: readonly string[]; met: boolean }[] = [
  { requires: "gpu", labels: ["gpu"], met: true },
  { requires: "gpu", labels: ["gpu=a100"], met: true },
  { requires: "gpu", labels: ["cpu"], met: false },
  { requires: "gpu", labels: ["gpus"], met: false },
  { requires: "zone=eu", labels: ["zone=eu"], met: true },
  { requires: "zone=eu", labels: ["zone=us"], met: false },
  { requires: "zone=eu", labels: ["zone"], met: false },
  { requires: "zone=eu", labels: ["zone=us", "zone=eu"], met: true },
  { requires: "zone!=us", labels: ["zone=us"], met: false },
  { requires: "zone!=us", labels: [], met: true },
  { requires: "version>=2.3", labels: ["version=2.3"], met: true },
  { requires: "version>=2.3", labels: ["version=2.10.1"], met: true },
  { requires: "version>=2.3", labels: ["version=v2.3.0"], met: true },
  { requires: "version>=2.3", labels: ["version=2.2.9"], met: false },
  { requires: "version>=2.3", labels: ["version=2.3-rc1"], met: false },
  { requires: "version>=2.3", labels: ["build=9"], met: false },
  { requires: "version<2.3", labels: ["version=2.2.9"], met: true },
  { requires: "version<2.3", labels: ["version=2.3.0"], met: false },
  { requires: "version>2", labels: ["version=2.0"], met: false },
  { requires: "version<=2", labels: ["version=2.0"], met: true },
  { requires: "version>2.08", labels: ["version=2.010"], met: true },
  { requires: "version>2.08", labels: ["version=2.8"], met: false },
  { requires: "version<3", labels: ["version"], met: false },
  { requires: "build>=20261119175500124", labels: ["build=20261119175500123"], met: false },
];

export const workerLabels: CaseGroup = {
  concept: "labels of workers",
  cases: [
    ...table(
      rows,
      ({ requires, labels, met }) =>
        `${requires} is ${met ? "" : "not "}met by ${labels.length === 0 ? "no labels" : labels.join(" and ")}`,
      async (t, { requires, labels, met }) => {
        await t.spec("s", { requires: [requires] });
        await t.add("s", "u");
        assert.equal(await given(t, labels), met);
      },
    ),
    {
      name: "a worker must meet all that is required, and one that states no labels meets none",
      async run(t) {
        const { meta } = await t.spec("s", { requires: ["gpu", "version>=2"] });
        assert.deepEqual(meta.requires, ["gpu", "version>=2"]);
        await t.add("s", "u");
        assert.equal(await given(t, undefined), false);
        assert.equal(await given(t, ["gpu"]), false);
        assert.equal(await given(t, ["version=3"]), false);
        assert.equal(await given(t, ["version=3", "gpu", "other"]), true);
      },
    },
    {
      name: "a work spec that requires nothing is for every worker",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u", "v");
        assert.equal(await given(t, ["gpu"]), true);
        assert.equal(await given(t, undefined), true);
      },
    },
    {
      name: "others are chosen in place of one that requires what the worker has not",
      async run(t) {
        await t.spec("a", { requires: ["gpu"], priority: 5 });
        await t.spec("b");
        await t.add("a", "x");
        await t.add("b", "y");
        assert.equal((await t.claimOne()).workSpec, "b");
        assert.equal((await t.claimOne({ labels: ["gpu"] })).workSpec, "a");
      },
    },
    {
      name: "explain says what is missing, and of any worker nothing",
      async run(t) {
        await t.spec("s", { requires: ["gpu", "version>=2.3"] });
        await t.add("s", "u");
        const explain = async (labels?: readonly string[]): Promise<string> =>
          present((await t.c.explain(t.ns, labels === undefined ? {} : { labels }))[0]).reason;
        assert.equal(await explain(), "has available work units");
        assert.equal(await explain([]), "requires gpu; the worker has no label gpu");
        assert.equal(
          await explain(["gpu", "version=2.1"]),
          "requires version>=2.3; the worker has version=2.1",
        );
        assert.equal(await explain(["gpu", "version=2.4"]), "has available work units");
        const [one] = await t.c.explain(t.ns, { labels: [] });
        assert.equal(one?.excluded, "needs_labels");
      },
    },
    {
      name: "what is no label and no requirement is refused",
      async run(t) {
        await t.refuses("bad_work_spec", t.spec("s", { requires: ["version => 2"] }), /requires/);
        await t.refuses("bad_work_spec", t.spec("s", { requires: "gpu" }), /requires/);
        assert.deepEqual(await t.c.getWorkSpecs(t.ns, ["s"]), [null]);
        await t.spec("s");
        await t.refuses("bad_argument", t.claim({ labels: ["version>2"] }), /labels/);
        await t.refuses("bad_argument", t.claim({ labels: [""] }), /labels/);
      },
    },
  ],
};
