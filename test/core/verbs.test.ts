/** The table of verbs: what is derived from it, and that clients, servers and the engine implement all verbs. */
import { describe, expect, test } from "vitest";
import {
  checkArguments,
  Engine,
  isCoordinateError,
  isWait,
  signatures,
  verbNames,
  verbs,
  verbsOver,
  type Verb,
  type VerbRow,
} from "../../src/core/index.ts";
import { RestClient, restServer } from "../../src/rest/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

const engine = new Engine(new MemoryStore());

describe("every verb", () => {
  const { routes } = restServer({ coordinate: engine });
  const client: object = new RestClient("http://localhost:1");
  const rows = verbNames.map((verb): [Verb, VerbRow] => [verb, verbs[verb]]);
  test.each(rows)("%s is a method of the engine and of the client, and a route", (verb, row) => {
    expect(Reflect.get(engine, verb)).toBeTypeOf("function");
    expect(Reflect.get(client, verb)).toBeTypeOf("function");
    const scopes = routes
      .filter(({ id, family }) => id === verb && family === "verb")
      .map(({ scope }) => scope);
    expect(scopes).toEqual([row.namespace === "none" ? "listed" : row.scope]);
    expect(row.summary).toMatch(/^[A-Z].*\.$/);
  });

  test.each(rows)(
    "%s can be repeated by id if, and only if, it takes one",
    (_verb, { repeat, options = {} }) => {
      expect(repeat === "id").toBe("requestId" in options);
    },
  );
});

test("arguments: how many, and which may be left out", () => {
  const counts = (verb: Verb) => signatures[verb].counts;
  expect(counts("listNamespaces")).toEqual([0, 0]);
  expect(counts("tally")).toEqual([0, 1]);
  expect(counts("listWorkSpecs")).toEqual([1, 2]);
  expect(counts("explain")).toEqual([1, 2]);
  expect(counts("lock")).toEqual([2, 2]);
  expect(counts("requestAttempts")).toEqual([2, 2]);
  expect(counts("addWorkUnits")).toEqual([3, 4]);
  expect(counts("setWorkUnitPriorities")).toEqual([4, 4]);
});

test("a wait is a call that may wait and says how long", () => {
  expect(verbNames.filter((verb) => signatures[verb].waits)).toEqual([
    "addWorkUnits",
    "awaitWorkUnits",
    "requestAttempts",
    "takeMessages",
  ]);
  expect(isWait("requestAttempts", ["", { worker: "w", waitMs: 1 }])).toBe(true);
  expect(isWait("requestAttempts", ["", { worker: "w", waitMs: 0 }])).toBe(false);
  expect(isWait("takeMessages", ["", "q"])).toBe(false);
  expect(isWait("tally", [])).toBe(false);
});

const wrong: readonly [code: "bad_argument" | "bad_name", what: string, verb: Verb, ...args: unknown[]][] = [
  ["bad_argument", "settings: expected an object, got 5", "setNamespace", 5],
  ["bad_argument", "settings: expected an object, got a list", "setNamespace", []],
  ["bad_argument", "keepMeta: expected a boolean, got 1", "setWorkSpecs", [], { keepMeta: 1 }],
  ["bad_argument", "units: expected a list, got an object", "addWorkUnits", "s", {}],
  [
    "bad_argument",
    "dependencies: expected an object, got 1",
    "addWorkUnits",
    "s",
    [{ name: "u", dependencies: [1] }],
  ],
  ["bad_argument", 'id: expected an integer, got "1"', "getWorkUnits", { name: "s", id: "1" }, []],
  ["bad_argument", "previous: expected a string, got 1", "listWorkSpecs", { previous: 1 }],
  ["bad_argument", "desired: expected a string or null, got 1", "updateWorkers", [{ name: "w", desired: 1 }]],
  ["bad_name", "work spec: expected a string, got null", "getWorkUnits", null, []],
  ["bad_name", "work unit: expected a string, got 1", "getWorkUnits", "s", [1]],
  ["bad_name", "worker: expected a string, got 1", "updateWorkers", [{ name: "w", parent: 1 }]],
];

test.each(wrong)("%s: %s", (code, what, verb, ...args) => {
  expect(() => checkArguments(verb, ["", ...args])).toThrow(
    expect.toSatisfy((error) => isCoordinateError(error, code) && error.value === what),
  );
});

test("what is right, or absent, or not known, is left to the engine", () => {
  checkArguments("updateWorkers", [
    "",
    [{ name: "w", parent: null, desired: null, data: new Uint8Array(1) }],
  ]);
  checkArguments("listWorkUnits", ["", { name: "s", id: 1 }, { names: ["u"], limit: undefined, later: 1 }]);
  checkArguments("requestAttempts", ["", { number: 1.5 }]);
  checkArguments("tally", []);
});

describe("over a link", () => {
  const link = (answers: unknown[], sent: unknown[]) =>
    verbsOver({
      send: async ({ verb, args, waitMs }) => {
        sent.push([verb, ...args.slice(1), waitMs]);
        return answers.shift();
      },
      isClosed: () => false,
      pause: async () => undefined,
      newId: () => "id",
      random: () => 0,
      retries: 0,
      backoffMs: 1,
      longestWaitMs: 100,
    });

  test("requests are named, and long waits are asked for in pieces under one name", async () => {
    const sent: unknown[] = [];
    const client = link([[], [], []], sent);
    await client.requestAttempts("", { worker: "w", waitMs: 250 });
    const asked = (waitMs: number) => ["requestAttempts", { worker: "w", requestId: "id", waitMs }, waitMs];
    expect(sent).toEqual([asked(100), asked(100), asked(50)]);
  });

  test("messages of a wait that was ended unheard are asked for again by the same name", async () => {
    const sent: unknown[] = [];
    const stop = new AbortController();
    const client = link([null, ["message"]], sent);
    const taken = client.takeMessages("", "q", { waitMs: 50, signal: stop.signal });
    stop.abort();
    expect(await taken).toEqual(["message"]);
    expect(sent).toEqual([
      ["takeMessages", "q", { requestId: "id", waitMs: 50 }, 50],
      ["takeMessages", "q", { requestId: "id", waitMs: 0 }, 0],
    ]);
  });

  test("what answers nothing answers undefined; a namespace that is no string is refused before it is sent", async () => {
    const sent: unknown[] = [];
    const client = link([null], sent);
    await expect(client.clearLocks("", ["a"])).resolves.toBeUndefined();
    await expect(client.tally(undefined)).resolves.toBeUndefined();
    await expect(client.getNamespace(1 as unknown as string)).rejects.toThrow(/namespace/);
    expect(sent).toHaveLength(2);
  });
});
