/** Types flow from the work spec through units, tasks and results to the next work spec. */
import assert from "node:assert/strict";
import { describe, expect, expectTypeOf, it } from "vitest";
import {
  defineSpec,
  WorkUnitFailedError,
  type StandardSchema,
  type WorkSpec,
  type WorkUnit,
} from "../../src/index.ts";
import { defineTask, Worker, type TypedUnit } from "../../src/worker/index.ts";
import { bench, until } from "./setup.ts";

interface Page {
  url: string;
}
interface Fetched {
  bytes: number;
  output: Record<string, Words>;
}
interface Words {
  text: string;
}

const count = defineSpec<Words, { words: number }>({ name: "count" });
const fetchPage = defineSpec<Page, Fetched>({ name: "fetch", then: count });

/** A schema like those of schema libraries. */
const pageSchema: StandardSchema<Page> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "object" && value !== null && "url" in value && typeof value.url === "string"
        ? { value: { url: value.url.toLowerCase() } }
        : { issues: [{ message: "expected text", path: ["url"] }] },
  },
};

describe("types", () => {
  it("go through add, task, result and the next work spec, without a cast", async () => {
    const t = bench();
    const pages = await t.ns.setWorkSpec(fetchPage);
    const counts = await t.ns.setWorkSpec(count);
    expectTypeOf(pages).toEqualTypeOf<WorkSpec<Page, Fetched>>();
    const tasks = [
      defineTask(fetchPage, (unit) => {
        expectTypeOf(unit).toEqualTypeOf<TypedUnit<Page, Fetched>>();
        expectTypeOf(unit.data.url).toBeString();
        return { bytes: 3, output: { [unit.name]: { text: `${unit.data.url} two` } } };
      }),
      defineTask(count, ({ data }) => ({ words: data.text.split(" ").length })),
    ];
    t.start({ tasks });
    const unit = await pages.addWorkUnit("a", { url: "http://a" });
    expectTypeOf(unit).toEqualTypeOf<WorkUnit<Page, Fetched>>();
    const { bytes } = await unit.result();
    // the data of an attempt is what its unit was given, or the result
    expectTypeOf(unit.activeAttempt!.data).toEqualTypeOf<Page | Fetched>();
    expectTypeOf((await unit.attempts())[0]!.data).toEqualTypeOf<Page | Fetched>();
    expect(unit.activeAttempt?.data).toMatchObject({ bytes: 3 });
    expectTypeOf(bytes).toBeNumber();
    expect(bytes).toBe(3);
    const [counted] = await counts.wait(["a"]);
    assert.ok(counted !== undefined);
    const { words } = await counted.result();
    expectTypeOf(words).toBeNumber();
    expect(words).toBe(2);
  });

  it("refuse what is wrong where it is written", () => {
    const never = async (): Promise<void> => {
      const t = bench();
      const pages = t.ns.workSpec(fetchPage);
      // @ts-expect-error a misspelt key of the data
      await pages.addWorkUnit("u", { ulr: "http://a" });
      // @ts-expect-error a wrong type of the data
      await pages.addWorkUnits([["u", { url: 5 }]]);
      // @ts-expect-error the data has no such key
      defineTask(fetchPage, ({ data }) => ({ bytes: String(data.size).length, output: {} }));
      // @ts-expect-error the result lacks its output
      defineTask(fetchPage, () => ({ bytes: 1 }));
      // @ts-expect-error a wrong type of the result
      defineTask(count, () => ({ words: "two" }));
      // @ts-expect-error the result has no such key
      assert.ok((await (await pages.workUnit("u")).result()).size);
      // @ts-expect-error the outputs are not what the next work spec takes
      defineSpec<Page, { output: Record<string, { txt: string }> }>({ name: "x", then: count });
      // @ts-expect-error nor in a list of pairs
      defineSpec<Page, { output: [string, { txt: string }][] }>({ name: "x", then: count });
      defineSpec<Page, { output: [string, Words][] }>({ name: "x", then: count });
      // @ts-expect-error the units of names alone have no data
      defineSpec<Page, { output: string[] }>({ name: "x", then: count });
      // @ts-expect-error nor have those of lists with a name alone
      defineSpec<Page, { output: [string][] }>({ name: "x", then: count });
      // @ts-expect-error results without output make no units
      defineSpec<Page, { bytes: number }>({ name: "x", then: count });
      defineSpec<Page, { bytes: number }>({ name: "x", then: "count" });
      defineSpec<Page, { output: string[] }>({ name: "x", then: defineSpec({ name: "any" }) });
      defineSpec<Page, { output: string[] }>({
        name: "x",
        then: defineSpec<{ tone?: string }>({ name: "any" }),
      });
      defineSpec<Page, { output?: Record<string, Words> } | { bytes: number }>({ name: "x", then: count });
      defineSpec({ name: "x", then: count });
      // @ts-expect-error the result is missing
      defineTask(count, () => {});
      // @ts-expect-error a result is missing in one case
      defineTask(count, ({ data }) => (data.text === "" ? undefined : { words: 1 }));
      // @ts-expect-error also in an async function
      defineTask(count, () => Promise.resolve());
      // without a return value, the data is the result
      defineTask(defineSpec<Page, Page>({ name: "x" }), () => {});
      defineTask(defineSpec<Page, { url?: string }>({ name: "x" }), async () => {});
      defineTask(defineSpec<Page>({ name: "x" }), () => {});
      defineTask(defineSpec<Page, object>({ name: "x" }), () => {});
      // @ts-expect-error a result is an object, not a list
      new Worker(t.ns, { tasks: { list: () => [1, 2] } });
      // @ts-expect-error also from an async function
      new Worker(t.ns, { tasks: { list: () => Promise.resolve([1, 2]) } });
      new Worker(t.ns, { tasks: { fine: () => ({ length: 1 }), page: (): Page => ({ url: "" }) } });
      // @ts-expect-error not a task that defineTask made
      new Worker(t.ns, { tasks: [() => undefined] });
    };
    expect(never).toBeTypeOf("function");
  });
});

describe("a schema", () => {
  const checked = defineSpec({ name: "fetch" }, { data: pageSchema });

  it("gives the types, refuses bad data where it is added, and stores what was given", async () => {
    const t = bench();
    const spec = await t.ns.setWorkSpec(checked);
    expectTypeOf(spec).toEqualTypeOf<WorkSpec<Page>>();
    const untyped = JSON.parse('{"url":5}') as Page;
    const refusal = { code: "bad_data", message: 'Bad data: work unit "u": url: expected text' };
    await expect(spec.addWorkUnit("u", untyped)).rejects.toMatchObject(refusal);
    await expect(spec.addWorkUnits([["u", untyped]])).rejects.toMatchObject(refusal);
    // @ts-expect-error the data is missing
    await expect(t.ns.workSpec(checked).addWorkUnit("u")).rejects.toMatchObject(refusal);
    expect((await spec.counts()).available).toBe(0);
    expect((await spec.addWorkUnit("u", { url: "HTTP://A" })).data).toEqual({ url: "HTTP://A" });
  });

  it("hands the task what it made of the data, and fails a unit for good whose data it refuses", async () => {
    const t = bench();
    await t.ns.setWorkSpec(checked);
    const seen: string[] = [];
    t.start({ tasks: [defineTask(checked, ({ data }) => void seen.push(data.url))] });
    await t.ns.workSpec("fetch").addWorkUnits([
      ["good", { url: "HTTP://A" }],
      ["wrong", { url: 5 }],
    ]);
    await until("both have ended", async () => (await t.status("fetch", "wrong")) === "failed");
    await until("both have ended", async () => (await t.status("fetch", "good")) === "finished");
    assert.deepEqual(seen, ["http://a"]);
    assert.equal((await t.data("fetch", "wrong")).traceback, "Bad data: data: url: expected text");
  });

  it("says that a task needs a definition, not a name", () => {
    const named = "fetch" as unknown as typeof fetchPage;
    expect(() => defineTask(named, () => ({ bytes: 0, output: {} }))).toThrow(
      'definition: expected a work spec of defineSpec, got "fetch"',
    );
  });

  it("refuses a result", async () => {
    const t = bench();
    const spec = defineSpec<object, Page>({ name: "s" }, { result: pageSchema });
    const units = await t.ns.setWorkSpec(spec);
    t.start({ tasks: [defineTask(spec, () => JSON.parse("{}") as Page)] });
    const unit = await units.addWorkUnit("u");
    await assert.rejects(unit.result(), (error) => {
      assert.ok(error instanceof WorkUnitFailedError);
      assert.equal(error.message, "work unit u of s failed: Bad data: result: url: expected text");
      return true;
    });
  });
});

describe("a list of tasks", () => {
  it("runs under the names of the work specs, or of their task key", async () => {
    const t = bench();
    const named = defineSpec({ name: "named", task: "shared" });
    const spec = await t.ns.setWorkSpec(named);
    const task = defineTask(named, () => ({ ran: true }));
    assert.equal(task.taskName, "shared");
    t.start({ tasks: [task] });
    const unit = await spec.addWorkUnit("u");
    assert.deepEqual(await unit.result(), { ran: true });
  });

  it.each([
    [[() => undefined], "tasks[0]: expected a task from defineTask; put other tasks into an object, by name"],
    [
      [defineTask(count, () => ({ words: 1 })), defineTask(count, () => ({ words: 2 }))],
      'tasks[1]: duplicate task "count"',
    ],
  ])("refuses %s", (tasks, message) => {
    const t = bench();
    expect(() => new Worker(t.ns, { tasks: tasks as never })).toThrow(message);
  });
});
