import { afterEach, describe, expect, test, vi } from "vitest";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { parse } from "yaml";
import {
  jobConfiguration,
  parseDocumentText,
  readConfiguration,
  readDocument,
} from "../../src/config/index.ts";
import {
  applyPlan,
  chainsOutOfFile,
  flowSchema,
  planFlow,
  printPlan,
  readFlow,
  specSchema,
  type Flow,
  type FlowOptions,
} from "../../src/flow/index.ts";
import { CoordinateError, jsonData, type Coordinate } from "../../src/core/index.ts";
import { openMemory, type CoordinateHandle } from "../../src/index.ts";

// loaded with require: in the CommonJS module the types export the class in another place than the code
const Ajv = createRequire(import.meta.url)("ajv") as new (options: object) => {
  compile(schema: object): (value: unknown) => boolean;
};
const root = path.join(import.meta.dirname, "../..");
const opened: CoordinateHandle[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

function setup(): CoordinateHandle {
  const coordinate = openMemory();
  opened.push(coordinate);
  return coordinate;
}

const flow = (text: string): Flow => readFlow(parseDocumentText(text, "flow.yaml"));

async function put(coordinate: CoordinateHandle, text: string, options: FlowOptions = {}): Promise<string[]> {
  const plan = await planFlow(coordinate.verbs, "ns", flow(text), { env: "test" }, options);
  const lines = printPlan(plan, options);
  await applyPlan(coordinate.verbs, "ns", plan, options);
  return lines;
}

describe("plans", () => {
  test("new, changed and as it is, with what was set by hand", async () => {
    const coordinate = setup();
    const text = "flows:\n  a: {min_gb: 1, config: {db: {port: 1, password: old}}}\n  b: {min_gb: 1}\n";
    expect(await put(coordinate, text)).toEqual(["+ a", "+ b"]);
    const ns = coordinate.namespace("ns");
    await ns.workSpec("a").setMeta({ weight: 3, paused: true });
    const changed = text.replace("port: 1, password: old", "port: 2, password: new, list: [1, 2]");
    expect(await put(coordinate, changed)).toEqual([
      "~ a",
      "    config.db.port: 1 -> 2",
      '    config.db.password: "***" -> "***"',
      "    config.db.list: + [1,2]",
      "    weight: 3 -> 20 (was set by hand; use --keep-meta to keep it)",
      "    paused: true -> false (was set by hand; use --keep-meta to keep it)",
      "= b",
    ]);
    expect(await ns.workSpec("a").meta()).toMatchObject({ weight: 20, paused: false });
    expect((await ns.workSpec("a").data()).config).toEqual({
      env: "test",
      db: { port: 2, password: "new", list: [1, 2] },
    });
  });

  test("keepMeta keeps what was set by hand", async () => {
    const coordinate = setup();
    await put(coordinate, "flows:\n  a: {min_gb: 1}\n");
    await coordinate.namespace("ns").workSpec("a").setMeta({ weight: 3, paused: true });
    expect(await put(coordinate, "flows:\n  a: {min_gb: 2}\n", { keepMeta: true })).toEqual([
      "~ a",
      "    min_gb: 1 -> 2",
    ]);
    expect(await coordinate.namespace("ns").workSpec("a").meta()).toMatchObject({ weight: 3, paused: true });
  });

  test("what is not in the file is named and kept; pruning deletes it", async () => {
    const coordinate = setup();
    await put(coordinate, "flows:\n  a: {min_gb: 1}\n  b: {min_gb: 1}\n");
    const ns = coordinate.namespace("ns");
    await ns.workSpec("b").addWorkUnits([{ name: "u" }, { name: "v" }]);
    expect(await put(coordinate, "flows:\n  a: {min_gb: 1}\n")).toEqual([
      "= a",
      "- b: not in the file; kept with 2 units",
    ]);
    expect((await coordinate.verbs.listWorkSpecs("ns")).rows).toHaveLength(2);
    expect(await put(coordinate, "flows:\n  a: {min_gb: 1}\n", { prune: true })).toEqual([
      "= a",
      "- b: deleted with 2 units",
    ]);
    expect((await coordinate.verbs.listWorkSpecs("ns")).rows.map(({ name }) => name)).toEqual(["a"]);
  });

  test("chains lead to the file or to what is stored, and to nothing that pruning deletes", async () => {
    const coordinate = setup();
    const chained = "flows:\n  first: {min_gb: 1, then: seccond}\n  second: {min_gb: 1}\n";
    await expect(put(coordinate, chained)).rejects.toThrow(
      "flow.yaml:2: flows.first.then: no such work spec seccond, neither in this file nor stored; did you mean second?",
    );
    expect((await coordinate.verbs.listWorkSpecs("ns")).rows).toEqual([]);
    expect(chainsOutOfFile(flow(chained))).toEqual([
      "flow.yaml:2: flows.first.then: seccond is not in this file; did you mean second?",
    ]);
    await put(coordinate, "flows:\n  second: {min_gb: 1}\n");
    const elsewhere = "flows:\n  first: {min_gb: 1, then: second}\n";
    await put(coordinate, elsewhere);
    await expect(put(coordinate, elsewhere, { prune: true })).rejects.toThrow("so --prune would delete it");
    expect((await coordinate.verbs.listWorkSpecs("ns")).rows).toHaveLength(2);
  });

  test("refused work specs leave the limits as they were", async () => {
    const { verbs } = setup();
    await verbs.setLimits("ns", [{ name: "old", maxRunning: 1, rate: { limit: 2 } }]);
    const text = "flows:\n  a: {min_gb: 1}\nlimits:\n  old: {max_running: 5}\n  new: {max_running: 5}\n";
    const plan = await planFlow(verbs, "ns", flow(text), {});
    const specs = [{ ...plan.specs[0]!, data: jsonData('{"name":"a","schedule":{"every":0}}') }];
    await expect(applyPlan(verbs, "ns", { ...plan, specs })).rejects.toMatchObject({ code: "bad_work_spec" });
    expect(await verbs.listLimits("ns")).toMatchObject([{ name: "old", maxRunning: 1, rate: { limit: 2 } }]);
    await applyPlan(verbs, "ns", plan);
    expect(await verbs.listLimits("ns")).toMatchObject([
      { name: "new", maxRunning: 5 },
      { name: "old", maxRunning: 5, rate: {} },
    ]);
  });

  test("work specs that were set, although the answer was lost, keep their limits", async () => {
    const { verbs } = setup();
    const text = "flows:\n  a: {min_gb: 1, limits: [new]}\nlimits:\n  new: {max_running: 5}\n";
    const plan = await planFlow(verbs, "ns", flow(text), {});
    const set = verbs.setWorkSpecs.bind(verbs);
    vi.spyOn(verbs, "setWorkSpecs").mockImplementationOnce(
      async (...args: Parameters<Coordinate["setWorkSpecs"]>) => {
        await set(...args);
        throw new CoordinateError("unavailable", "connection reset");
      },
    );
    await expect(applyPlan(verbs, "ns", plan)).rejects.toMatchObject({ code: "unavailable" });
    expect(await verbs.listLimits("ns")).toMatchObject([{ name: "new", workSpecs: ["a"] }]);
  });

  test("looking changes nothing", async () => {
    const coordinate = setup();
    await planFlow(coordinate.verbs, "ns", flow("flows:\n  a: {min_gb: 1}\n"), {}, {});
    expect((await coordinate.verbs.listWorkSpecs("ns")).rows).toEqual([]);
  });

  test("names that a terminal would obey are escaped", async () => {
    expect(await put(setup(), 'flows:\n  "a\\e[31m\\n": {min_gb: 1}\n')).toEqual(["+ a\\x1b[31m\\x0a"]);
  });
});

describe("the examples", () => {
  const example = (name: string): Flow => readFlow(readDocument(path.join(root, "examples/flows", name)));

  test("hello: runtimes and tasks", async () => {
    const { verbs } = setup();
    await applyPlan(verbs, "ns", await planFlow(verbs, "ns", example("hello.yaml"), {}));
    const { rows } = await verbs.listWorkSpecs("ns");
    expect(rows.map(({ name, meta }) => [name, meta.runtime, meta.minGb])).toEqual([
      ["coordinate_test_spec", "", 1],
      ["greeting", "go", 1],
      ["hello", "go", 1],
    ]);
  });

  test("chain: with the configuration beside it, and without its secret", async () => {
    const { verbs } = setup();
    const file = path.join(root, "examples/flows/coordinate.yaml");
    const configuration = readConfiguration({ env: { NEWS_TOKEN: "s3cret" }, file });
    const { config, left } = jobConfiguration(configuration);
    expect(left).toEqual(["http.api_token"]);
    await applyPlan(verbs, "news", await planFlow(verbs, "news", example("chain.yaml"), config));
    const [discover, fetch, parsed] = await verbs.getWorkSpecs("news", [
      "news.discover",
      "news.fetch",
      "news.parse",
    ]);
    expect(discover?.meta).toMatchObject({
      nextWorkSpecName: "news.fetch",
      canBeContinuous: true,
      intervalMs: 600_000,
    });
    expect(fetch?.meta).toMatchObject({ nextWorkSpecName: "news.parse", maxRunning: 20, maxRetries: 5 });
    expect(parsed?.meta.retention).toEqual({ finished: { maxAgeMs: 86_400_000 } });
    const http = (row: typeof fetch): unknown =>
      (JSON.parse(String(row?.data)) as { config: { http: unknown } }).config.http;
    expect(http(fetch)).toEqual({ timeout: 10, user_agent: "example" });
    expect(http(parsed)).toEqual({ timeout: 30, proxy: "http://proxy.example:3128", user_agent: "example" });
    expect(JSON.stringify([discover, fetch, parsed])).not.toContain("s3cret");
  });
});

describe("schemas", () => {
  const shipped = (name: string): object =>
    JSON.parse(readFileSync(path.join(root, "schema", `${name}.schema.json`), "utf8")) as object;

  test("those in the package are those of the table", () => {
    expect(shipped("flow")).toEqual(JSON.parse(JSON.stringify(flowSchema())));
    expect(shipped("work-spec")).toEqual(JSON.parse(JSON.stringify(specSchema())));
  });

  test("they take the examples, and refuse what the reader refuses", () => {
    const check = new Ajv({ allowUnionTypes: true }).compile(shipped("flow"));
    const takes = (text: string): boolean => check(parse(text));
    for (const name of ["hello.yaml", "chain.yaml"])
      expect(takes(readFileSync(path.join(root, "examples/flows", name), "utf8"))).toBe(true);
    expect(takes("flows: {a: {min_gb: 1, weight: heavy}}")).toBe(false);
    expect(takes("flows: {g: {a: {min_gb: 1, max_running: 1.5}}}")).toBe(false);
    expect(takes("flows: {g: {a: {runtime: go, retention: {finished: {max_age: -1}}}}}")).toBe(false);
    expect(takes("flows: {a: {unknown: 1}}")).toBe(false);
    expect(takes("flows: {a: {min_gb: 1, unknown: 1}}")).toBe(true);
    expect(takes("flow: {}")).toBe(false);
  });
});
