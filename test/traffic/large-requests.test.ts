import { createServer, connect, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { LargeRequests, rowsAsked } from "../../src/traffic/index.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("turns", () => {
  test("a few at once, and the next when one has ended", async () => {
    const large = new LargeRequests({ atOnce: 2 });
    const started: string[] = [];
    const ends: (() => void)[] = [];
    const run = (name: string) =>
      large.turn({}, () => {
        started.push(name);
        return new Promise<void>((resolve) => ends.push(resolve));
      });
    const all = ["a", "b", "c", "d"].map(run);
    await turn();
    expect(started).toEqual(["a", "b"]);
    ends[0]!();
    await turn();
    expect(started).toEqual(["a", "b", "c"]);
    for (let i = 1; i < 4; i++) {
      ends[i]!();
      await turn();
    }
    await Promise.all(all);
    expect(started).toEqual(["a", "b", "c", "d"]);
  });

  test("whoever has cost less goes first, and what it cost is forgotten", async () => {
    let now = 0;
    const large = new LargeRequests({ atOnce: 1, now: () => now });
    const [greedy, modest, newcomer] = [{}, {}, {}];
    large.charge(greedy, 50_000_000);
    large.charge(modest, 1000);
    const started: string[] = [];
    const run = (name: string, caller: object) =>
      large.turn(caller, async () => {
        started.push(name);
        await turn();
      });
    await Promise.all([
      run("first", {}),
      run("greedy", greedy),
      run("greedy", greedy),
      run("new", newcomer),
      run("modest", modest),
    ]);
    expect(started).toEqual(["first", "modest", "new", "greedy", "greedy"]);
    expect(large.isLarge(greedy, 1, 1)).toBe(true);
    now += 60_000;
    expect(large.isLarge(greedy, 1, 1)).toBe(false);
  });

  test("a failure ends the turn too", async () => {
    const large = new LargeRequests({ atOnce: 1 });
    await expect(large.turn({}, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await large.turn({}, async () => "next")).toBe("next");
  });

  test("connections are accepted first", async () => {
    const large = new LargeRequests({ atOnce: 1 });
    let turns = 0;
    large.connected();
    const work = large.turn({}, async () => turns);
    for (; turns < 10; turns++) {
      if (turns < 9) large.connected();
      await turn();
    }
    expect(await work).toBeGreaterThanOrEqual(9);
  });
});

describe("answers that are not read", () => {
  let server: Server | undefined;
  let peer: Socket | undefined;
  afterEach(() => {
    peer?.destroy();
    server?.close();
  });

  test("nothing large starts while too many bytes wait, and whoever reads nothing is cut off", async () => {
    const large = new LargeRequests({ maxAnswerBytes: 1_000_000 });
    const accepted = new Promise<Socket>((resolve) => {
      server = createServer((socket) => {
        socket.on("error", () => undefined);
        // like Node's HTTP server
        socket.on("timeout", () => socket.destroy());
        resolve(socket);
      });
    });
    await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
    const { port } = server!.address() as { port: number };
    peer = connect({ host: "127.0.0.1", port });
    peer.pause();
    peer.on("error", () => undefined);
    const socket = await accepted;
    const bytes = 20_000_000;
    const release = large.hold(socket, bytes);
    socket.once("close", release);
    socket.write(Buffer.alloc(bytes), release);
    const start = performance.now();
    await large.turn({}, async () => undefined);
    // under pressure the timeout is one second, not half a minute
    expect(performance.now() - start).toBeGreaterThan(900);
    expect(performance.now() - start).toBeLessThan(15_000);
    expect(socket.destroyed).toBe(true);
  });
});

test.each<[string, readonly unknown[], number]>([
  ["listWorkUnits", ["n", "s"], 1000],
  ["listWorkUnits", ["n", "s", { limit: 5 }], 5],
  ["getWorkUnits", ["n", "s", ["a", "b"]], 2],
  ["addWorkUnits", [{ workSpec: "s", units: [1, 2, 3] }], 3],
  ["requestAttempts", ["n", { worker: "w", number: 500 }], 500],
  ["tally", ["n"], 0],
])("rows of %s %j", (verb, args, rows) => {
  expect(rowsAsked(verb, args)).toBe(rows);
});
