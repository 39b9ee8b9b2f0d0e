import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import {
  CoordinateError,
  encodeData,
  Engine,
  ManualClock,
  type TallyRow,
  type WorkUnitInput,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { handles } from "../../src/objects/index.ts";
import {
  EventLog,
  eventRoutes,
  fetchTransport,
  listen,
  observe,
  RestClient,
  RestError,
  restServer,
  streamRoutes,
  type Listener,
  type RestClientOptions,
  type StreamedEvent,
} from "../../src/rest/index.ts";

const undo: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

interface Served {
  engine: Engine;
  log: EventLog;
  listener: Listener;
  client: RestClient;
}

async function serve(options: RestClientOptions = {}, at?: { path: string }): Promise<Served> {
  const engine = new Engine(new MemoryStore(), { clock: new ManualClock() });
  const log = new EventLog({ size: 100 });
  const { app } = restServer({
    coordinate: observe(engine, log, () => 0),
    routes: [...streamRoutes(), ...eventRoutes(log)],
  });
  const listener = await listen(app, { at: at ?? { host: "127.0.0.1", port: 0 } });
  const client = new RestClient(listener.url, options);
  undo.push(
    () => engine.close(),
    () => app.close(),
    () => listener.stop(50),
    () => client.close(),
  );
  await client.setWorkSpecs("n", [{ data: encodeData({ name: "s" }) }]);
  return { engine, log, listener, client };
}

/** A server with scripted responses: each request takes the next step. */
async function fake(
  ...steps: ((body: string) => { status: number; text: string } | "cut")[]
): Promise<{ url: string; bodies: string[] }> {
  const bodies: string[] = [];
  const server: Server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      bodies.push(body);
      const answer = (steps.shift() ?? (() => ({ status: 200, text: "[]" })))(body);
      if (answer === "cut") request.socket.destroy();
      else response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.push(() => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}

const quick = { backoffMs: 1, retries: 2 };
const code = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return "fine";
  } catch (error) {
    return error instanceof CoordinateError || error instanceof RestError ? error.code : String(error);
  }
};

describe("answers that are lost", () => {
  test("a claim is asked again under the same request id", async () => {
    const { url, bodies } = await fake(() => "cut");
    const client = new RestClient(url, quick);
    expect(await client.requestAttempts("n", { worker: "w" })).toEqual([]);
    const ids = bodies.map((body) => (JSON.parse(body) as { requestId: string }).requestId);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toBe(ids[1]);
    expect(ids[0]).not.toBe("");
    await client.close();
  });

  test("request ids need no more than browsers have on pages without TLS", async () => {
    vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) });
    onTestFinished(() => void vi.unstubAllGlobals());
    const { url, bodies } = await fake();
    const client = new RestClient(url, { transport: fetchTransport });
    for (let i = 0; i < 2; i++) await client.requestAttempts("n", { worker: "w" });
    const ids = bodies.map((body) => (JSON.parse(body) as { requestId: string }).requestId);
    expect(ids[0]).toMatch(/^\d+-\d+-\d+-\d+$/);
    expect(ids[1]).not.toBe(ids[0]);
    await client.close();
  });

  test("what would be done twice is not asked again: the outcome is unknown", async () => {
    const { url, bodies } = await fake(() => "cut");
    const client = new RestClient(url, quick);
    expect(await code(client.setWorkUnitPriorities("n", "s", { all: true }, { adjust: 1 }))).toBe(
      "unknown_outcome",
    );
    expect(bodies).toHaveLength(1);
    await client.close();
  });

  test("a server that stops is asked again, whatever was asked: it has done nothing", async () => {
    const { url, bodies } = await fake(() => ({ status: 503, text: '{"code":"closed"}' }));
    const client = new RestClient(url, quick);
    expect(await code(client.makeAttempts("n", []))).toBe("fine");
    expect(bodies).toHaveLength(2);
    await client.close();
  });

  test("a server that goes on stopping is unavailable: `closed` means that the client was closed", async () => {
    const stopping = (): { status: number; text: string } => ({ status: 503, text: '{"code":"closed"}' });
    const { url } = await fake(stopping, stopping, stopping, stopping);
    const client = new RestClient(url, quick);
    expect(await code(client.tally("n"))).toBe("unavailable");
    await client.close();
  });

  test("tries end: unavailable", async () => {
    const { url, bodies } = await fake(
      () => "cut",
      () => "cut",
      () => "cut",
      () => "cut",
    );
    const client = new RestClient(url, quick);
    expect(await code(client.tally("n"))).toBe("unavailable");
    expect(bodies).toHaveLength(3);
    await client.close();
  });

  test("nobody there: unavailable, also for what may not be repeated", async () => {
    const client = new RestClient("http://127.0.0.1:1", quick);
    expect(await code(client.makeAttempts("n", []))).toBe("unavailable");
    await client.close();
  });

  test("a time-out is a lost answer", async () => {
    const server = createServer(() => undefined);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = new RestClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      ...quick,
      timeoutMs: 50,
    });
    expect(await code(client.tally("n"))).toBe("unavailable");
    expect(await code(client.unlock("n", { owner: "o", paths: [] }))).toBe("unknown_outcome");
    await client.close();
    server.closeAllConnections();
    server.close();
  });
});

describe("behind a proxy", () => {
  const page = (status: number) => () => ({ status, text: `<html><h1>${status}</h1></html>` });
  const direct = { ...quick, oneConnection: false };

  test.each([502, 503, 504])("%i while the server restarts is a lost answer", async (status) => {
    const { url, bodies } = await fake(page(status));
    const client = new RestClient(url, direct);
    expect(await client.requestAttempts("n", { worker: "w", waitMs: 50 })).toEqual([]);
    expect(new Set(bodies.map((body) => (JSON.parse(body) as { requestId: string }).requestId)).size).toBe(1);
    await client.close();
  });

  test("what would be done twice is not asked again, and tries end", async () => {
    const { url, bodies } = await fake(...[502, 504, 502, 503].map(page));
    const client = new RestClient(url, direct);
    expect(await code(client.setWorkUnitPriorities("n", "s", { all: true }, { adjust: 1 }))).toBe(
      "unknown_outcome",
    );
    await expect(client.tally("n")).rejects.toThrow("Not available: a proxy answered with HTTP status 503");
    expect(bodies).toHaveLength(4);
    await client.close();
  });

  test("a request that is too large for it is refused in the same way as by the server", async () => {
    const { url } = await fake(page(413), page(404));
    const client = new RestClient(url, direct);
    await expect(client.settleAttempts("n", [])).rejects.toMatchObject({ code: "too_large", status: 413 });
    expect(await code(client.settleAttempts("n", []))).toBe("not_coordinate");
    await client.close();
  });
});

describe("addresses", () => {
  test("the next one is asked when one does not answer, and stays the one", async () => {
    const { listener, client: direct } = await serve();
    const client = new RestClient(["http://127.0.0.1:1", listener.url], quick);
    expect(await client.tally("n")).toEqual(await direct.tally("n"));
    expect(await client.tally()).toHaveLength(1);
    await client.close();
  });

  test.each(["", "ftp://x", "localhost:5980"])("%j is refused", (address) => {
    expect(() => new RestClient(address)).toThrow(CoordinateError);
  });

  test("a Unix socket", async () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), "rest-")), "s.sock");
    const { client, listener } = await serve({}, { path: file });
    expect(listener.url).toBe(`unix:${file}`);
    expect(await client.tally("n")).toHaveLength(1);
  });

  test("fetch in place of Node's client", async () => {
    const { listener } = await serve();
    const client = new RestClient(listener.url, { transport: fetchTransport });
    await client.loadWorkUnits("n", "s", [{ name: "a" }, { name: "b" }]);
    const names = [];
    for await (const row of client.exportWorkUnits("n", "s")) names.push(row.name);
    expect(names).toEqual(["a", "b"]);
    await client.close();
  });
});

test("binary data of 15 MiB is added, read and returned as a result", async () => {
  const { client } = await serve();
  const data = encodeData({ bytes: new Uint8Array(15 * 2 ** 20).fill(0xab) });
  await client.addWorkUnits("n", "s", [{ name: "u", data }]);
  const [attempt] = await client.requestAttempts("n", { worker: "w" });
  expect(sameBytes(attempt?.data, data)).toBe(true);
  await client.settleAttempts("n", [{ attempt: attempt?.id ?? "", action: "finish", data }]);
  const [row] = await client.getWorkUnits("n", "s", ["u"]);
  expect(row?.status).toBe("finished");
  expect(sameBytes(row?.data, data)).toBe(true);
});

test("many large units are added in several requests, and one request that is too large is refused", async () => {
  const { client } = await serve();
  const spec = handles(client).namespace("n").workSpec("s");
  const data = { x: "x".repeat(2 ** 20) };
  const units = Array.from({ length: 40 }, (_, i): [string, object] => [`u${i}`, data]);
  expect(await spec.addWorkUnits(units)).toEqual({ count: 40, created: 40 });
  const rows = units.map(([name]) => ({ name, data: encodeData(data) }));
  const refusal = await client.addWorkUnits("n", "s", rows).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "too_large" });
  expect(String(refusal)).toMatch(/more than 33554432 bytes; .* maxBodyBytes/);
});

/** `toEqual` would compare them one by one, for minutes. */
const sameBytes = (a: unknown, b: unknown): boolean =>
  a instanceof Uint8Array && b instanceof Uint8Array && Buffer.compare(a, b) === 0;

test("a closed client refuses, and what waits is ended", async () => {
  const { client, engine } = await serve();
  const waiting = client.requestAttempts("n", { worker: "w", waitMs: 60_000 });
  while (engine.waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await client.close();
  expect(await code(waiting)).toBe("closed");
  expect(await code(client.tally())).toBe("closed");
});

test("a worker that hangs up while it waits is forgotten, and holds nothing", async () => {
  const { client, engine } = await serve();
  const stop = new AbortController();
  const waiting = client.requestAttempts("n", { worker: "w", waitMs: 60_000, signal: stop.signal });
  while (engine.waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  stop.abort();
  expect(await waiting).toEqual([]);
  while (engine.waiting > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await engine.addWorkUnits("n", "s", [{ name: "u" }]);
  expect(await client.requestAttempts("n", { worker: "v" })).toHaveLength(1);
});

describe("streams", () => {
  test("20,000 units in and out again, data unchanged to the byte", async () => {
    const { client } = await serve();
    const total = 20_000;
    const units = function* (): Generator<WorkUnitInput> {
      for (let i = 0; i < total; i++) {
        yield {
          name: `u${String(i).padStart(6, "0")}`,
          priority: i % 7,
          data:
            i % 3 === 0
              ? encodeData({ bytes: new Uint8Array([i % 256]) })
              : (`{\n "n": ${i}.0, "n": 1, "t": "é\\n"}` as never),
        };
      }
    };
    expect(await client.loadWorkUnits("n", "s", units())).toEqual({ units: total, created: total });
    let i = 0;
    const sent = units();
    for await (const row of client.exportWorkUnits("n", "s")) {
      const unit = sent.next().value as WorkUnitInput;
      expect(row.name).toBe(unit.name);
      // in a file of lines, line breaks between tokens become spaces
      expect(row.data).toEqual(typeof unit.data === "string" ? unit.data.replace("\n", " ") : unit.data);
      i += 1;
    }
    expect(i).toBe(total);
    let some = 0;
    for await (const row of client.exportWorkUnits("n", "s", {
      prefix: "u0001",
      previous: "u000150",
      statuses: ["available"],
    })) {
      expect(row.name > "u000150" && row.name < "u0002").toBe(true);
      some += 1;
    }
    expect(some).toBe(49);
  });

  test("an export of a failure group, or of what ended lately, has no other units", async () => {
    const { client } = await serve();
    const names = ["a", "b", "c", "d"];
    await client.addWorkUnits(
      "n",
      "s",
      names.map((name) => ({ name })),
    );
    const attempts = await client.requestAttempts("n", { worker: "w", number: 3 });
    await client.settleAttempts(
      "n",
      attempts.map(({ id, workUnit }) => ({
        attempt: id,
        action: "fail",
        data: encodeData({ traceback: workUnit === "b" ? "Error: odd" : "Error: even" }),
      })),
    );
    const exported = async (query: Parameters<typeof client.exportWorkUnits>[2]): Promise<string[]> => {
      const found: string[] = [];
      for await (const { name } of client.exportWorkUnits("n", "s", query)) found.push(name);
      return found;
    };
    const [{ fingerprint } = { fingerprint: "" }] = (
      await client.listFailures("n", { workSpec: "s" })
    ).filter(({ error }) => error === "Error: odd");
    expect(await exported({ error: fingerprint })).toEqual(["b"]);
    expect(await exported({ endedSince: 1 })).toEqual(["a", "b", "c"]);
    const query = client.exportWorkUnits("n", "s", { endedSince: Number.NaN });
    expect(await code(query.next())).toBe("bad_argument");
  });

  test("a bad line stops a load; those before it stay, and the error names it", async () => {
    const { client, listener } = await serve();
    const lines = ['{"name":"a"}', "", '{"name":"b"}', '{"name":5}', '{"name":"c"}'].join("\n");
    const answer = await fetch(`${listener.url}/v1/namespace/n/work-spec/s/work-units`, {
      method: "POST",
      headers: { "content-type": "application/x-ndjson" },
      body: lines,
    });
    expect(answer.status).toBe(400);
    expect(((await answer.json()) as { message: string }).message).toContain(
      "line 4: name must be string (2 units before it were stored)",
    );
    expect((await client.listWorkUnits("n", "s")).rows.map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("a load under a request id may be repeated", async () => {
    const { client } = await serve();
    const units = Array.from({ length: 2500 }, (_, i) => ({ name: `u${i}` }));
    expect(await client.loadWorkUnits("n", "s", units, { requestId: "load" })).toEqual({
      units: 2500,
      created: 2500,
    });
    const [attempt] = await client.requestAttempts("n", { worker: "w" });
    await client.settleAttempts("n", [{ attempt: attempt!.id, action: "finish" }]);
    await client.loadWorkUnits("n", "s", units, { requestId: "load" });
    expect((await client.tally("n"))[0]?.counts).toMatchObject({ finished: 1, available: 2499 });
  });

  test.each([
    ["no_such_work_spec", "nope", [{ name: "a" }]],
    ["no_such_work_spec", "nope", []],
    ["bad_argument", "s", [{ name: "a", priority: "high" as never }]],
    ["too_large", "s", [{ name: "x".repeat(5000) }]],
  ])("is refused with %s", async (expected, spec, units) => {
    const { client } = await serve();
    expect(await code(client.loadWorkUnits("n", spec, units))).toBe(expected);
  });

  test("an export of a work spec that is not there is an error, not an empty stream", async () => {
    const { client } = await serve();
    expect(await code(client.exportWorkUnits("n", "nope").next())).toBe("no_such_work_spec");
  });
});

describe("events", () => {
  async function collect(client: RestClient, count: number, after?: string): Promise<StreamedEvent[]> {
    const events: StreamedEvent[] = [];
    for await (const event of client.events("n", after === undefined ? {} : { after })) {
      events.push(event);
      if (events.length === count) break;
    }
    return events;
  }
  const watching = async (log: EventLog): Promise<void> => {
    while (log.watchers === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };

  test("tell of units, attempts, workers and specs, without data", async () => {
    const { client, log } = await serve();
    const events = collect(client, 5);
    await watching(log);
    await client.addWorkUnits("n", "s", [{ name: "u", data: encodeData({ secret: 1 }) }]);
    const [attempt] = await client.requestAttempts("n", { worker: "w" });
    await client.requestAttempts("n", { worker: "w" });
    await client.settleAttempts("n", [{ attempt: attempt!.id, action: "finish" }]);
    await client.settleAttempts("n", [{ attempt: attempt!.id, action: "finish" }]);
    await client.updateWorkers("n", [{ name: "w", active: true }]);
    await client.setWorkSpecMeta("n", "s", { weight: 3 });
    const got = await events;
    expect(got.map(({ type, verb, count }) => [type, verb, count])).toEqual([
      ["workUnits", "addWorkUnits", 1],
      ["attempts", "requestAttempts", 1],
      ["attempts", "settleAttempts", 1],
      ["workers", "updateWorkers", 1],
      ["workSpecs", "setWorkSpecMeta", 1],
    ]);
    expect(JSON.stringify(got)).not.toContain("secret");
    expect(new Set(got.map(({ id }) => id)).size).toBe(5);
  });

  test("are gathered: the first at once, those that follow together, with counts and without items", async () => {
    const { client, log } = await serve();
    const events: StreamedEvent[] = [];
    const stop = new AbortController();
    const reading = (async () => {
      for await (const event of client.events("n", { gatherMs: 200, signal: stop.signal }))
        events.push(event);
    })();
    await watching(log);
    await client.addWorkUnits("n", "s", [
      { name: "a", data: encodeData({}) },
      { name: "b", data: encodeData({}) },
    ]);
    const came = (count: number): Promise<boolean> =>
      vi.waitUntil(() => events.length === count, { timeout: 20_000 });
    await came(1);
    for (let i = 0; i < 50; i++) {
      log.add("n", { type: "workUnits", verb: "addWorkUnits", time: 1, count: 2, items: () => ["u"] });
      log.add("n", { type: "attempts", verb: "requestAttempts", time: 1, count: 1 });
    }
    await came(3);
    await client.requestAttempts("n", { worker: "w", number: 3 });
    await came(4);
    expect(events).toEqual(
      [
        ["workUnits", 2],
        ["workUnits", 100],
        ["attempts", 50],
        ["attempts", 2],
      ].map(([type, count]) => ({ id: "", type, verb: "", time: expect.any(Number) as number, count })),
    );
    stop.abort();
    await reading;
    await vi.waitUntil(() => log.watchers === 0);
    // no events are kept for watchers that resume after an event
    expect(log.wanted("n")).toBe(false);
  });

  test("bring the counts after changes of units, read once for all who watch", async () => {
    const { client, log } = await serve();
    const stop = new AbortController();
    const seen: StreamedEvent[][] = [[], [], []];
    const reading = seen.map(async (events) => {
      for await (const event of client.events("n", { gatherMs: 200, tally: true, signal: stop.signal }))
        events.push(event);
    });
    await vi.waitUntil(() => log.watchers === 3, { timeout: 20_000 });
    const told = (of: StreamedEvent[]): unknown => of.findLast(({ type }) => type === "tally")?.items;
    await client.addWorkUnits("n", "s", [{ name: "a", data: encodeData({}) }]);
    for (const events of seen) {
      await vi.waitUntil(() => told(events) !== undefined, { timeout: 20_000 });
      expect(events.map(({ type }) => type)).toEqual(["workUnits", "tally"]);
      expect(told(events)).toEqual(await client.tally("n"));
    }
    await client.requestAttempts("n", { worker: "w" });
    const after = await client.tally("n");
    expect(after[0]?.counts).toMatchObject({ available: 0, pending: 1 });
    for (const events of seen)
      await vi.waitUntil(() => JSON.stringify(told(events)) === JSON.stringify(after), { timeout: 20_000 });
    stop.abort();
    await Promise.all(reading);
  });

  test("read the counts once for watchers who are told of the same changes, and again after the next change", async () => {
    const log = new EventLog();
    const stop = new AbortController();
    let reads = 0;
    const tally = (): Promise<TallyRow[]> => {
      reads += 1;
      return Promise.resolve([]);
    };
    const texts = [0, 1, 2].map(() => log.gather("n", { gatherMs: 50, tally }, stop.signal));
    const next = async (): Promise<string[]> =>
      (await Promise.all(texts.map((text) => text.next()))).map(({ value }) => String(value));
    await next();
    const first = next();
    log.add("n", { type: "attempts", verb: "settleAttempts", time: 1, count: 1 });
    expect((await first).every((text) => text.includes("event: tally"))).toBe(true);
    expect(reads).toBe(1);
    const second = next();
    log.add("n", { type: "attempts", verb: "settleAttempts", time: 1, count: 1 });
    expect((await second).every((text) => text.includes("event: tally"))).toBe(true);
    expect(reads).toBe(2);
    // the check-in of a worker changes no counts
    const third = next();
    log.add("n", { type: "workers", verb: "updateWorkers", time: 1, count: 1 });
    expect((await third).some((text) => text.includes("event: tally"))).toBe(false);
    expect(reads).toBe(2);
    stop.abort();
    await Promise.all(texts.map((text) => text.return(undefined)));
  });

  test("go on without the counts while the store does not answer", async () => {
    const log = new EventLog();
    const stop = new AbortController();
    const tally = (): Promise<never> => Promise.reject(new Error("the disk is full"));
    const texts = log.gather("n", { gatherMs: 50, tally }, stop.signal);
    await texts.next();
    for (let i = 0; i < 2; i++) {
      const next = texts.next();
      log.add("n", { type: "attempts", verb: "settleAttempts", time: 1, count: 1 });
      expect((await next).value).toMatch(/^event: attempts\n/);
    }
    stop.abort();
    await texts.return(undefined);
  });

  test("are further apart, and at the same moments for all, while changes never cease", async () => {
    // the clock is fixed at 300 ms after a full second
    const log = new EventLog({ now: () => 10_300 });
    const pauses: number[] = [];
    const stop = new AbortController();
    const texts = log.gather("n", { gatherMs: 50 }, stop.signal);
    const change = (): void => log.add("n", { type: "attempts", verb: "", time: 1, count: 1 });
    await texts.next();
    for (let i = 0; i < 3; i++) {
      change();
      const before = performance.now();
      await texts.next();
      pauses.push(performance.now() - before);
    }
    // the first event comes at once
    expect(pauses[1]).toBeGreaterThanOrEqual(45);
    expect(pauses[2]).toBeGreaterThanOrEqual(690);
    stop.abort();
    await texts.return(undefined);
  });

  test.each(["0", "-1", "1e3", "60001", "a"])("cannot be gathered for %s milliseconds", async (given) => {
    const { listener } = await serve();
    const answer = await fetch(`${listener.url}/v1/namespace/n/events?gather=${given}`);
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { message: expect.stringMatching(/^gather: /) as string },
    ]);
  });

  test("bring the counts or not: nothing else can be asked", async () => {
    const { listener } = await serve();
    const answer = await fetch(`${listener.url}/v1/namespace/n/events?gather=100&tally=maybe`);
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { message: expect.stringMatching(/^tally: /) as string },
    ]);
  });

  test("go on after the last one that was seen", async () => {
    const { client, log } = await serve();
    const first = collect(client, 1);
    await watching(log);
    for (const name of ["a", "b", "c"]) await client.addWorkUnits("n", "s", [{ name }]);
    const [seen] = await first;
    const rest = await collect(client, 2, seen!.id);
    expect(rest.map(({ items }) => (items![0] as { name: string }).name)).toEqual(["b", "c"]);
  });

  test("say so when some are lost: too old, or of another daemon", async () => {
    const { client, log } = await serve();
    const first = collect(client, 1);
    await watching(log);
    for (let i = 0; i < 150; i++) await client.addWorkUnits("n", "s", [{ name: `u${i}` }]);
    const [seen] = await first;
    expect((await collect(client, 1, seen!.id))[0]?.type).toBe("reset");
    expect((await collect(client, 1, "other.1"))[0]?.type).toBe("reset");
  });

  test("cost nothing while nobody watches", async () => {
    const { client, log } = await serve();
    await client.addWorkUnits("n", "s", [{ name: "u" }]);
    expect(log.wanted("n")).toBe(false);
    expect(log.watched()).toEqual([]);
  });
});
