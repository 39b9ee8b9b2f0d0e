import { describe, expect, test } from "vitest";
import { CoordinateError, readUnitLine } from "../../src/core/index.ts";

describe("units on a line", () => {
  test.each([
    ['{"name":"a"}', [{ name: "a" }]],
    ['{"name":"a","data":{"x":1.0}}', [{ name: "a", data: '{"x":1.0}' }]],
    ['{"name":"a","data":null,"priority":2.5,"delay":0.5}', [{ name: "a", priority: 2.5, delayMs: 500 }]],
    ['{"name":"a","notBefore":1000,"priority":null}', [{ name: "a", notBefore: 1000 }]],
    [
      '{"name":"a","dependencies":["b",{"workSpec":"s","workUnit":"c","kind":"soft"}]}',
      [
        {
          name: "a",
          dependencies: [{ workUnit: "b" }, { workSpec: "s", workUnit: "c", kind: "soft" }],
        },
      ],
    ],
    [
      '{"a":{},"b":{"x":[1]},"c":null}',
      [
        { name: "a", data: "{}" },
        { name: "b", data: '{"x":[1]}' },
        { name: "c", data: null },
      ],
    ],
    ['{"name":{"x":1}}', [{ name: "name", data: '{"x":1}' }]],
    ['{"__proto__":{"x":1}}', [{ name: "__proto__", data: '{"x":1}' }]],
    ["{}", []],
    ['"a"', [{ name: "a" }]],
    ['["a"]', [{ name: "a" }]],
    ['["a",{"x":1}]', [{ name: "a", data: '{"x":1}' }]],
    ['["a",null,{"priority":3,"delay":1}]', [{ name: "a", priority: 3, delayMs: 1000 }]],
    [
      '["a",null,{"deadline":1,"expires":2,"partition":"p","dependencies":["b"],"labels":["l"]}]',
      [
        {
          name: "a",
          deadlineMs: 1000,
          expiresMs: 2000,
          partition: "p",
          dependencies: [{ workUnit: "b" }],
          labels: ["l"],
        },
      ],
    ],
    [
      '{"name":"a","labels":["l","m"],"queues":["q"],"batch":"b","maxRetries":3}',
      [{ name: "a", labels: ["l", "m"], queues: ["q"], batch: "b", maxRetries: 3 }],
    ],
    ['["a",{},null,4]', [{ name: "a", data: "{}", priority: 4 }]],
    ['["a","b","c"]', [{ name: "a" }, { name: "b" }, { name: "c" }]],
    [
      '[["a",{"x":1}],{"b":{}},"c"]',
      [{ name: "a", data: '{"x":1}' }, { name: "b", data: "{}" }, { name: "c" }],
    ],
    ["[]", []],
    ['  {"a":{}}  ', [{ name: "a", data: "{}" }]],
    ['"\\u001b[31m\\n"', [{ name: "\u001b[31m\n" }]],
    ['"\\udcff"', [{ name: "\udcff" }]],
    ['{"":{}}', [{ name: "", data: "{}" }]],
  ])("%s", (line, units) => {
    expect(readUnitLine(line)).toEqual(units);
  });

  test.each([
    ["nonsense", "expected an object, a list or a name in quotes"],
    ["3", "expected an object, a list or a name in quotes"],
    ['{"a":1}', '"a": expected the data of a unit, got 1'],
    ['{"data":{},"priority":3}', '"priority": expected the data of a unit, got 3; is the name missing?'],
    ['{"name":"a","weight":3}', '"weight": unknown field of a work unit; put your own keys into data'],
    ['["a",{},{"prioritty":9}]', '"prioritty": unknown field of a work unit; put your own keys into data'],
    ['["a",{},{"data":{}}]', '"data": unknown field of a work unit'],
    ['{"name":"a","labels":"l"}', 'labels: expected a list of strings, got "l"'],
    ['{"name":"a","queues":[1]}', "queues: expected strings, got 1"],
    ['{"name":"a","priority":"high"}', 'priority: expected a number, got "high"'],
    ['{"name":"a","data":[1]}', "data: expected an object, got a list"],
    ['{"name":"a","data":{"x":}}', "malformed JSON at character"],
    ['{"a":{}', "malformed JSON"],
    ['["a"', "malformed JSON at character 4"],
    ["[1]", "expected an object, a list or a name, got 1"],
    ['[["a",["b"]]]', "a list in a list"],
    ['{"name":"a","dependencies":"b"}', 'dependencies: expected a list, got "b"'],
    ['{"name":"a","dependencies":[{"kind":"x","workUnit":"u"}]}', "expected hard or soft, got x"],
    [`{"${"n".repeat(4097)}":{}}`, "4097 bytes"],
  ])("%.60s is refused", (line, message) => {
    let text = "";
    try {
      readUnitLine(line);
    } catch (error) {
      if (!(error instanceof CoordinateError)) throw error;
      text = error.message;
    }
    expect(text).toContain(message);
  });
});
