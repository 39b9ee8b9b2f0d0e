import { describe, expect, test } from "vitest";
import { Tuple, Uuid, type DataObject } from "../../../src/core/index.ts";
import { fillArguments, readCommandSpec } from "../../../src/worker/command/arguments.ts";

const fill = (command: string[], unit: { name?: string; data?: DataObject } = {}): string[] =>
  fillArguments(readCommandSpec({ command }), { name: "unit", spec: "spec", attempt: 2, data: {}, ...unit });

describe("arguments", () => {
  test.each<[string[], { name?: string; data?: DataObject }, string[]]>([
    [["p", "a b", ""], {}, ["a b", ""]],
    [["p", "{name}", "{spec}", "{attempt}"], {}, ["unit", "spec", "2"]],
    [["p", "{data.a.b}"], { data: { a: { b: 5 } } }, ["5"]],
    [["p", "{data.list.1}"], { data: { list: ["x", "y"] } }, ["y"]],
    [["p", "{data}"], { data: { a: [1, true, null] } }, ['{"a":[1,true,null]}']],
    [["p", "--in={name}", "./{name}"], { name: "-x" }, ["--in=-x", "./-x"]],
    [
      ["p", "{{name}}", "{{}}", '{"a":{"b":1}}', "{ print }"],
      {},
      ["{name}", "{{}}", '{"a":{"b":1}}', "{ print }"],
    ],
    // replaced text is not expanded again, and no shell interprets it
    [["p", "{name}"], { name: "{data.secret}" }, ["{data.secret}"]],
    [["p", "{name}"], { name: "$(rm -rf /); `x` | y > z & \n*?" }, ["$(rm -rf /); `x` | y > z & \n*?"]],
    [["p", "--", "{name}"], { name: "-rf" }, ["--", "-rf"]],
    [["p", "-", "-e{name}"], { name: "x" }, ["-", "-ex"]],
    [["p", "{name}"], { name: "" }, [""]],
    [
      ["p", "{data.big}", "{data.id}"],
      { data: { big: 2n ** 70n, id: Uuid.parse("12345678-1234-1234-1234-123456789abc") } },
      ["1180591620717411303424", "12345678-1234-1234-1234-123456789abc"],
    ],
    [
      ["p", "{data.bytes}", "{data.tuple}"],
      { data: { bytes: new Uint8Array([104, 105]), tuple: Tuple.of(1, 2) } },
      ["hi", "[1,2]"],
    ],
  ])("%#", (command, unit, args) => {
    expect(fill(command, unit)).toEqual(args);
  });

  test.each<[string[], { name?: string; data?: DataObject }, string]>([
    [
      ["p", "{name}"],
      { name: "-rf" },
      'command[1] ({name}) would begin with "-" and be taken for an option; put "--" before it',
    ],
    [["p", "{data.x}", "--"], { data: { x: "--exec" } }, "would begin with"],
    [["p", "{data.x}"], { data: { x: -5 } }, "would begin with"],
    [["p", "{name}{data.y}"], { name: "", data: { y: "-y" } }, "would begin with"],
    [["p", "{name}"], { name: "a\0b" }, "would contain a NUL"],
    [["p", "{name}"], { name: "a\udcff" }, "bytes that are not UTF-8"],
    [["p", "{data.x}"], { data: { x: new Uint8Array([0xff]) } }, "not UTF-8"],
    [["p", "{data.x}"], {}, "{data.x}: missing in the data of the unit"],
    [["p", "{data.x.y}"], { data: { x: null } }, "missing in the data of the unit"],
    [["p", "{data.constructor}"], {}, "missing in the data of the unit"],
  ])("%# is refused", (command, unit, text) => {
    expect(() => fill(command, unit)).toThrow(text);
  });
});

describe("a work spec", () => {
  test.each<[DataObject, string]>([
    [{}, "command: expected a list of strings"],
    [{ command: "ls -l" }, "command: expected a list of strings"],
    [{ command: [] }, "command: expected a list of strings"],
    [{ command: ["ls", 5] }, "command[1]: expected a string"],
    [{ command: ["a\0"] }, "command[0]: expected a string without NUL"],
    [{ command: [""] }, "command[0]: expected the name of a program"],
    [{ command: ["{name}"] }, "command[0]: the program cannot be a placeholder"],
    [{ command: ["ls", "{nmae}"] }, "got {nmae}"],
    [{ command: ["awk", "{print}"] }, "write {{print}} for the text {print}"],
    [{ command: ["ls"], timeout: 0 }, "timeout: expected a number"],
    [{ command: ["ls"], cwd: 1 }, "cwd: expected a string"],
    [{ command: ["ls"], env: { A: 1 } }, "env.A: expected a string"],
    [{ command: ["ls"], env: [] }, "env: expected an object"],
  ])("%j is refused by name", (data, text) => {
    expect(() => readCommandSpec(data)).toThrow(text);
  });

  test("is read", () => {
    const command = ["a{{b}}", "{name}"];
    const spec = readCommandSpec({ command, env: { A: "1" }, cwd: "/tmp", timeout: 1.5 });
    expect(spec).toEqual({ command: ["a{b}", "{name}"], env: { A: "1" }, cwd: "/tmp", timeoutMs: 1500 });
  });
});
