/** The guarantees for actions: one record per function, identified by its hash. */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  actionKey,
  actionSchema,
  schemas,
  type Action,
  type Job,
  type JobPool,
  type Jobs,
} from "../../../src/jobs/index.ts";
import { Bench, fn, quick, quickSingle, type Stack } from "../stack.ts";

async function actionsOf(jobs: Jobs): Promise<Action[]> {
  const found: Action[] = [];
  for await (const action of jobs.actions()) found.push(action);
  return found;
}

export function actionSuite(stack: Stack): void {
  describe(`action on ${stack.name}`, () => {
    let bench: Bench;
    let jobs: Jobs;
    let pool: JobPool;
    beforeAll(async () => {
      bench = await Bench.open(stack);
      jobs = bench.jobs();
      pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
    }, 120_000);
    afterAll(async () => {
      await pool.stop({ graceful: false });
      await bench.close();
    });

    test("A1 action: the name and the code of a function", async () => {
      const own = bench.jobs({ inline: true });
      await own.allowInline();
      const job = await own.schedule(function twice(n: number) {
        return 2 * n;
      });
      const action = await own.action((await job.load()).action_id);
      expect(action.methodname).toBe("twice");
      expect(action.code).toMatch(/^function twice\(n\)[^]*return 2 \* n/);
    });

    test("A2 key: the hash of its content, by which it is found", async () => {
      const job = await jobs.schedule(fn("add"), { args: [1, 2] });
      const { action_id } = await job.load();
      expect(action_id).toMatch(/^[0-9a-f]{64}$/);
      expect(actionKey(await jobs.action(action_id))).toBe(action_id);
      await expect(jobs.action("0".repeat(64))).rejects.toMatchObject({ code: "bad_argument" });
    });

    test("A3 shared: many jobs on one function have one record, other code has another", async () => {
      const own = bench.jobs({ inline: true });
      await own.allowInline();
      const handles = await own.scheduleAll(
        Array.from({ length: 20 }, (_, i) => ({ fn: fn("add"), args: [i, i] })),
      );
      const first = await own.schedule(() => 1);
      const same = await own.schedule(() => 1);
      const other = await own.schedule(() => 2);
      expect(await actionsOf(own)).toHaveLength(3);
      const keys = await Promise.all(handles.map(async (job) => (await job.load()).action_id));
      expect(new Set(keys).size).toBe(1);
      expect((await first.load()).action_id).toBe((await same.load()).action_id);
      expect((await first.load()).action_id).not.toBe((await other.load()).action_id);
    });

    test("A4 reference: the job stores the key and never the code", async () => {
      const own = bench.jobs({ inline: true });
      await own.allowInline();
      const job = await own.schedule(() => "a-word-of-the-code");
      const [row] = await bench.coordinate.getWorkUnits(own.namespace, job.workSpec, [job.id]);
      expect(String(row?.data)).toContain((await job.load()).action_id);
      expect(String(row?.data)).not.toContain("a-word-of-the-code");
    });

    test("A5 code: text, empty for a function of a module", async () => {
      const job = await jobs.schedule(fn("add"), { args: [1, 2] });
      expect((await jobs.action((await job.load()).action_id)).code).toBe("");
      expect(actionSchema.fields.find(({ name }) => name === "code")?.default).toBe("");
    });

    test("the version of a module's code is part of the action, and a job tells which code ran", async () => {
      const file = bench.file("versioned.mjs");
      const write = (value: number): void => writeFileSync(file, `export const value = () => ${value};\n`);
      const version = (value: number): string =>
        createHash("sha256").update(`export const value = () => ${value};\n`).digest("hex");
      const own = bench.jobs();
      const run = async (): Promise<Job> => {
        const job = await own.schedule({ module: file, export: "value" });
        // a new worker each time: a worker that has loaded a module keeps it
        await own.work({ ...quickSingle, roots: [path.dirname(file)], onetime: true });
        return job.settled();
      };
      write(1);
      const first = await run();
      write(2);
      const second = await run();
      expect([first.result, second.result]).toEqual([1, 2]);
      expect([first.code_version, second.code_version]).toEqual([version(1), version(2)]);
      expect(second.action_id).not.toBe(first.action_id);
      expect((await own.action(second.action_id)).version).toBe(version(2));
      // if only the workers can resolve the file, the job still records which code ran
      const relative = await own.schedule({ module: `./${path.basename(file)}`, export: "value" });
      await own.work({ ...quickSingle, roots: [path.dirname(file)], onetime: true });
      const { action_id, code_version } = await relative.settled();
      expect((await own.action(action_id)).version).toBe("");
      expect(code_version).toBe(version(2));
    });

    test("A6 methodname: text; the export of a module, the default one when it is not said", async () => {
      const job = await jobs.schedule({ module: "./sums.mjs" });
      expect((await jobs.action((await job.load()).action_id)).methodname).toBe("default");
      expect(await job.wait()).toBe("the default");
      expect(actionSchema.fields.find(({ name }) => name === "methodname")?.default).toBe("");
    });

    test("A7 schema: the action has a stable identifier in the listing", () => {
      expect(actionSchema.url).toBe("jumpscale.myjobs.action");
      expect(schemas).toContain(actionSchema);
    });

    test("what cannot be loaded is an error of the job that names it, and the worker goes on", async () => {
      const errorOf = async (module: string, name: string): Promise<string> => {
        const { state, error_cat, error } = await (await jobs.schedule({ module, export: name })).settled();
        expect([state, error_cat, error?.phase]).toEqual(["ERROR", "ERROR", "load"]);
        return error?.message ?? "";
      };
      expect(await errorOf("./missing.mjs", "add")).toMatch(/no module \.\/missing\.mjs/);
      expect(await errorOf("./sums.mjs", "subtract")).toMatch(/no export subtract; it exports .*add/);
      expect(await errorOf("./sums.mjs", "text")).toMatch(/export text of module .* is not a function/);
      expect(await errorOf("../../../package.json", "x")).toMatch(/outside the folders/);
      expect(await errorOf("/etc/passwd", "x")).toMatch(/outside the folders/);
      expect(await errorOf("no-such-package", "x")).toMatch(/no module no-such-package in .*\)$/);
      expect(await errorOf("sums.mjs", "add")).toMatch(
        /no module sums\.mjs in .*; did you mean \.\/sums\.mjs\?$/,
      );
      expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
    });

    test("an action that was deleted is an error of its jobs", async () => {
      const job = await jobs.schedule(fn("echo"), { delayMs: 600_000 });
      const { action_id } = await job.load();
      await bench.coordinate.deleteActions(jobs.namespace, [action_id]);
      await bench.coordinate.setWorkUnitDelays(jobs.namespace, job.workSpec, { names: [job.id] }, 0);
      const { state, error } = await job.settled();
      expect(state).toBe("ERROR");
      expect(error?.message).toContain(action_id);
    });
  });
}
