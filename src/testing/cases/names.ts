import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { nameFromBytes, nameToBytes } from "../../core/index.ts";
import { table, type CaseGroup, type Context } from "../stack.ts";

const bytes = (...values: number[]): string => nameFromBytes(Uint8Array.from(values));

/** Names that other systems merge, reorder or lose. */
const hostile = [
  "",
  "\u0000",
  "\u0000a",
  " ",
  ".",
  "..",
  "/",
  "---",
  "-LQ",
  "1",
  "10",
  "2",
  "A",
  "Z",
  "__proto__",
  "a",
  "a%2Fb",
  "a/b",
  "a\nb",
  "aa",
  "constructor",
  "e\u0301",
  "{}",
  "~",
  bytes(0x80),
  "\u0080",
  "é",
  "Ω",
  "中",
  "\ufb01",
  "\uffff",
  "😀",
  bytes(0xfe),
  bytes(0xff),
  bytes(0xff, 0x62),
].sort((a, b) => Buffer.compare(nameToBytes(a), nameToBytes(b)));

async function everywhere(t: Context, name: string): Promise<void> {
  await t.spec("s");
  await t.add("s", name, "other");
  assert.equal((await t.unit("s", name)).name, name);
  const { rows } = await t.c.listWorkUnits(t.ns, "s", { names: [name] });
  assert.deepEqual(
    rows.map((row) => row.name),
    [name],
  );
  await t.c.setWorkUnitPriorities(t.ns, "s", { names: [name] }, { set: 5 });
  const attempt = await t.claimOne();
  assert.equal(attempt.workUnit, name);
  await t.settled(attempt, "finish");
  assert.deepEqual(
    (await t.attempts("s", name)).map(({ id }) => id),
    [attempt.id],
  );
  assert.equal(await t.c.deleteWorkUnits(t.ns, "s", { names: [name] }), 1);
  assert.deepEqual(Object.keys(await t.statuses("s")), ["other"]);
}

export const names: CaseGroup = {
  concept: "names",
  cases: [
    ...table(hostile, (name) => `a work unit may be named ${JSON.stringify(name)}`, everywhere),
    ...table(
      hostile.filter((name) => name !== ""),
      (name) => `a work spec may be named ${JSON.stringify(name)}`,
      async (t, name) => {
        await t.spec(name);
        await t.add(name, "u");
        assert.equal((await t.getSpec(name)).name, name);
        assert.equal((await t.claimOne({ workSpecs: [name] })).workSpec, name);
        assert.deepEqual(await t.c.deleteWorkSpecs(t.ns, [name]), [true]);
      },
    ),
    ...table(
      hostile,
      (name) => `a worker may be named ${JSON.stringify(name)}`,
      async (t, name) => {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ worker: name });
        assert.equal(attempt.worker, name);
        const { rows } = await t.c.listWorkerAttempts(t.ns, name, { which: "active" });
        assert.deepEqual(
          rows.map(({ id }) => id),
          [attempt.id],
        );
        assert.equal((await t.c.getWorkers(t.ns, [name]))[0]?.name, name);
      },
    ),
    {
      name: "two different byte strings are never merged",
      async run(t) {
        await t.spec("s");
        const both = [bytes(0x61, 0xff, 0x62), bytes(0x61, 0xfe, 0x62)];
        for (const name of both) await t.add("s", { name });
        const { rows } = await t.c.listWorkUnits(t.ns, "s");
        assert.deepEqual(
          rows.map(({ name }) => Buffer.from(nameToBytes(name)).toString("hex")),
          ["61fe62", "61ff62"],
        );
      },
    },
    {
      name: "two spellings of the same bytes are one name",
      async run(t) {
        await t.spec("s");
        await t.add("s", "\udcc3\udca9");
        await t.add("s", "é");
        assert.deepEqual(Object.keys(await t.statuses("s")), ["é"]);
      },
    },
    {
      name: "a lone surrogate that is no escaped byte is refused",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_name", t.add("s", "\ud800"));
        await t.refuses("bad_name", t.add("s", "a\udc00"));
      },
    },
    {
      name: "listings are in the order of the names' bytes",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...[...hostile].reverse());
        const { rows } = await t.c.listWorkUnits(t.ns, "s");
        assert.deepEqual(
          rows.map(({ name }) => name),
          hostile,
        );
      },
    },
    {
      name: "units of equal priority are claimed in the order of the names' bytes",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...[...hostile].reverse());
        assert.deepEqual(await t.claimNames(), hostile);
      },
    },
    {
      name: "work specs are listed in the order of the names' bytes",
      async run(t) {
        const some = ["z", "\ufb01", "😀", "A", "é"];
        for (const name of some) await t.spec(name);
        const { rows } = await t.c.listWorkSpecs(t.ns);
        assert.deepEqual(
          rows.map(({ name }) => name),
          ["A", "z", "é", "\ufb01", "😀"],
        );
      },
    },
    {
      name: "a page goes on after any name, whatever its bytes",
      async run(t) {
        await t.spec("s");
        await t.add("s", ...hostile);
        const seen: string[] = [];
        for (let previous: string | null = null, first = true; first || previous !== null; first = false) {
          const query: { limit: number; previous?: string } = { limit: 1 };
          if (previous !== null) query.previous = previous;
          const page: { rows: { name: string }[]; next: string | null } = await t.c.listWorkUnits(
            t.ns,
            "s",
            query,
          );
          seen.push(...page.rows.map(({ name }) => name));
          previous = page.next;
        }
        assert.deepEqual(seen, hostile);
      },
    },
    ...table(
      [
        { what: "a work spec name of 1,024 bytes is stored", length: 1024, ok: true },
        {
          what: "a work spec name of 1,025 bytes is too large, and nothing is stored",
          length: 1025,
          ok: false,
        },
      ],
      ({ what }) => what,
      async (t, { length, ok }) => {
        const name = "é".repeat(length / 2) + "x".repeat(length % 2);
        if (ok) assert.equal((await t.spec(name)).name, name);
        else {
          await t.refuses("too_large", t.spec(name), /1024/);
          assert.deepEqual((await t.c.listWorkSpecs(t.ns)).rows, []);
        }
      },
    ),
    {
      name: "a work unit name of 4,096 bytes is stored, of 4,097 too large with nothing stored",
      async run(t) {
        await t.spec("s");
        await t.add("s", "x".repeat(4096));
        await t.refuses("too_large", t.add("s", "a", "y".repeat(4097)), /4096/);
        await t.refuses("too_large", t.add("s", "中".repeat(1366)), /4096/);
        assert.deepEqual(Object.keys(await t.statuses("s")), ["x".repeat(4096)]);
      },
    },
    ...table(
      [2599, 2600, 2601, 2700, 4000],
      (length) =>
        `names of more than ${length} bytes are listed, paged, found and claimed in the order of their bytes`,
      async (t, length) => {
        await t.spec("s");
        const head = "x".repeat(length);
        const names = ["", "\u0001", "a", "a\u0001", "b", "c", "ca", "d", "é", "\u{1f600}"].map(
          (end) => head + end,
        );
        await t.add("s", ...[...names].reverse());
        assert.deepEqual(Object.keys(await t.statuses("s")), names);
        const page = await t.c.listWorkUnits(t.ns, "s", { previous: head + "b", limit: 2 });
        assert.deepEqual(
          page.rows.map(({ name }) => name),
          names.slice(5, 7),
        );
        const found = await t.c.listWorkUnits(t.ns, "s", { prefix: head + "c" });
        assert.deepEqual(
          found.rows.map(({ name }) => name),
          names.slice(5, 7),
        );
        assert.deepEqual(await t.claimNames(), names);
      },
    ),
    {
      // an index with entries of limited length may shorten names by a hash, and must still tell these apart
      name: "a name that looks like a long one shortened to 2,600 bytes by a hash is another name",
      async run(t) {
        await t.spec("s");
        const long = Buffer.from("x".repeat(3000));
        const hash = createHash("sha256").update(long).digest();
        const names = [bytes(...Buffer.concat([long.subarray(0, 2568), hash])), long.toString()];
        await t.add("s", ...names);
        for (const name of names) assert.equal((await t.unit("s", name)).name, name);
        assert.equal((await t.c.listWorkUnits(t.ns, "s")).rows.length, 2);
      },
    },
    {
      name: "a worker name of 1,025 bytes is too large",
      async run(t) {
        await t.refuses("too_large", t.claim({ worker: "w".repeat(1025) }));
        await t.refuses("too_large", t.c.updateWorkers(t.ns, [{ name: "w".repeat(1025) }]));
        assert.deepEqual((await t.c.listWorkers(t.ns)).rows, []);
      },
    },
    {
      name: "a namespace name of 1,025 bytes is too large",
      async run(t) {
        const data = (await t.spec("s")).data;
        await t.refuses("too_large", t.c.setWorkSpecs("n".repeat(1025), [{ data }]));
      },
    },
    {
      name: "an empty work spec name is refused",
      async run(t) {
        await t.refuses("no_work_spec_name", t.spec(""));
      },
    },
  ],
};
