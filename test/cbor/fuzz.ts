/**
 * Sends mutated frames to the whole server except the network: frame reader, envelope, methods, verbs and an engine.
 * No frame may cause a crash or an internal error, the Python client must be able to read every response, and memory
 * must not grow. The same seed gives the same frames.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import type { Call } from "../../src/cbor/call.ts";
import { Connection } from "../../src/cbor/connection.ts";
import { Fencing } from "../../src/cbor/fencing.ts";
import {
  defaultDataLimits,
  Engine,
  ManualClock,
  nextTurn,
  seededRandom,
  type Random,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { LargeRequests } from "../../src/traffic/index.ts";
import { decode, Dict, encode, f, hex, show, t, u, Uuid, wrap, type Value } from "./wire.ts";

/** The parts of a socket that a connection uses. */
class FakeSocket extends EventEmitter {
  readonly written: Buffer[] = [];
  readonly writableNeedDrain = false;
  write(bytes: Buffer, done?: () => void): boolean {
    if (bytes.length > 0) this.written.push(bytes);
    done?.();
    return true;
  }
  cork(): void {}
  uncork(): void {}
  pause(): void {}
  resume(): void {}
  setTimeout(): void {}
}

const data: Value = new Dict([
  ["output", ["a", t("b", { n: 1 }, { priority: 1, delay: 2 }, 3)]],
  [u("text"), u("é")],
  ["bytes", Buffer.from([0xff, 0x80])],
  ["tuple", t(1, [f(1.5), 2n ** 70n, null, true])],
  ["uuid", new Uuid("0123456789abcdef0123456789abcdef")],
]);

/** Well-formed requests that cover all methods and options. */
const calls: [string, ...Value[]][] = [
  ["set_work_spec", { name: "ws", min_gb: 1, then: "next", max_retries: 3, module: u("m"), weight: 3 }],
  ["set_work_spec", { name: "next", continuous: true, interval: f(0.5) }],
  ["get_work_spec", "ws"],
  ["list_work_specs", { start: "a", limit: 1 }],
  ["control_work_spec", "ws", { status: 1, weight: 5, max_running: 10, interval: 3, continuous: false }],
  ["get_work_spec_meta", "ws"],
  ["add_work_units", "ws", [t("a", data), t("b", {}, { priority: 1, delay: 1 }, f(2)), "c", [u("d"), null]]],
  ["get_work_units", "ws", { work_unit_keys: ["a"], state: [1, 3], start: "a", limit: 10 }],
  ["get_work_units", "ws", {}],
  ["get_work_unit_status", "ws", ["a", "b", "x"]],
  ["count_work_units", "ws"],
  ["prioritize_work_units", "ws", { work_unit_keys: ["a"], priority: null, adjustment: 2 }],
  ["del_work_units", "ws", { work_unit_keys: ["c"], state: 1, all: false }],
  ["archive", {}],
  ["get_work", "w", { max_jobs: 1, lease_time: 900, available_gb: f(3.5), work_spec_names: ["ws"] }],
  ["get_work", "w", { max_jobs: 5 }],
  ["update_work_unit", "ws", "a", { status: 4, data }],
  ["update_work_unit", "ws", "b", { status: 5, data: { traceback: "x" }, worker_id: "w" }],
  ["update_work_unit", "ws", "a", { lease_time: -1, status: 1 }],
  ["worker_heartbeat", "w", "RUN", 6000, data, "p"],
  ["worker_unregister", "w"],
  ["list_worker_modes"],
  ["mode_counts"],
  ["get_worker_info", "w"],
  ["worker_stats"],
  ["get_child_work_units", "p"],
  ["get_config"],
  ["now"],
  ["lock", "me", 60, [t("a", "b"), t(1, f(1), null)]],
  ["locksome", "me", 60, [["a"], ["c"]]],
  ["renew", "me", 60, [["a", "b"]]],
  ["unlock", "me", [["a", "b"]]],
  ["readlock", [["a", "b"]]],
  ["delete_namespace", "a"],
  ["del_work_spec", "next"],
  ["clear"],
  ["coordinate.listNamespaces"],
  ["coordinate.setNamespace", u("n"), new Dict([[u("policy"), u("python")]])],
  [
    "coordinate.setWorkSpecs",
    u(""),
    [new Dict([[u("data"), u('{"name":"ws"}')]])],
    new Dict([[u("keepMeta"), true]]),
  ],
  [
    "coordinate.getWorkSpecs",
    u(""),
    [
      u("ws"),
      new Dict([
        [u("name"), u("ws")],
        [u("id"), 1],
      ]),
    ],
  ],
  ["coordinate.setWorkSpecMeta", u(""), u("ws"), new Dict([[u("weight"), 5]])],
  [
    "coordinate.addWorkUnits",
    u(""),
    u("ws"),
    [
      new Dict([
        [u("name"), u("x")],
        [u("data"), Buffer.from([0xa0])],
        [u("priority"), 3],
        [u("dependencies"), [new Dict([[u("workUnit"), u("a")]])]],
      ]),
    ],
    new Dict([[u("requestId"), u("r")]]),
  ],
  [
    "coordinate.listWorkUnits",
    u(""),
    u("ws"),
    new Dict([
      [u("names"), [u("a")]],
      [u("statuses"), [u("pending")]],
      [u("prefix"), u("a")],
      [u("limit"), 5],
      [u("previous"), u("a")],
    ]),
  ],
  [
    "coordinate.requestAttempts",
    u(""),
    new Dict([
      [u("worker"), u("w")],
      [u("number"), 3],
      [u("workSpecs"), [u("ws")]],
    ]),
  ],
  [
    "coordinate.makeAttempts",
    u(""),
    [
      new Dict([
        [u("workSpec"), u("ws")],
        [u("workUnit"), u("a")],
        [u("worker"), u("w")],
      ]),
    ],
  ],
  [
    "coordinate.settleAttempts",
    u(""),
    [
      new Dict([
        [u("attempt"), u("1.1")],
        [u("action"), u("finish")],
        [u("data"), u("{}")],
      ]),
    ],
  ],
  [
    "coordinate.listWorkerAttempts",
    u(""),
    u("w"),
    new Dict([
      [u("which"), u("all")],
      [u("limit"), 3],
    ]),
  ],
  [
    "coordinate.updateWorkers",
    u(""),
    [
      new Dict([
        [u("name"), u("w")],
        [u("active"), true],
        [u("parent"), u("p")],
        [u("expiration"), 1e12],
        [u("desired"), u("idle")],
      ]),
    ],
  ],
  [
    "coordinate.listWorkers",
    u(""),
    new Dict([
      [u("names"), [u("w")]],
      [u("active"), true],
      [u("root"), false],
      [u("parent"), u("p")],
      [u("prefix"), u("w")],
    ]),
  ],
  ["coordinate.tally", u("")],
  [
    "coordinate.explain",
    u(""),
    new Dict([
      [u("runtimes"), [u("")]],
      [u("availableGb"), f(1.5)],
    ]),
  ],
  [
    "coordinate.lock",
    u(""),
    new Dict([
      [u("owner"), u("o")],
      [u("timeoutMs"), 5],
      [u("paths"), [[u("a")]]],
    ]),
  ],
  [
    "coordinate.setWorkUnitPriorities",
    u(""),
    u("ws"),
    new Dict([[u("all"), true]]),
    new Dict([[u("adjust"), 5]]),
  ],
  ["coordinate.deleteWorkUnits", u(""), u("ws"), new Dict([[u("statuses"), [u("failed")]]])],
  ["coordinate.cancel", 1],
];

const inners = calls.map(([method, ...params], i) => encode({ params, id: i + 1, method }));

/** CBOR items that are invalid or often handled wrongly. */
const trouble = [
  "ff",
  "9f",
  "bf",
  "5f",
  "7f",
  "1c",
  "f8ff",
  "f7",
  "fb7ff8000000000000",
  "fbfff0000000000000",
  "f97e00",
  "1bffffffffffffffff",
  "3bffffffffffffffff",
  "5b8000000000000000",
  "9affffffff",
  "9b00000000ffffffff",
  "ba7fffffff",
  "d818",
  "d819",
  "c2",
  "c3",
  "c240",
  "d825",
  "d88080",
  "d880",
  "d9d9f7",
  "61ff",
  "62c328",
  "41ff",
  "40",
  "60",
  "80",
  "a0",
  "f6",
  "00",
  "20",
  "1a7fffffff",
  "fa7f800000",
  "495f5f70726f746f5f5f",
  "495f5f70726f746f5f5fa0",
  "4464617461",
  "6464617461",
  "6464617461617b",
].map(hex);

const pick = <Item>(random: Random, items: readonly Item[]): Item =>
  items[Math.floor(random() * items.length)]!;

function mutate(bytes: Buffer, random: Random): Buffer {
  let result = Buffer.from(bytes);
  for (let changes = 1 + Math.floor(random() * 3); changes > 0; changes--) {
    const at = Math.floor(random() * result.length);
    const some = Math.floor(random() * Math.min(16, result.length - at));
    switch (Math.floor(random() * 8)) {
      case 0:
        result[at] = (result[at] ?? 0) ^ (1 << Math.floor(random() * 8));
        break;
      case 1:
        result[at] = Math.floor(random() * 256);
        break;
      case 2:
        result = Buffer.concat([result.subarray(0, at), result.subarray(at + some)]);
        break;
      case 3:
        result = Buffer.concat([result.subarray(0, at), pick(random, trouble), result.subarray(at)]);
        break;
      case 4:
        result = Buffer.concat([result.subarray(0, at), pick(random, trouble), result.subarray(at + some)]);
        break;
      case 5:
        result = Buffer.concat([result.subarray(0, at + some), result.subarray(at)]);
        break;
      case 6: {
        const other = pick(random, inners);
        const from = Math.floor(random() * other.length);
        result = Buffer.concat([
          result.subarray(0, at),
          other.subarray(from, from + 24),
          result.subarray(at),
        ]);
        break;
      }
      default:
        // changes the major type of the byte and keeps its length bits
        result[at] = ((result[at] ?? 0) & 31) | (Math.floor(random() * 8) << 5);
    }
    if (result.length === 0) return Buffer.of(Math.floor(random() * 256));
  }
  return result;
}

export interface FuzzFigures {
  frames: number;
  answered: number;
  refused: number;
  dropped: number;
  /** Connections that the fuzzer closed at random, before the server dropped them. */
  unfinished: number;
  seconds: number;
}

export interface FuzzOptions {
  frames: number;
  seed: number;
  /** Ends the run after this time. */
  maxMs?: number;
  onRound?: (figures: FuzzFigures) => void;
}

/** Frames per engine: each round starts with a new, empty engine. */
const round = 5000;

export async function fuzz({ frames, seed, maxMs = Infinity, onRound }: FuzzOptions): Promise<FuzzFigures> {
  const random = seededRandom(seed);
  const figures: FuzzFigures = { frames: 0, answered: 0, refused: 0, dropped: 0, unfinished: 0, seconds: 0 };
  const begun = Date.now();
  while (figures.frames < frames && Date.now() - begun < maxMs) {
    await fuzzRound(Math.min(round, frames - figures.frames), random, figures);
    figures.seconds = (Date.now() - begun) / 1000;
    onRound?.(figures);
  }
  return figures;
}

async function fuzzRound(frames: number, random: Random, figures: FuzzFigures): Promise<void> {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock, random });
  const budget = { used: 0, max: 256 * 1024 * 1024 };
  let connection = open(engine, clock, budget);
  for (let i = 0; i < frames; i++) {
    const inner = pick(random, inners);
    const kind = random();
    // 10 % valid frames, 50 % valid frames around mutated messages, 20 % mutated frames, 20 % mutated messages without a frame
    const frame =
      kind < 0.1
        ? wrap(inner)
        : kind < 0.6
          ? wrap(mutate(inner, random))
          : kind < 0.8
            ? mutate(wrap(inner), random)
            : mutate(inner, random);
    const cut = random() < 0.2 ? Math.floor(random() * frame.length) : frame.length;
    connection.send(frame.subarray(0, cut));
    if (cut < frame.length) connection.send(frame.subarray(cut));
    await connection.quiet();
    figures.frames += 1;
    // yields to the event loop from time to time, as a network would
    if (i % 50 === 0) await nextTurn();
    for (const answer of connection.socket.written.splice(0)) {
      const { value, end } = decode(answer);
      if (!(value instanceof Dict) || end !== answer.length)
        assert.fail(`an answer that is none: ${answer.toString("hex")}`);
      figures.answered += 1;
      const error = value.get("error");
      if (error !== undefined) figures.refused += 1;
      assert.ok((value.get("result") === undefined) !== (error === undefined), show(value));
    }
    if (connection.bug !== null) {
      throw new Error(`a bug by ${wrap(frame).toString("hex")}`, { cause: connection.bug });
    }
    if (connection.dropped) figures.dropped += 1;
    if (connection.dropped || random() < 0.05) {
      if (!connection.dropped) figures.unfinished += 1;
      connection.socket.emit("close");
      connection = open(engine, clock, budget);
    }
    if (random() < 0.01) clock.advance(Math.floor(random() * 1000_000));
  }
  connection.socket.emit("close");
  assert.equal(budget.used, 0, "bytes of unfinished messages that nobody gave back");
  assert.equal(Object.keys(Object.prototype).length, 0);
  await engine.close();
}

interface Fuzzed {
  socket: FakeSocket;
  dropped: boolean;
  bug: unknown;
  send(bytes: Buffer): void;
  /** Resolves when all sent bytes have been processed. */
  quiet(): Promise<void>;
}

function open(engine: Engine, clock: ManualClock, budget: { used: number; max: number }): Fuzzed {
  const socket = new FakeSocket();
  const call: Omit<Call, "gone"> = {
    coordinate: engine,
    ns: "",
    clock,
    fencing: new Fencing("strict"),
    settings: {
      dataLimits: defaultDataLimits,
      maxItems: 100_000,
      maxAnswerBytes: 64 * 1024 * 1024,
      config: null,
      archive: null,
    },
  };
  const fuzzed: Fuzzed = {
    socket,
    dropped: false,
    bug: null,
    send: (bytes) => void socket.emit("data", Buffer.from(bytes)),
    quiet: () => connection.settledDown(),
  };
  const connection = new Connection(socket as unknown as Socket, call, {
    limits: { maxFrameBytes: 64 * 1024 * 1024, maxConcurrent: 100, maxWaits: 100, stallMs: 1000 },
    budget,
    serveVerbs: true,
    wantsToken: () => false,
    admit: () => call.coordinate,
    large: new LargeRequests(),
    onBusy: () => undefined,
    onIdle: () => undefined,
    onRefused: () => undefined,
    onBug: (error) => (fuzzed.bug = error),
    onMalformed: () => undefined,
    reset: () => {
      fuzzed.dropped = true;
    },
  });
  return fuzzed;
}
