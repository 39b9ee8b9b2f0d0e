/** Typed work specs, and misspelt keys. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, expectTypeOf, test } from "vitest";
import { closestName, workSpecKeys, type WorkSpecField } from "../../src/core/index.ts";
import { defineSpec, openMemory, type WorkSpec, type WorkUnit } from "../../src/index.ts";

interface Mail {
  to: string;
}
interface Sent {
  messageId: string;
}

describe("one slip", () => {
  test.each([
    ["max_retires", "max_retries"],
    ["max_retrie", "max_retries"],
    ["max_retriess", "max_retries"],
    ["max-retries", "max_retries"],
    ["wieght", "weight"],
    ["prioritz", "priority"],
    ["thn", "then"],
    ["max_retries", null],
    ["retries", null],
    ["color", null],
    ["", null],
  ])("%s is near %s", (given, meant) => {
    expect(closestName(given, Object.keys(workSpecKeys))).toBe(meant);
  });
});

describe("defineSpec", () => {
  const mail = defineSpec<Mail, Sent>({ name: "mail", max_retries: 3 }, { own: { color: "red" } });

  test("is stored with its own keys, and gives a handle with types", async () => {
    const coordinate = openMemory();
    const spec = await coordinate.namespace("n").setWorkSpec(mail);
    expectTypeOf(spec).toEqualTypeOf<WorkSpec<Mail, Sent>>();
    expectTypeOf(coordinate.namespace("n").workSpec(mail)).toEqualTypeOf<WorkSpec<Mail, Sent>>();
    expect(await spec.data()).toEqual({ name: "mail", max_retries: 3, color: "red" });
    await spec.addWorkUnit("u", { to: "a@b" });
    await spec.addWorkUnits([["v", { to: "c@d" }], { name: "w", data: { to: "e@f" } }]);
    expect((await spec.counts()).available).toBe(3);
    await coordinate.close();
  });

  test("does not compile with a misspelt key, a wrong type or other data", () => {
    const never = (): void => {
      // @ts-expect-error Did you mean to write 'max_retries'?
      defineSpec<Mail>({ name: "mail", max_retires: 3 });
      // @ts-expect-error a weight is a number
      defineSpec<Mail>({ name: "mail", weight: "heavy" });
      // @ts-expect-error the name is missing
      defineSpec<Mail>({ weight: 3 });
      const spec = openMemory().namespace().workSpec(mail);
      // @ts-expect-error the data lacks its key
      void spec.addWorkUnit("u", {});
      // @ts-expect-error the value is not text
      void spec.addWorkUnits([["u", { to: 5 }]]);
      // @ts-expect-error the data is missing
      void spec.addWorkUnit("u");
      // @ts-expect-error and null is none
      void spec.addWorkUnit("u", null);
      // @ts-expect-error the data is missing
      void spec.addWorkUnits([["u"]]);
      // @ts-expect-error the data is missing
      void spec.addWorkUnits([{ name: "u" }]);
      // @ts-expect-error one of cron, every and at
      defineSpec<Mail>({ name: "mail", schedule: { cron: "* * * * *", every: 5 } });
      // @ts-expect-error a time zone belongs to cron
      defineSpec<Mail>({ name: "mail", schedule: { every: 5, timezone: "UTC" } });
    };
    expect(never).toBeTypeOf("function");
  });

  test("data without required keys may be omitted, and is read with its type", async () => {
    const coordinate = openMemory();
    const spec = await coordinate.namespace("n").setWorkSpec(defineSpec<Partial<Mail>>({ name: "mail" }));
    await spec.addWorkUnits([["a"], { name: "b" }, ["c", null], { name: "d", data: { to: "a@b" } }]);
    const unit = await spec.addWorkUnit("e", undefined, { priority: 1 });
    expectTypeOf(unit).toEqualTypeOf<WorkUnit<Partial<Mail>>>();
    expect((await spec.addWorkUnit("f")).data).toEqual({});
    await coordinate.close();
  });

  test("a function for any work spec can add data of its type", () => {
    const add = async <Data extends object>(spec: WorkSpec<Data>, data: Data): Promise<void> => {
      await spec.addWorkUnit("u", data);
      await spec.addWorkUnits([["u", data], { name: "v", data }]);
    };
    expect(add).toBeTypeOf("function");
  });

  test.each([
    [{ max_retires: 3 }, "Bad work spec: max_retires: not a known key; did you mean max_retries?"],
    [{ weight: 3 }, "Bad work spec: weight: a known key; put it into the first object"],
  ])("refuses the own keys %j", (own, message) => {
    expect(() => defineSpec({ name: "s" }, { own })).toThrow(message);
  });

  test("says of every key, at any depth, what the table says", () => {
    const file = path.join(import.meta.dirname, "..", "..", "src", "objects", "define-spec.ts");
    const source = readFileSync(file, "utf8").replace(/\s*\n\s*(\*(?!\/) )?/g, " ");
    const unsaid = (keys: Readonly<Record<string, WorkSpecField>>): string[] =>
      Object.entries(keys).flatMap(([key, { help, keys: inner = {} }]) => [
        ...(["?:", ":"].some((mark) => source.includes(`/** ${help} */ ${key}${mark}`)) ? [] : [key]),
        ...unsaid(inner),
      ]);
    expect(unsaid(workSpecKeys)).toEqual([]);
  });
});

describe("setWorkSpec", () => {
  test("refuses a key that is one slip away from a known one, and takes any other", async () => {
    const namespace = openMemory().namespace();
    await expect(namespace.setWorkSpec({ name: "s", max_retires: 3 })).rejects.toMatchObject({
      code: "bad_work_spec",
      message: "Bad work spec: max_retires: not a known key; did you mean max_retries?",
    });
    const spec = await namespace.setWorkSpec({ name: "s", retries: 3, color: "red" });
    await expect(spec.setData({ name: "s", wieght: 3 })).rejects.toThrow("did you mean weight?");
    await expect(namespace.setWorkSpec("mail" as never)).rejects.toThrow("Bad data: expected a JSON object");
    await expect(namespace.setWorkSpec(undefined as never)).rejects.toThrow(
      "Bad data: work spec: expected an object with a name, got undefined",
    );
    // inside a known object, unknown keys are refused
    await expect(namespace.setWorkSpec({ name: "s", retry: { atempts: 3 } })).rejects.toThrow(
      "retry.atempts: not a known key; did you mean attempts?",
    );
    await expect(namespace.setWorkSpec({ name: "s", retry: { backoff: { type: "fixed" } } })).rejects.toThrow(
      "retry.backoff.type: not a known key; expected kind, delay, max, jitter",
    );
    // the verbs, and therefore the protocols, still accept unknown keys
    await namespace.verbs.setWorkSpecs("", [{ data: '{"name":"w","max_retires":3}' as never }]);
  });

  test("warns of a key that is a known one in other letters", async () => {
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    const spec = await openMemory().namespace().setWorkSpec({ name: "s", maxRetries: 3 });
    expect((await warned).message).toBe(
      "work spec: maxRetries is stored as a key of your own; did you mean max_retries?",
    );
    expect(await spec.data()).toEqual({ name: "s", maxRetries: 3 });
  });

  test("options that are none, and units that are none, are refused", async () => {
    const spec = await openMemory().namespace().setWorkSpec({ name: "s" });
    await expect(spec.addWorkUnit("u", {}, { delay: 5 } as never)).rejects.toThrow(
      "delay: not an option of a work unit; did you mean delayMs?",
    );
    await expect(spec.addWorkUnits(["u"] as never)).rejects.toThrow(
      'units: expected [name, data] or { name, data }, got "u"',
    );
    await expect(spec.addWorkUnits([{ name: "u" }, { name: "v", priorty: 5 } as never])).rejects.toThrow(
      "priorty: not an option of a work unit; did you mean priority?",
    );
    expect(await spec.counts()).toMatchObject({ available: 0 });
    const unit = await spec.addWorkUnit("u");
    await expect(unit.result({ timeout: 1 } as never)).rejects.toThrow(
      "timeout: not an option of a wait; the options are waitMs, signal",
    );
  });
});
