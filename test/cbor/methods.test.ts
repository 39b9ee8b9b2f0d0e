/**
 * The normal and error paths of every method, over a real socket, with a client written only from the description of
 * the protocol. A case is a list of steps: a call, and the result as Python would print it. `2:` and `3:` call on other
 * connections. A number advances the clock by that many seconds.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "vitest";
import type { CborRpcOptions } from "../../src/cbor/index.ts";
import { withServer } from "./serve.ts";
import { Dict, f, Raw, t, Tagged, u, Uuid, hex, WireError, type Value } from "./wire.ts";

type Step = number | readonly [method: string, params: readonly Value[], answer?: string | Refused];
class Refused {
  readonly message: string | RegExp;
  constructor(message: string | RegExp) {
    this.message = message;
  }
}
const error = (message: string | RegExp): Refused => new Refused(message);

type Cases = Record<string, readonly Step[]>;

function run(group: string, cases: Cases, options: CborRpcOptions = {}): void {
  describe(group, () => {
    test.each(Object.entries(cases))("%s", async (_, steps) => {
      await withServer(async ({ client, clock, connect }) => {
        const second = await connect();
        const third = await connect();
        for (const step of steps) {
          if (typeof step === "number") {
            clock.advance(step * 1000);
            continue;
          }
          const [name, params, answer = yes] = step;
          const on = name.startsWith("2:") ? second : name.startsWith("3:") ? third : client;
          const method = name.replace(/^\d:/, "");
          const what = `${name} ${params.length}`;
          if (typeof answer === "string") {
            const shown = await on.shown(method, ...params);
            if (answer !== "*") assert.equal(shown, answer, what);
          } else {
            const failed = await on.call(method, ...params).then(
              () => null,
              (e: unknown) => e,
            );
            assert.ok(failed instanceof WireError, what);
            if (typeof answer.message === "string") assert.equal(failed.message, answer.message, what);
            else assert.match(failed.message, answer.message, what);
          }
        }
      }, options);
    });
  });
}

const yes = "[True, None]";
const no = "[False, None]";
const lost = "[False, u'lost lease']";
const noSpec = "[False, u'No such work spec no']";
const spec: Step = ["set_work_spec", [{ name: "ws", min_gb: 1 }]];
const named = (name: string, more: Record<string, Value> = {}): Step => [
  "set_work_spec",
  [{ name, min_gb: 1, ...more }],
];
const add = (...keys: string[]): Step => ["add_work_units", ["ws", keys.map((key) => t(key, {}))]];
const get = (answer = "[(u'ws', b'a', {}), None]", options: Value = {}): Step => [
  "get_work",
  ["w", options],
  answer,
];
const update = (options: Value, answer = yes, key = "a"): Step => [
  "update_work_unit",
  ["ws", key, options],
  answer,
];
const on2 = (step: Step): Step =>
  typeof step === "number" ? step : [`2:${step[0]}`, step[1], step[2] ?? yes];
const counts = (answer: string): Step => ["count_work_units", ["ws"], `[${answer}, None]`];
const none3 = "[(None, None, None), None]";
const units = (answer: string, options: Value = {}): Step => [
  "get_work_units",
  ["ws", options],
  `[${answer}, None]`,
];
const status = (answer: string, ...keys: string[]): Step => [
  "get_work_unit_status",
  ["ws", keys],
  `[${answer}, None]`,
];
// the clock starts at 2020-01-01
const start = 1577836800;

run("work specs", {
  "set and get: bytes stay bytes, text stays text": [
    [
      "set_work_spec",
      [
        new Dict([
          ["name", "ws"],
          [u("desc"), u("é")],
          ["min_gb", f(1)],
          ["nice", -2],
        ]),
      ],
    ],
    ["get_work_spec", ["ws"], "{b'name': b'ws', u'desc': u'é', b'min_gb': 1.0, b'nice': -2}"],
    ["get_work_spec", [u("ws")], "{b'name': b'ws', u'desc': u'é', b'min_gb': 1.0, b'nice': -2}"],
  ],
  "a key that means something since is the client's own when it is of another kind": [
    ["set_work_spec", [{ name: "ws", not_before: "tomorrow" }], "[True, None]"],
    ["get_work_spec", ["ws"], "{b'name': b'ws', b'not_before': b'tomorrow'}"],
  ],
  "module and run_function are bytes, however they were set": [
    [
      "set_work_spec",
      [
        new Dict([
          ["name", "ws"],
          [u("module"), u("a.b")],
          ["run_function", u("run")],
          [u("config"), { x: u("y") }],
        ]),
      ],
    ],
    [
      "get_work_spec",
      ["ws"],
      "{b'name': b'ws', u'module': b'a.b', b'run_function': b'run', u'config': {b'x': u'y'}}",
    ],
    [
      "list_work_specs",
      [{}],
      "[[{b'name': b'ws', u'module': b'a.b', b'run_function': b'run', u'config': {b'x': u'y'}}], None]",
    ],
  ],
  "a module in parts of indefinite length is bytes too": [
    ["set_work_spec", [new Raw(hex("a2 446e616d65 427773 466d6f64756c65 7f 626161 622e62 ff"))]],
    ["get_work_spec", ["ws"], "{b'name': b'ws', b'module': b'aa.b'}"],
  ],
  "get: an unknown spec is null": [["get_work_spec", ["no"], "None"]],
  "get: the empty name is null": [["get_work_spec", [""], "None"]],
  "get: a number is no name": [["get_work_spec", [5], error(/expected a string, got 5/)]],
  "set: no name": [["set_work_spec", [{ min_gb: 1 }], error("No 'name' key in work spec")]],
  "set: an empty name": [["set_work_spec", [{ name: "" }], error("No 'name' key in work spec")]],
  "set: a name that is a number": [
    ["set_work_spec", [{ name: 7 }], error("Work spec 'name' must be a string")],
  ],
  "set: a refused spec leaves nothing behind": [
    ["set_work_spec", [{ name: "ws", weight: "heavy" }], error(/weight: expected a number/)],
    ["list_work_specs", [{}], "[[], None]"],
  ],
  "set: not a map": [["set_work_spec", [[1]], error(/expected a map, got a list/)]],
  "set: null": [["set_work_spec", [null], error(/expected a map, got null/)]],
  "set: null values count as absent": [
    named("ws", { weight: null, then: null }),
    [
      "get_work_spec_meta",
      ["ws"],
      "[{u'status': 1, u'continuous': False, u'interval': 0.0, u'max_running': 0, u'weight': 20}, None]",
    ],
  ],
  "set again resets what was controlled": [
    spec,
    ["control_work_spec", ["ws", { status: 2 }]],
    spec,
    [
      "get_work_spec_meta",
      ["ws"],
      "[{u'status': 1, u'continuous': False, u'interval': 0.0, u'max_running': 0, u'weight': 20}, None]",
    ],
  ],
  "list: sorted by name": [
    named("b"),
    named("c"),
    named("a"),
    [
      "list_work_specs",
      [{}],
      "[[{b'name': b'a', b'min_gb': 1}, {b'name': b'b', b'min_gb': 1}, {b'name': b'c', b'min_gb': 1}], None]",
    ],
  ],
  "list: pages go on with the name that is given": [
    named("b"),
    named("c"),
    named("a"),
    [
      "list_work_specs",
      [{ limit: 2 }],
      "[[{b'name': b'a', b'min_gb': 1}, {b'name': b'b', b'min_gb': 1}], u'c']",
    ],
    ["list_work_specs", [{ limit: 2, start: u("c") }], "[[{b'name': b'c', b'min_gb': 1}], None]"],
    ["list_work_specs", [{ limit: 1, start: "b" }], "[[{b'name': b'b', b'min_gb': 1}], u'c']"],
    [
      "list_work_specs",
      [{ limit: 3 }],
      "[[{b'name': b'a', b'min_gb': 1}, {b'name': b'b', b'min_gb': 1}, {b'name': b'c', b'min_gb': 1}], None]",
    ],
  ],
  "list: a start that is no spec": [
    named("a"),
    named("c"),
    ["list_work_specs", [{ start: "b" }], "[[{b'name': b'c', b'min_gb': 1}], None]"],
    ["list_work_specs", [{ start: "d" }], "[[], None]"],
  ],
  "list: null options, and none": [
    ["list_work_specs", [null], "[[], None]"],
    ["list_work_specs", [], "[[], None]"],
  ],
  "delete with its units": [
    spec,
    add("a"),
    ["del_work_spec", ["ws"]],
    ["get_work_spec", ["ws"], "None"],
    ["del_work_spec", ["ws"], "[False, u'No such work spec ws']"],
  ],
  "clear answers how many; work goes on after it": [
    spec,
    named("other"),
    ["clear", [], "2"],
    ["clear", [], "0"],
    spec,
    add("a"),
    get(),
  ],
  "control: pause and resume": [
    spec,
    add("a"),
    ["control_work_spec", ["ws", { status: 2 }]],
    get(none3),
    ["control_work_spec", ["ws", { status: 1 }]],
    get(),
  ],
  "control: weight, interval and max_running": [
    named("ws", { continuous: true }),
    ["control_work_spec", ["ws", { weight: 7, interval: f(0.5), max_running: 3, continuous: false }]],
    [
      "get_work_spec_meta",
      ["ws"],
      "[{u'status': 1, u'continuous': False, u'interval': 0.5, u'max_running': 3, u'weight': 7}, None]",
    ],
    ["control_work_spec", ["ws", { continuous: true, weight: null }]],
    [
      "get_work_spec_meta",
      ["ws"],
      "[{u'status': 1, u'continuous': True, u'interval': 0.5, u'max_running': 3, u'weight': 7}, None]",
    ],
  ],
  "control: max_running is applied": [
    spec,
    add("a", "b"),
    ["control_work_spec", ["ws", { max_running: 1 }]],
    get(),
    get(none3),
  ],
  "control: what cannot be continuous stays off": [
    spec,
    [
      "control_work_spec",
      ["ws", { continuous: true }],
      "[True, u'cannot make non-continuous work spec ws continuous']",
    ],
  ],
  "control: unknown spec": [["control_work_spec", ["no", {}], noSpec]],
  "control: a bad value changes nothing": [
    spec,
    ["control_work_spec", ["ws", { status: 2, interval: -1 }], error(/intervalMs/)],
    [
      "get_work_spec_meta",
      ["ws"],
      "[{u'status': 1, u'continuous': False, u'interval': 0.0, u'max_running': 0, u'weight': 20}, None]",
    ],
  ],
  "meta: unknown spec": [["get_work_spec_meta", ["no"], "[None, u'No such work spec no']"]],
  "archive answers null, with and without options": [
    ["archive", [{}], "None"],
    ["archive", [], "None"],
  ],
});

const rich: Value = {
  bytes: Buffer.from([0x80, 0xff, 0]),
  text: u("é"),
  one: 1,
  float: f(1),
  big: 2n ** 63n,
  huge: -(2n ** 70n),
  tuple: t(1, [t()], { x: t("y") }),
  uuid: new Uuid("0123456789abcdef0123456789abcdef"),
  none: null,
  yes: true,
  nan: f(0.1),
};
const richShown =
  "{b'bytes': b'\\x80\\xff\\x00', b'text': u'é', b'one': 1, b'float': 1.0, b'big': 9223372036854775808, b'huge': -1180591620717411303424, b'tuple': (1, [()], {b'x': (b'y',)}), b'uuid': UUID('0123456789abcdef0123456789abcdef'), b'none': None, b'yes': True, b'nan': 0.1}";

run("adding and reading units", {
  "data comes back as it went in": [
    spec,
    ["add_work_units", ["ws", [t("a", rich)]]],
    units(`[(b'a', ${richShown})]`),
    get(`[(u'ws', b'a', ${richShown}), None]`),
  ],
  "mixed and odd keys of data maps are preserved": [
    spec,
    [
      "add_work_units",
      [
        "ws",
        [
          t(
            "a",
            new Dict([
              ["k", 1],
              [u("k"), 2],
              [3, 4],
              [null, 5],
              [f(1.5), 6],
              ["__proto__", 7],
              [Buffer.from([0xff]), 8],
            ]),
          ),
        ],
      ],
    ],
    units("[(b'a', {b'k': 1, u'k': 2, 3: 4, None: 5, 1.5: 6, b'__proto__': 7, b'\\xff': 8})]"),
  ],
  "keys may be any bytes, and come back as bytes": [
    spec,
    [
      "add_work_units",
      [
        "ws",
        [
          t(Buffer.from([0x80, 0xff]), {}),
          t(Buffer.from([0x80]), {}),
          t(u("é"), {}),
          t(Buffer.from([0xc3, 0xa9, 0]), {}),
        ],
      ],
    ],
    units("[(b'\\x80', {}), (b'\\x80\\xff', {}), (b'\\xc3\\xa9', {}), (b'\\xc3\\xa9\\x00', {})]"),
    [
      "get_work_units",
      ["ws", { work_unit_keys: [Buffer.from([0x80, 0xff])] }],
      "[[(b'\\x80\\xff', {})], None]",
    ],
    ["update_work_unit", ["ws", Buffer.from([0x80]), { status: 4 }]],
    counts("{1: 3, 4: 1}"),
  ],
  "every single byte is a key of its own": [
    spec,
    ["add_work_units", ["ws", Array.from({ length: 256 }, (_, byte) => t(Buffer.of(byte), {}))]],
    counts("{1: 256}"),
  ],
  "the empty key is a key": [
    spec,
    ["add_work_units", ["ws", [t("", {}), t("a", {})]]],
    units("[(b'', {}), (b'a', {})]"),
    units("[(b'a', {})]", { start: "" }),
  ],
  "text and bytes of the same content are the same key": [
    spec,
    ["add_work_units", ["ws", [t("a", { n: 1 }), t(u("a"), { n: 2 })]]],
    units("[(b'a', {b'n': 2})]"),
  ],
  "no data is an empty map": [spec, ["add_work_units", ["ws", [t("a", null)]]], units("[(b'a', {})]"), get()],
  "lists as items, and bare keys": [
    spec,
    ["add_work_units", ["ws", [["a", { n: 1 }], "b", u("c")]]],
    units("[(b'a', {b'n': 1}), (b'b', {}), (b'c', {})]"),
  ],
  "a tuple of items": [spec, ["add_work_units", ["ws", t(t("a", {}), t("b", {}))]], counts("{1: 2}")],
  "priorities: in metadata, as fourth, integer and float": [
    spec,
    [
      "add_work_units",
      [
        "ws",
        [
          t("a", {}),
          t("b", {}, { priority: 1 }),
          t("c", {}, null, 3),
          t("d", {}, { priority: 9 }, f(2.5)),
          t("e", {}, { priority: 2 }, null),
        ],
      ],
    ],
    [
      "get_work",
      ["w", { max_jobs: 10 }],
      "[[(u'ws', b'c', {}), (u'ws', b'd', {}), (u'ws', b'e', {}), (u'ws', b'b', {}), (u'ws', b'a', {})], None]",
    ],
  ],
  "priorities: below zero is last, not never": [
    spec,
    ["add_work_units", ["ws", [t("a", {}, null, -5)]]],
    get(),
  ],
  "priorities: must be numbers": [
    spec,
    ["add_work_units", ["ws", [t("a", {}, null, "x")]], error("priority must be a number")],
    ["add_work_units", ["ws", [t("a", {}, { priority: "x" })]], error("priority must be a number")],
    ["add_work_units", ["ws", [t("a", {}, null, f(NaN))]], error(/finite/)],
    units("[]"),
  ],
  "a delay: counted and listed as available, not handed out": [
    spec,
    ["add_work_units", ["ws", [t("a", {}, { delay: f(1.5) })]]],
    counts("{1: 1}"),
    units("[(b'a', {})]", { state: 1 }),
    status("[{u'status': 1, u'expiration': None}]", "a"),
    get(none3),
    1.5,
    get(),
  ],
  "a bad item, and nothing is added": [
    spec,
    ["add_work_units", ["ws", [t("a", {}), t("b")]], error("too few parameters to work unit")],
    ["add_work_units", ["ws", [t("a", {}), 5]], error("work unit not a list")],
    ["add_work_units", ["ws", [t("a", {}), t(5, {})]], error(/expected a string, got 5/)],
    ["add_work_units", ["ws", [t("a", {}), t("b", [1])]], error(/expected a map, got a list/)],
    ["add_work_units", ["ws", [t("a", {}), t("b", {}, 5)]], error(/expected a map, got 5/)],
    ["add_work_units", ["ws", [t("a", {}), t("x".repeat(5000), {})]], error(/Too large/)],
    units("[]"),
  ],
  "no list at all": [spec, ["add_work_units", ["ws", { a: 1 }], error(/expected a list, got a map/)]],
  "an empty batch": [spec, ["add_work_units", ["ws", []]]],
  "an unknown spec": [["add_work_units", ["no", [t("a", {})]], noSpec]],
  "added again: available gets the new data and priority": [
    spec,
    add("b"),
    ["add_work_units", ["ws", [t("a", { n: 1 })]]],
    ["add_work_units", ["ws", [t("b", { n: 2 }, null, 1)]]],
    get("[(u'ws', b'b', {b'n': 2}), None]"),
  ],
  "added again: pending goes on with the data it was given": [
    spec,
    add("a"),
    get(),
    ["2:add_work_units", ["ws", [t("a", { n: 2 })]]],
    status(`[{u'status': 3, u'expiration': ${start + 900}, u'worker_id': u'w'}]`, "a"),
    units("[(b'a', {})]"),
    update({ status: 4 }),
  ],
  "added again: finished and failed become available": [
    spec,
    add("a", "b"),
    get("*", { max_jobs: 2 }),
    update({ status: 4 }),
    update({ status: 5 }, yes, "b"),
    add("a", "b"),
    counts("{1: 2}"),
  ],
  "read by keys: in the order asked for, missing ones left out": [
    spec,
    add("a", "b", "c"),
    units("[(b'c', {}), (b'a', {})]", { work_unit_keys: ["c", "x", u("a")], state: 4, limit: 1 }),
    units("[(b'b', {})]", { work_unit_keys: t("b") }),
  ],
  "read by state: a number, a list, a tuple, none, unknown": [
    spec,
    add("a", "b", "c"),
    get(),
    units("[(b'b', {}), (b'c', {})]", { state: 1 }),
    units("[(b'a', {})]", { state: 3 }),
    units("[(b'a', {}), (b'b', {}), (b'c', {})]", { state: [1, 3] }),
    units("[(b'a', {})]", { state: t(3, 4) }),
    units("[(b'a', {}), (b'b', {}), (b'c', {})]", { state: [] }),
    units("[]", { state: 2 }),
    units("[]", { state: 77 }),
    units("[]", { state: [0, -1] }),
  ],
  "read in pages: start is left out, limits": [
    spec,
    add("a", "b", "c"),
    units("[(b'b', {}), (b'c', {})]", { start: "a" }),
    units("[(b'b', {})]", { start: "a", limit: 1 }),
    units("[(b'a', {}), (b'b', {}), (b'c', {})]", { limit: 0 }),
    units("[(b'a', {}), (b'b', {}), (b'c', {})]", { limit: -1 }),
    units("[(b'a', {}), (b'b', {}), (b'c', {})]", { limit: null, work_unit_keys: [] }),
    units("[]", { start: "c" }),
  ],
  "read: bad options": [
    spec,
    ["get_work_units", ["ws", { limit: "x" }], error(/limit: expected a number/)],
    ["get_work_units", ["ws", { work_unit_keys: "a" }], error(/expected a list/)],
    ["get_work_units", ["ws", { state: "x" }], error(/state/)],
    ["get_work_units", ["ws", [1]], error(/options: expected a map/)],
    ["get_work_units", ["ws", null], "[[], None]"],
  ],
  "read: no match and no spec are empty lists": [
    spec,
    units("[]"),
    ["get_work_units", ["no", {}], "[[], u'No such work spec no']"],
  ],
  "status: per key, in order, null where there is none": [
    spec,
    add("a", "b"),
    get(),
    status(
      `[None, {u'status': 3, u'expiration': ${start + 900}, u'worker_id': u'w'}, {u'status': 1, u'expiration': None}]`,
      "x",
      "a",
      "b",
    ),
    status("[]"),
    ["get_work_unit_status", ["no", ["a"]], "[None, u'No such work spec no']"],
    ["get_work_unit_status", ["ws", "a"], error(/expected a list/)],
  ],
  "status: a failed unit shows its traceback": [
    spec,
    add("a"),
    get(),
    update({ status: 5, data: { traceback: "boom" } }),
    status(`[{u'status': 5, u'expiration': ${start}, u'worker_id': u'w', u'traceback': b'boom'}]`, "a"),
  ],
  "status: a traceback is shown as it was stored, of whatever type": [
    spec,
    add("a"),
    get(),
    update({ status: 5, data: new Dict([[u("traceback"), u("b\u00f6se")]]) }),
    status(`[{u'status': 5, u'expiration': ${start}, u'worker_id': u'w', u'traceback': u'b\u00f6se'}]`, "a"),
    update({ status: 1, lease_time: 0 }),
    get(),
    update({ status: 5, data: { traceback: Buffer.from([0x62, 0xff]) } }),
    status(`[{u'status': 5, u'expiration': ${start}, u'worker_id': u'w', u'traceback': b'b\\xff'}]`, "a"),
    update({ status: 1, lease_time: 0 }),
    get(),
    update({ status: 5, data: { traceback: [1, { line: 2 }] } }),
    status(
      `[{u'status': 5, u'expiration': ${start}, u'worker_id': u'w', u'traceback': [1, {b'line': 2}]}]`,
      "a",
    ),
  ],
  "count: zeros are left out": [
    spec,
    counts("{}"),
    add("a", "b", "c"),
    get(),
    counts("{1: 2, 3: 1}"),
    update({ status: 4 }),
    counts("{1: 2, 4: 1}"),
    ["count_work_units", ["no"], "[None, u'No such work spec no']"],
  ],
  "prioritize: absolute, adjusted, neither": [
    spec,
    add("a", "b", "c"),
    ["prioritize_work_units", ["ws", { work_unit_keys: ["c", "x"], priority: 5, adjustment: null }]],
    ["prioritize_work_units", ["ws", { work_unit_keys: ["b"], priority: null, adjustment: 2 }]],
    ["prioritize_work_units", ["ws", { work_unit_keys: ["b"], priority: null, adjustment: f(4.5) }]],
    ["prioritize_work_units", ["ws", { work_unit_keys: ["a"], priority: null, adjustment: null }]],
    [
      "get_work",
      ["w", { max_jobs: 10 }],
      "[[(u'ws', b'b', {}), (u'ws', b'c', {}), (u'ws', b'a', {})], None]",
    ],
  ],
  "prioritize: keys are missing, empty, and a spec that is none": [
    spec,
    ["prioritize_work_units", ["ws", { priority: 1 }], "[False, u'missing work_unit_keys']"],
    ["prioritize_work_units", ["ws", { work_unit_keys: [], priority: 1 }]],
    ["prioritize_work_units", ["no", { work_unit_keys: ["a"], priority: 1 }], noSpec],
  ],
  "delete: by nothing, nothing": [
    spec,
    add("a", "b"),
    ["del_work_units", ["ws", {}], "[0, u'no usable options to del_work_units']"],
    ["del_work_units", ["ws", { all: false }], "[0, u'no usable options to del_work_units']"],
    ["del_work_units", ["ws", null], "[0, u'no usable options to del_work_units']"],
    ["del_work_units", ["ws", { work_unit_keys: [] }], "[0, None]"],
    counts("{1: 2}"),
  ],
  "delete: by key, by state, by both, all": [
    spec,
    add("a", "b", "c", "d"),
    get(),
    ["del_work_units", ["ws", { work_unit_keys: ["b", "x"] }], "[1, None]"],
    ["del_work_units", ["ws", { work_unit_keys: ["a", "c"], state: 3 }], "[1, None]"],
    ["del_work_units", ["ws", { state: 5 }], "[0, None]"],
    ["del_work_units", ["ws", { state: 2 }], "[0, None]"],
    ["del_work_units", ["ws", { state: 99 }], "[0, None]"],
    ["del_work_units", ["ws", { state: 1 }], "[2, None]"],
    add("a", "b"),
    ["del_work_units", ["ws", { all: true, work_unit_keys: ["a"] }], "[2, None]"],
    ["del_work_units", ["no", { all: true }], "[0, u'No such work spec no']"],
  ],
});

run("getting work", {
  "one job by default, as a tuple": [
    spec,
    add("a", "b"),
    get(),
    get("[(u'ws', b'b', {}), None]", { max_jobs: null }),
  ],
  "max_jobs 1 is a tuple, anything else a list": [
    spec,
    add("a", "b", "c", "d"),
    get("[(u'ws', b'a', {}), None]", { max_jobs: 1 }),
    get("[[(u'ws', b'b', {})], None]", { max_jobs: 0 }),
    get("[[(u'ws', b'c', {})], None]", { max_jobs: -3 }),
    get("[[(u'ws', b'd', {})], None]", { max_jobs: 10 }),
    get("[[], None]", { max_jobs: 10 }),
    get("[[], None]", { max_jobs: 0 }),
    get(none3, { max_jobs: f(1) }),
  ],
  "max_jobs 10": [
    spec,
    add("a", "b", "c"),
    get("[[(u'ws', b'a', {}), (u'ws', b'b', {}), (u'ws', b'c', {})], None]", { max_jobs: 10 }),
  ],
  max_getwork: [
    named("ws", { max_getwork: 2 }),
    add("a", "b", "c"),
    get("[[(u'ws', b'a', {}), (u'ws', b'b', {})], None]", { max_jobs: 10 }),
  ],
  max_running: [
    named("ws", { max_running: 2 }),
    add("a", "b", "c"),
    get("*", { max_jobs: 10 }),
    get("[[], None]", { max_jobs: 10 }),
    update({ status: 4 }),
    get("[[(u'ws', b'c', {})], None]", { max_jobs: 10 }),
  ],
  "only from the specs that are named": [
    spec,
    named("other"),
    add("a"),
    ["get_work", ["w", { work_spec_names: ["other", "unknown"] }], none3],
    ["get_work", ["w", { work_spec_names: t(u("ws")) }], "[(u'ws', b'a', {}), None]"],
  ],
  "an empty list of specs is all of them": [
    spec,
    add("a"),
    get("[(u'ws', b'a', {}), None]", { work_spec_names: [] }),
  ],
  "specs of another runtime are not for Python": [named("ws", { runtime: "go" }), add("a"), get(none3)],
  "memory that is stated": [
    named("ws", { min_gb: 8 }),
    add("a"),
    get(none3, { available_gb: f(4.5) }),
    get("[(u'ws', b'a', {}), None]", { available_gb: f(8) }),
  ],
  "memory that is not known": [
    named("ws", { min_gb: 8 }),
    add("a"),
    get("[(u'ws', b'a', {}), None]", { available_gb: 0 }),
  ],
  "the lease is what was asked for": [
    spec,
    add("a"),
    get("*", { lease_time: 10 }),
    status(`[{u'status': 3, u'expiration': ${start + 10}, u'worker_id': u'w'}]`, "a"),
    9,
    get(none3),
    1,
    get(),
  ],
  "a fraction of a second": [spec, add("a"), get("*", { lease_time: f(1.5) }), 1, get(none3), 0.5, get()],
  "a lease without sense is five minutes, a huge one a day": [
    spec,
    add("a", "b", "c"),
    get("*", { lease_time: 0 }),
    get("*", { lease_time: -1 }),
    get("*", { lease_time: 1e9 }),
    status(
      `[{u'status': 3, u'expiration': ${start + 300}, u'worker_id': u'w'}, {u'status': 3, u'expiration': ${start + 300}, u'worker_id': u'w'}, {u'status': 3, u'expiration': ${start + 86400}, u'worker_id': u'w'}]`,
      "a",
      "b",
      "c",
    ),
  ],
  "a lease that is no number": [
    ["get_work", ["w", { lease_time: f(NaN) }], error(/finite/)],
    ["get_work", ["w", { lease_time: "x" }], error(/lease_time/)],
  ],
  "without options, and for nobody": [
    spec,
    add("a", "b"),
    ["get_work", ["w"], "[(u'ws', b'a', {}), None]"],
    ["get_work", [null, null], "[(u'ws', b'b', {}), None]"],
  ],
  "continuous specs make units of their own": [
    named("ws", { continuous: true, interval: 60 }),
    get("*"),
    counts("{3: 1}"),
  ],
  "too many retries: failed, and not handed out": [
    named("ws", { max_retries: 1 }),
    add("a"),
    get("*", { lease_time: 1 }),
    2,
    get(none3),
    status(
      `[{u'status': 5, u'expiration': ${start + 2}, u'worker_id': u'w', u'traceback': u'too many retries'}]`,
      "a",
    ),
  ],
  "the worker's id must be a string": [["get_work", [5, {}], error(/worker_id/)]],
});

run("saying what became of it", {
  "finished with data; twice is harmless": [
    spec,
    add("a"),
    get(),
    update({ status: 4, data: { done: t(1) } }),
    update({ status: 4 }, no),
    units("[(b'a', {b'done': (1,)})]"),
    counts("{4: 1}"),
  ],
  "finished twice makes chained units once": [
    named("ws", { then: "next" }),
    named("next"),
    add("a"),
    get(),
    update({ status: 4, data: { output: { x: { n: 1 } } } }),
    ["get_work", ["w", { work_spec_names: ["next"] }], "[(u'next', b'x', {b'n': 1}), None]"],
    ["update_work_unit", ["next", "x", { status: 4 }]],
    update({ status: 4 }, no),
    ["count_work_units", ["next"], "[{4: 1}, None]"],
  ],
  "failed; then finished wins, with the new data": [
    named("ws", { then: "next" }),
    named("next"),
    add("a"),
    get(),
    update({ status: 5, data: { traceback: "x" } }),
    update({ status: 5 }, no),
    update({ status: 4, data: { output: ["n"] } }),
    counts("{4: 1}"),
    ["count_work_units", ["next"], "[{1: 1}, None]"],
  ],
  "finished then failed stays finished": [
    spec,
    add("a"),
    get(),
    update({ status: 4 }),
    update({ status: 5, data: { x: 1 } }, no),
    counts("{4: 1}"),
    units("[(b'a', {})]"),
  ],
  "renewed: by default five minutes, or what is said": [
    spec,
    add("a"),
    get(),
    update({}),
    status(`[{u'status': 3, u'expiration': ${start + 300}, u'worker_id': u'w'}]`, "a"),
    update({ lease_time: 1000, data: { n: 1 } }),
    status(`[{u'status': 3, u'expiration': ${start + 1000}, u'worker_id': u'w'}]`, "a"),
    units("[(b'a', {b'n': 1})]"),
    update({ lease_time: 1e9, status: 3 }),
    status(`[{u'status': 3, u'expiration': ${start + 86400}, u'worker_id': u'w'}]`, "a"),
  ],
  "a negative lease gives it back, and it can be had again": [
    spec,
    add("a"),
    get(),
    update({ lease_time: -1 }),
    counts("{1: 1}"),
    get(),
    update({ lease_time: 0 }),
    get(),
    update({ status: 4 }),
  ],
  "given back: the unit has its own data again": [
    spec,
    add("a"),
    get(),
    update({ data: { n: 1 } }),
    update({ lease_time: -1 }),
    get(),
  ],
  "retry of a pending, a failed and a finished unit": [
    spec,
    add("a"),
    get(),
    update({ lease_time: 0, status: 1 }),
    get(),
    update({ status: 5, data: { traceback: "x" } }),
    on2(update({ lease_time: 0, status: 1 })),
    get(),
    update({ status: 4 }),
    on2(update({ lease_time: 0, status: 1 })),
    get(),
    counts("{3: 1}"),
  ],
  "retry by an operator of a unit that another worker has after an expired lease": [
    spec,
    add("a"),
    get("*", { lease_time: 10 }),
    11,
    ["2:get_work", ["w2", {}], "[(u'ws', b'a', {}), None]"],
    // the first worker returns a unit whose lease it has lost
    update({ lease_time: 0, status: 1, worker_id: "w" }, no),
    update({ lease_time: 0, status: 1, data: {} }, lost),
    ["3:update_work_unit", ["ws", "a", { lease_time: 0, status: 1, worker_id: "x" }], lost],
    ["3:update_work_unit", ["ws", "a", { lease_time: 0 }], lost],
    ["3:update_work_unit", ["ws", "a", { status: 1, lease_time: 0 }]],
    counts("{1: 1}"),
    ["2:update_work_unit", ["ws", "a", { status: 4 }], "*"],
  ],
  "retry of a unit that waits is nothing": [spec, add("a"), update({ lease_time: 0, status: 1 }, no)],
  "data for a unit that waits replaces its own, and nothing else": [
    spec,
    ["add_work_units", ["ws", [t("a", {}, { delay: 10 }, 3)]]],
    update({ data: { n: 1 } }),
    units("[(b'a', {b'n': 1})]"),
    get(none3),
    10,
    get("[(u'ws', b'a', {b'n': 1}), None]"),
  ],
  "nothing for a unit that waits is nothing": [spec, add("a"), update({}, no)],
  "a unit that waits can be taken, finished and failed, and is handed out no more": [
    spec,
    add("a", "b", "c"),
    update({ status: 3, worker_id: "me", lease_time: 60 }),
    status(`[{u'status': 3, u'expiration': ${start + 60}, u'worker_id': u'me'}]`, "a"),
    update({ status: 4, data: { n: 1 } }, yes, "b"),
    update({ status: 5 }, yes, "c"),
    counts("{3: 1, 4: 1, 5: 1}"),
    get(none3),
  ],
  "numbers that are no status": [
    spec,
    add("a"),
    ["update_work_unit", ["ws", "a", { status: 2 }], error("update_work_unit invalid status")],
    ["update_work_unit", ["ws", "a", { status: 9 }], error("update_work_unit invalid status")],
    counts("{1: 1}"),
    get(),
    ["update_work_unit", ["ws", "a", { status: 2 }], error("update_work_unit invalid status")],
    counts("{3: 1}"),
  ],
  "an ended unit cannot become pending": [
    spec,
    add("a", "b"),
    get("*", { max_jobs: 2 }),
    update({ status: 4 }),
    update({ status: 5 }, yes, "b"),
    ["update_work_unit", ["ws", "a", { status: 3 }], error("update_work_unit cannot change finished unit")],
    ["2:update_work_unit", ["ws", "b", { status: 3 }], error("update_work_unit cannot change failed unit")],
    ["2:update_work_unit", ["ws", "a", { status: 8 }], error("update_work_unit cannot change finished unit")],
    update({}, no),
    update({ lease_time: 5 }, no, "b"),
  ],
  "an unknown unit and an unknown spec": [
    spec,
    update({ status: 4 }, "[False, u'no such work unit key='x'']", "x"),
    ["update_work_unit", ["no", "a", { status: 4 }], noSpec],
  ],
  "bad options": [
    spec,
    add("a"),
    ["update_work_unit", ["ws", "a", { status: "x" }], error(/status/)],
    ["update_work_unit", ["ws", "a", { data: [1] }], error(/expected a map/)],
    ["update_work_unit", ["ws", "a", 7], error(/options/)],
    ["update_work_unit", ["ws", 7, {}], error(/work unit key/)],
  ],
  "chaining: a map, names, tuples with metadata, and what cannot be read": [
    named("ws", { then: "next" }),
    named("next"),
    add("a", "b", "c", "d"),
    get("*", { max_jobs: 4, work_spec_names: ["ws"] }),
    update({ status: 4, data: { output: { m: { n: 1 } } } }),
    update({ status: 4, data: new Dict([[u("output"), ["n", u("o"), Buffer.from([0xff])]]]) }, yes, "b"),
    update(
      {
        status: 4,
        data: {
          output: [t("p", { n: 2 }, { priority: 7 }), ["q", {}, null, 8], t("late", {}, { delay: 10 }), 5],
        },
      },
      yes,
      "c",
    ),
    update({ status: 4, data: { output: "string" } }, yes, "d"),
    [
      "get_work",
      ["w", { work_spec_names: ["next"], max_jobs: 10 }],
      "[[(u'next', b'q', {}), (u'next', b'p', {b'n': 2}), (u'next', b'm', {b'n': 1}), (u'next', b'n', {}), (u'next', b'o', {}), (u'next', b'\\xff', {})], None]",
    ],
  ],
  "chaining: a successor that is not there": [
    named("ws", { then: "nowhere" }),
    add("a"),
    get(),
    update({ status: 4, data: { output: ["x"] } }),
    counts("{4: 1}"),
  ],
});

run("fencing", {
  "late, but nobody took it: still counts": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    counts("{1: 1}"),
    update({ status: 4 }),
    counts("{4: 1}"),
  ],
  "late, and another one holds it: refused, and nothing changes": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    ["2:get_work", ["w2", {}], "[(u'ws', b'a', {}), None]"],
    update({ status: 4, data: { bad: 1 } }, lost),
    update({ status: 5 }, lost),
    update({ lease_time: 100 }, lost),
    update({ lease_time: -1 }, no),
    counts("{3: 1}"),
    units("[(b'a', {})]"),
    on2(update({ status: 4, data: { good: 1 } })),
    units("[(b'a', {b'good': 1})]"),
  ],
  "late, and another one has finished it: a no that changes nothing": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    ["2:get_work", ["w2", {}], "*"],
    on2(update({ status: 4, data: { good: 1 } })),
    update({ status: 4, data: { bad: 1 } }, lost),
    units("[(b'a', {b'good': 1})]"),
  ],
  "deleted and added again is another unit": [
    spec,
    add("a"),
    get(),
    ["2:del_work_units", ["ws", { all: true }], "[1, None]"],
    update({ status: 4 }, "[False, u'no such work unit key='a'']"),
    on2(add("a")),
    update({ status: 4 }, lost),
    counts("{1: 1}"),
  ],
  "another connection may speak where there was one attempt": [
    spec,
    add("a"),
    get(),
    on2(update({ status: 4 })),
    counts("{4: 1}"),
  ],
  "another connection may not where an earlier holder may be alive": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    get(),
    on2(update({ status: 4 }, lost)),
    counts("{3: 1}"),
    ["2:update_work_unit", ["ws", "a", { status: 4, worker_id: "w" }]],
  ],
  "another connection that speaks for the worker may": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    get(),
    ["2:worker_heartbeat", ["w", "RUN", 60, {}, null]],
    on2(update({ status: 4 })),
  ],
  "after a reset the count begins anew": [
    spec,
    add("a"),
    get(),
    update({ status: 5 }),
    on2(update({ status: 1, lease_time: 0 })),
    get(),
    on2(update({ status: 4 })),
  ],
  "a unit that expired once and waits is not ended by a stranger's guess": [
    spec,
    add("a"),
    get("*", { lease_time: 1 }),
    5,
    get("*", { lease_time: 1 }),
    5,
    on2(update({ status: 4 }, lost)),
    counts("{1: 1}"),
    update({ status: 4 }),
  ],
  "a parent ends the job of its child": [
    spec,
    add("a"),
    ["worker_heartbeat", ["child", "RUN", 60, { pid: 1 }, "parent"]],
    ["get_work", ["child", { lease_time: 1 }], "*"],
    5,
    ["get_work", ["child", { lease_time: 1 }], "[(u'ws', b'a', {}), None]"],
    [
      "2:get_child_work_units",
      ["parent"],
      `[{u'child': [{u'work_spec_name': u'ws', u'work_unit_key': b'a', u'work_unit_data': {}, u'worker_id': u'child', u'expires': ${start + 6}}]}, None]`,
    ],
    on2(update({ status: 5, data: { traceback: "job expired" } })),
    update({ status: 4 }),
    counts("{4: 1}"),
  ],
});

run(
  "fencing that is lenient",
  {
    "whoever speaks is believed": [
      spec,
      add("a"),
      get("*", { lease_time: 1 }),
      5,
      ["2:get_work", ["w2", {}], "*"],
      update({ status: 4, data: { late: 1 } }),
      counts("{4: 1}"),
      on2(update({ status: 4 }, no)),
    ],
    "also of a unit that waits": [
      spec,
      add("a"),
      get("*", { lease_time: 1 }),
      5,
      get("*", { lease_time: 1 }),
      5,
      on2(update({ status: 4 })),
      counts("{4: 1}"),
    ],
  },
  { legacyFencing: "lenient" },
);

const beat = (
  id: string,
  mode: Value = "RUN",
  seconds: Value = 60,
  data: Value = {},
  parent: Value = null,
): Step => ["worker_heartbeat", [id, mode, seconds, data, parent]];

run("workers", {
  "a heartbeat, and what it says": [
    beat("w", "RUN", 6000, { pid: 7, aliases: t("x"), memory: t(1, f(2)), version: "1.0" }),
    [
      "get_worker_info",
      ["w"],
      "[{b'pid': 7, b'aliases': (b'x',), b'memory': (1, 2.0), b'version': b'1.0'}, None]",
    ],
    ["list_worker_modes", [], "[{u'w': u'RUN'}, None]"],
    ["mode_counts", [], "[{u'RUN': 1}, None]"],
  ],
  "modes are counted": [
    beat("a"),
    beat("b"),
    beat("c", "IDLE"),
    ["mode_counts", [], "[{u'RUN': 2, u'IDLE': 1}, None]"],
    ["list_worker_modes", [], "[{u'a': u'RUN', u'b': u'RUN', u'c': u'IDLE'}, None]"],
  ],
  nobody: [
    ["list_worker_modes", [], "[{}, None]"],
    ["mode_counts", [], "[{}, None]"],
    ["worker_stats", [], "{u'num_workers': 0, u'num_children': 0, u'num_expirable': 0}"],
  ],
  "who registered without a mode and an environment is listed": [
    ["worker_heartbeat", ["w", null, 6000, null, null], "[True, None]"],
    ["list_worker_modes", [], "[{u'w': u''}, None]"],
    ["get_worker_info", ["w"], "[{}, None]"],
  ],
  "who only asked for work is not listed": [spec, add("a"), get(), ["list_worker_modes", [], "[{}, None]"]],
  "expired workers are gone": [
    beat("w", "RUN", f(1.5)),
    1,
    ["list_worker_modes", [], "[{u'w': u'RUN'}, None]"],
    1,
    ["list_worker_modes", [], "[{}, None]"],
    ["get_worker_info", ["w"], "[None, None]"],
  ],
  "a negative and a huge life": [
    [
      "worker_heartbeat",
      ["a", "RUN", -5, {}, null],
      "[True, u'negative expire time -5 defaulted to 5 minutes']",
    ],
    [
      "worker_heartbeat",
      ["b", "RUN", 100000, {}, null],
      "[True, u'huge expire time 100000 defaulted to one hour']",
    ],
    301,
    ["list_worker_modes", [], "[{u'b': u'RUN'}, None]"],
    3600,
    ["list_worker_modes", [], "[{}, None]"],
  ],
  "a heartbeat has five parameters": [
    ["worker_heartbeat", ["w", "RUN", 60, {}], error("wrong number of parameters")],
    ["worker_heartbeat", ["w", "RUN", 60, {}, null, 1], error("wrong number of parameters")],
  ],
  "a heartbeat of wrong types": [
    ["worker_heartbeat", [5, "RUN", 60, {}, null], error(/worker_id/)],
    ["worker_heartbeat", ["w", "RUN", "x", {}, null], error(/expire_seconds/)],
    ["worker_heartbeat", ["w", "RUN", 60, [1], null], error(/data: expected a map/)],
    ["worker_heartbeat", ["w", "RUN", 60, {}, 5], error(/parent/)],
    ["worker_heartbeat", ["w", "RUN", null, {}, null], error(/expire_seconds/)],
  ],
  "unregistered is gone, twice is no": [
    beat("w"),
    ["worker_unregister", ["w"]],
    ["worker_unregister", ["w"], "[False, u'no worker 'w'']"],
    ["worker_unregister", ["nobody"], "[False, u'no worker 'nobody'']"],
    ["list_worker_modes", [], "[{}, None]"],
    ["get_worker_info", ["w"], "[None, None]"],
    beat("w"),
    ["list_worker_modes", [], "[{u'w': u'RUN'}, None]"],
  ],
  "info of a worker that is not known": [["get_worker_info", ["w"], "[None, None]"]],
  stats: [
    beat("p"),
    beat("c", "RUN", 60, {}, "p"),
    beat("d", "RUN", 60, {}, ""),
    ["worker_stats", [], "{u'num_workers': 3, u'num_children': 1, u'num_expirable': 3}"],
  ],
  "children: what they hold, idle ones with nothing": [
    spec,
    ["add_work_units", ["ws", [t(Buffer.from([0xff]), { n: 1 })]]],
    beat("p"),
    beat("c1", "RUN", 6000, {}, "p"),
    beat("c2", "RUN", 6000, {}, "p"),
    ["get_work", ["c1", { lease_time: 60 }], "*"],
    [
      "get_child_work_units",
      ["p"],
      `[{u'c1': [{u'work_spec_name': u'ws', u'work_unit_key': b'\\xff', u'work_unit_data': {b'n': 1}, u'worker_id': u'c1', u'expires': ${start + 60}}], u'c2': []}, None]`,
    ],
    ["update_work_unit", ["ws", Buffer.from([0xff]), { status: 4 }]],
    ["get_child_work_units", ["p"], "[{u'c1': [], u'c2': []}, None]"],
    ["worker_unregister", ["c2"]],
    ["get_child_work_units", ["p"], "[{u'c1': []}, None]"],
  ],
  "children: units of a spec that was deleted are left out": [
    spec,
    add("a"),
    beat("c", "RUN", 60, {}, "p"),
    ["get_work", ["c", {}], "*"],
    ["del_work_spec", ["ws"]],
    ["get_child_work_units", ["p"], "[{u'c': []}, None]"],
  ],
  "children: of nobody": [["get_child_work_units", ["x"], "[{}, None]"]],
  "a parent may come later and go": [
    beat("c"),
    beat("c", "RUN", 60, {}, "p"),
    ["get_child_work_units", ["p"], "[{u'c': []}, None]"],
    beat("c"),
    ["get_child_work_units", ["p"], "[{}, None]"],
  ],
  "a worker cannot be its own parent": [["worker_heartbeat", ["w", "RUN", 60, {}, "w"], error(/cycle/)]],
  "no configuration": [["get_config", [], error("no config to get")]],
  now: [["now", [], String(start)], 2.5, ["now", [], String(start + 2)]],
});

run(
  "configuration",
  { "is told": [["get_config", [], "[{u'coordinate': {u'port': 5932, u'names': [u'é', 1.5]}}, None]"]] },
  { config: { coordinate: { port: 5932, names: ["é", 1.5] } } },
);

const keys = (...paths: Value[][]): Value => paths.map((path) => t(...path));

run("locks", {
  "taken, read, renewed, given back": [
    ["lock", ["me", 60, keys(["a", "b"])]],
    ["readlock", [keys(["a", "b"], ["a"], ["a", "b", "c"])], "[u'me', None, None]"],
    ["renew", ["me", 60, keys(["a", "b"])]],
    ["unlock", ["me", keys(["a", "b"])]],
    ["readlock", [keys(["a", "b"])], "[None]"],
  ],
  "what is below, above and the same is refused; beside it is free": [
    ["lock", ["me", 60, keys(["a", "b"])]],
    ["lock", ["you", 60, keys(["a"])], "[False, u'[a] is not lockable']"],
    ["lock", ["you", 60, keys(["a", "b", "c"])], "[False, u'[a b c] is not lockable']"],
    ["lock", ["me", 60, keys(["a", "b"])], "[False, u'[a b] is not lockable']"],
    ["lock", ["you", 60, keys([])], "[False, u'[] is not lockable']"],
    ["lock", ["you", 60, keys(["a", "c"], ["d"])]],
  ],
  "all or nothing": [
    ["lock", ["me", 60, keys(["a"])]],
    ["lock", ["you", 60, keys(["b"], ["a"])], "[False, u'[a] is not lockable']"],
    ["readlock", [keys(["b"])], "[None]"],
  ],
  "some: each by itself, the paths as they came": [
    ["lock", ["me", 60, keys(["a"])]],
    [
      "locksome",
      ["you", 60, [["s"], ["s", "t"], ["a"], [u("u"), 1, f(1)]]],
      "[[[b's'], None, None, [u'u', 1, 1.0]], None]",
    ],
    ["locksome", ["you", 60, []], "[[], None]"],
  ],
  "nothing to lock": [["lock", ["me", 60, []]]],
  "duplicates and relatives in one call": [["lock", ["me", 60, keys(["a"], ["a"], ["a", "b"])]]],
  "the root locks everything": [
    ["lock", ["me", 60, keys([])]],
    ["lock", ["you", 60, keys(["x"])], "[False, u'[x] is not lockable']"],
  ],
  "the default is a minute": [
    ["lock", ["me", 0, keys(["a"])]],
    ["lock", ["me", null, keys(["b"])]],
    ["lock", ["me", f(0.9), keys(["c"])]],
    59,
    ["readlock", [keys(["a"], ["b"], ["c"])], "[u'me', u'me', u'me']"],
    2,
    ["readlock", [keys(["a"], ["b"], ["c"])], "[None, None, None]"],
  ],
  "a huge timeout is cut": [
    ["lock", ["me", 1e12, keys(["a"])]],
    1000001,
    ["readlock", [keys(["a"])], "[None]"],
  ],
  "a negative timeout has already passed": [
    ["lock", ["me", -1, keys(["a"])]],
    ["lock", ["you", 60, keys(["a"])]],
  ],
  "renewed by the wrong one, or what is not held": [
    ["lock", ["me", 60, keys(["a"])]],
    ["renew", ["you", 60, keys(["a"])], "[False, u'[a] is held by me']"],
    ["renew", ["you", 60, keys(["b"])], "[False, u'[b] is held by None']"],
    ["renew", ["", 60, keys(["b"])], "[False, u'[b] is held by None']"],
    ["unlock", ["you", keys(["a"])], "[False, u'[a] is held by me']"],
    ["unlock", ["you", keys(["b"])], "[False, u'[b] is not held']"],
  ],
  "nobody is an owner": [
    ["lock", [null, 60, keys(["a"])]],
    ["readlock", [keys(["a"])], "[u'']"],
  ],
  "labels: text and bytes are one, numbers are not": [
    ["lock", ["me", 60, keys(["a"], [1])]],
    ["readlock", [keys([u("a")], ["1"], [f(1)], [1])], "[u'me', None, None, u'me']"],
    ["lock", ["me", 60, keys([Buffer.from([0xff])], [null], [t(1)])]],
    [
      "readlock",
      [keys([Buffer.from([0xff])], [Buffer.from([0xfe])], [null], [t(1)], [[1]])],
      "[u'me', None, u'me', u'me', None]",
    ],
  ],
  "paths that are none": [
    ["lock", ["me", 60, "a"], error("cannot decode key paths")],
    ["lock", ["me", 60, ["a"]], error("cannot decode key paths")],
    ["readlock", [{ a: 1 }], error("cannot decode key paths")],
    ["lock", ["me", "x", keys(["a"])], error(/timeout/)],
    ["lock", ["me", 60], error("wrong number of parameters")],
  ],
  "labels that the client could not read again": [
    ["locksome", ["me", 60, [[new Tagged(128, "x")]]], error(/tuple is not an array/)],
    ["locksome", ["me", 60, [[new Tagged(37, "x")]]], error(/UUID/)],
    ["locksome", ["me", 60, [[[new Raw(hex("61ff"))]]]], error(/not UTF-8/)],
    ["locksome", ["me", 60, [[new Raw(hex("61ff"))]]], error(/not UTF-8/)],
  ],
  "a namespace of locks is deleted": [
    ["lock", ["me", 60, keys(["a", "x"], ["a", "y"], ["b"])]],
    ["delete_namespace", ["a"], "0"],
    ["readlock", [keys(["a", "x"], ["a", "y"], ["b"])], "[None, None, u'me']"],
    ["delete_namespace", ["none"], "0"],
  ],
});

run("calls that are none", {
  "unknown methods": [
    ["bogus", [], error("no such method Bogus")],
    ["get_bogus_thing", [], error("no such method GetBogusThing")],
    ["", [], error(/^no such method/)],
    ["__proto__", [], error(/^no such method/)],
    ["constructor", [], error(/^no such method/)],
    ["snapshot", ["/tmp/x"], error(/^no such method/)],
    ["load_snapshot", [], error(/^no such method/)],
  ],
  "too few and too many parameters": [
    ["get_work_spec", [], error("wrong number of parameters")],
    ["get_work_spec", ["a", "b"], error("wrong number of parameters")],
    ["clear", [1], error("wrong number of parameters")],
    ["now", [1], error("wrong number of parameters")],
    ["get_work", [], error("wrong number of parameters")],
    ["add_work_units", ["ws"], error("wrong number of parameters")],
    ["update_work_unit", ["ws"], error("wrong number of parameters")],
    ["list_worker_modes", [1], error("wrong number of parameters")],
  ],
  "tags that are not known, wherever they are": [
    spec,
    ["add_work_units", ["ws", [t("a", { x: new Tagged(99, 1) })]], error(/tag 99 is not supported/)],
    ["get_work", ["w", { max_jobs: new Tagged(0, "x") }], error(/tag 0 is not supported/)],
    ["get_work", ["w", { unknown: new Tagged(55799, 1) }], error(/tag 55799/)],
    ["add_work_units", ["ws", [t("a", { x: new Tagged(37, "short") })]], error(/UUID is not 16 bytes/)],
    ["add_work_units", ["ws", [t("a", { x: new Tagged(128, 5) })]], error(/tuple is not an array/)],
    units("[]"),
  ],
  "simple values that nobody sends": [
    ["get_work", [new Raw(hex("f0")), {}], error(/simple/)],
    ["get_work", [new Raw(hex("f8ff")), {}], error(/simple/)],
  ],
  "text that is not UTF-8": [
    ["get_work_spec", [new Raw(hex("62c328"))], error(/not UTF-8/)],
    spec,
    ["add_work_units", ["ws", [t("a", { x: new Raw(hex("61ff")) })]], error(/not UTF-8/)],
  ],
  "data that is nested too deep": [
    spec,
    [
      "add_work_units",
      ["ws", [t("a", { x: new Raw(Buffer.concat([Buffer.alloc(100_000, 0x81), hex("00")])) })]],
      error(/too deep/),
    ],
    [
      "add_work_units",
      [
        "ws",
        [t("a", { x: new Raw(Buffer.concat([Buffer.alloc(100_000, 0x9f), Buffer.alloc(100_000, 0xff)])) })],
      ],
      error(/too deep/),
    ],
    ["now", [], String(start)],
  ],
  "data that is too large": [
    spec,
    ["add_work_units", ["ws", [t("a", { x: Buffer.alloc(17 * 1024 * 1024) })]], error(/Too large/)],
  ],
});
