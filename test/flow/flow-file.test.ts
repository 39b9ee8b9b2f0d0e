import { describe, expect, test } from "vitest";
import { ConfigError, parseDocumentText } from "../../src/config/index.ts";
import { readFlow, readSpecFile, withConfiguration, type Flow, type SpecFile } from "../../src/flow/index.ts";

const env = { WEIGHT: "7", OFF: "false", WORD: "heavy" };
const flow = (text: string): Flow => readFlow(parseDocumentText(text, "flow.yaml", { env }));
const spec = (text: string): SpecFile => readSpecFile(parseDocumentText(text, "spec.yaml", { env }));

const wrong = (read: () => unknown): string[] => {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
};

describe("flow files", () => {
  test("work specs, groups to any depth, and names that are their paths", () => {
    const { specs, warnings } = flow(`
flows:
  hello: {min_gb: 1, runtime: go}
  a:
    b:
      c: {min_gb: 0.5, then: a.d}
    d: {min_gb: 2, extra: {kept: [1, 2]}}
yakonfig_modules: [yakonfig, coordinate]
`);
    expect(specs.map(({ name, data }) => [name, data])).toEqual([
      ["hello", { name: "hello", min_gb: 1, runtime: "go" }],
      ["a.b.c", { name: "a.b.c", min_gb: 0.5, then: "a.d" }],
      ["a.d", { name: "a.d", min_gb: 2, extra: { kept: [1, 2] } }],
    ]);
    expect(specs[2]?.where).toBe("flow.yaml:7");
    expect(warnings).toEqual([]);
  });

  test("without min_gb an entry is a work spec all the same, where another known key says so", () => {
    expect(
      flow("flows:\n  a: {runtime: go}\n  task: {b: {min_gb: 1}}\n").specs.map(({ name }) => name),
    ).toEqual(["a", "task.b"]);
  });

  test("what is wrong is told with file, line and key, all of it at once", () => {
    expect(
      wrong(() =>
        flow(`flows:
  hello:
    min_gb: 1
    weight: heavy
    max_running: 1.5
    continuous: yes
    then: [x]
    config: nothing
    retention: {finished: {max_age: -1}}
`),
      ),
    ).toEqual([
      'flow.yaml:4: flows.hello.weight: expected a number, got "heavy"',
      "flow.yaml:5: flows.hello.max_running: expected an integer of 0 or more, got 1.5",
      'flow.yaml:6: flows.hello.continuous: expected a boolean, got "yes"; write true or false',
      "flow.yaml:7: flows.hello.then: expected a string, got a list",
      'flow.yaml:8: flows.hello.config: expected an object, got "nothing"',
      "flow.yaml:9: flows.hello.retention.finished.max_age: expected a number from 0 to 4,320,000,000,000, got -1",
    ]);
  });

  test("what the engine would refuse is told the same way, before anything is sent", () => {
    expect(
      wrong(() =>
        flow(`flows:
  a:
    requires:
      - gpu
      - ">="
    schedule:
      cron: "99 * * * *"
      timezone: Mars
      every: 0.2
  b:
    continuous: true
    schedule: {every: 60}
  c:
    schedule:
      at: [0, "2026-02-01T00:00:00"]
      timezone: UTC
    not_before: tomorrow
  d:
    partition_weights:
      a: 0
      b: 2
    limits: [api, 3]
limits:
  "":
    max_running: 1
    rate: {limit: -1}
`),
      ),
    ).toEqual([
      "flow.yaml:6: flows.a.schedule: expected only one of cron, every and at",
      'flow.yaml:8: flows.a.schedule.timezone: expected a time zone such as Europe/Brussels, got "Mars"',
      "flow.yaml:9: flows.a.schedule.every: expected 1 second or more, got 0.2",
      expect.stringMatching(
        /^flow\.yaml:7: flows\.a\.schedule\.cron: "99 \* \* \* \*" is not a cron expression: /,
      ),
      'flow.yaml:5: flows.a.requires[1]: expected a condition such as gpu, zone=eu or version>=2.3, got ">="',
      "flow.yaml:12: flows.b.schedule: not allowed in a continuous work spec",
      'flow.yaml:15: flows.c.schedule.at[1]: expected a time with an offset, such as 2026-02-01T00:00:00Z, or seconds since 1970, got "2026-02-01T00:00:00"',
      'flow.yaml:17: flows.c.not_before: expected a time with an offset, such as 2026-02-01T00:00:00Z, or seconds since 1970, got "tomorrow"',
      "flow.yaml:20: flows.d.partition_weights.a: expected an integer from 1 to 1,000,000, got 0",
      "flow.yaml:22: flows.d.limits[1]: expected a string, got 3",
      'flow.yaml:24: limits.: Bad name: limit: expected 1 to 256 bytes, got ""',
      "flow.yaml:26: limits..rate.limit: expected a number of 0 or more, got -1",
    ]);
  });

  test.each([
    ["", "flow.yaml: expected a mapping with the key flows"],
    ["- a", "flow.yaml: expected a mapping with the key flows"],
    ["flow: {}", "flow.yaml: expected a mapping with the key flows, got flow"],
    ["flows: 3", "flow.yaml:1: flows: expected work specs by name, got 3"],
    ["flows:\n  a: 3", "flow.yaml:2: flows.a: expected work specs by name, got 3"],
    [
      "flows:\n  a:\n    min_bg: 1\n    x: 2",
      "flow.yaml:3: flows.a: not a work spec, because it has no min_gb, and not a group, because min_bg is not a mapping; did you mean min_gb?",
    ],
    [
      "flows:\n  a.b: {min_gb: 1}\n  a:\n    b: {min_gb: 1}",
      "flow.yaml:4: a.b is defined twice, first at flow.yaml:2",
    ],
    [
      "flows: {a: {min_gb: 1}}\nyakonfig_modules: x",
      'flow.yaml:2: yakonfig_modules: expected a list of module names, got "x"',
    ],
    [
      'flows: {"": {min_gb: 1}}',
      'flow.yaml:1: flows.: Bad name: work spec: expected 1 to 1024 bytes, got ""',
    ],
    [`flows: {${"n".repeat(1025)}: {min_gb: 1}}`, "name of 1025 bytes"],
    ["flows:\n  a: {min_gb: 1}\n  a: {min_gb: 2}", "flow.yaml:3: a is given twice"],
    [
      "flows:\n  a: {min_gb: !env WORD}",
      'flow.yaml:2: flows.a.min_gb: expected a number of 0 or more, got "heavy"',
    ],
  ])("%j", (text, message) => {
    expect(wrong(() => flow(text)).join("\n")).toContain(message);
  });

  test("what is odd is told and kept", () => {
    const { specs, warnings } = flow(`
flows:
  a: {min_gb: 1, wieght: 3, name: other, url: kept}
  empty: {}
  nothing:
modules: []
yakonfig_module: []
`);
    expect(warnings).toEqual([
      "flow.yaml:6: modules: not a known key",
      "flow.yaml:7: yakonfig_module: not a known key; did you mean yakonfig_modules?",
      "flow.yaml:3: flows.a.wieght: not a known key; did you mean weight?",
      "flow.yaml:3: flows.a.name: ignored; the name comes from the flow: a",
      "flow.yaml:4: flows.empty: ignored because it is empty; a work spec has at least the key min_gb",
      "flow.yaml:5: flows.nothing: ignored because it is empty; a work spec has at least the key min_gb",
    ]);
    expect(specs[0]?.data).toEqual({ name: "a", min_gb: 1, wieght: 3, url: "kept" });
  });

  test("values of the environment are read as what their key wants", () => {
    expect(
      flow("flows:\n  a: {min_gb: !env WEIGHT, disabled: !env OFF, desc: !env WEIGHT}").specs[0]?.data,
    ).toEqual({
      name: "a",
      min_gb: 7,
      disabled: false,
      desc: "7",
    });
  });

  test("the configuration in effect is injected where there is none, and laid under what there is", () => {
    const { specs } = flow(`
flows:
  plain: {min_gb: 1}
  over: {min_gb: 1, config: {db: {port: 2}, tmp: null, x: 1}}
`);
    const base = { db: { host: "h1", port: 1 }, tmp: "/t" };
    expect(specs.map((one) => withConfiguration(one, base).config)).toEqual([
      { db: { host: "h1", port: 1 }, tmp: "/t" },
      { db: { host: "h1", port: 2 }, x: 1 },
    ]);
  });
});

describe("files of one work spec", () => {
  test("YAML or JSON, stored as they are", () => {
    expect(spec("name: a\nmin_gb: 1\nconfig: {x: 1}\n").data).toEqual({
      name: "a",
      min_gb: 1,
      config: { x: 1 },
    });
    expect(spec('{"name": "a", "weigth": 1}')).toMatchObject({
      name: "a",
      warnings: ["spec.yaml:1: weigth: not a known key; did you mean weight?"],
    });
  });

  test.each([
    ["", "spec.yaml: expected a mapping with the keys of a work spec, got null"],
    ["min_gb: 1", "spec.yaml: a work spec must have a name"],
    ["flows: {a: {min_gb: 1}}", "this is a flow file: use coordinate flow"],
    ["name: 3", "spec.yaml:1: name: expected a string, got 3"],
    ["name: a\nweight: x", 'spec.yaml:2: weight: expected a number, got "x"'],
    ["name: a\nschedule:\n  every: 0", "spec.yaml:3: schedule.every: expected 1 second or more, got 0"],
  ])("%j", (text, message) => {
    expect(wrong(() => spec(text)).join("\n")).toContain(message);
  });
});
