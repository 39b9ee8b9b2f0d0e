import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Child } from "../../../src/worker/process/child.ts";
import type { Message } from "../../../src/worker/process/frame.ts";
import type { Exit } from "../../../src/worker/process/group.ts";
import { ProcessPool, type PoolOptions } from "../../../src/worker/process/pool.ts";
import { isAlive, until } from "./processes.ts";

const puppet = path.join(import.meta.dirname, "puppet.mjs");
const pools: ProcessPool[] = [];

function open(options: Partial<PoolOptions> & { order?: string } = {}): ProcessPool {
  const { order, ...rest } = options;
  const pool = new ProcessPool({
    size: 1,
    graceMs: 500,
    program: () => ({
      command: process.execPath,
      args: [puppet],
      start: { head: { kind: "start", ...(order !== undefined && { order, value: 3 }) }, data: [] },
    }),
    ...rest,
  });
  pools.push(pool);
  return pool;
}

afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close(0)));
});

const order = (name: string, value: unknown = 0): Message => ({
  head: { kind: "run", order: name, value },
  data: [],
});

async function borrow(pool: ProcessPool): Promise<Child> {
  const child = await pool.acquire();
  if (child === null) throw new Error("the pool is closed");
  return child;
}

/** Runs an order that does not end. Resolves with its first message. */
async function begin(child: Child, name: string): Promise<{ first: Message; ended: Promise<Exit> }> {
  return new Promise((resolve) => {
    const ended = child.exited;
    child.run(order(name), (first) => resolve({ first, ended })).catch(() => undefined);
  });
}

async function exitOf(child: Child, name: string, value = 0): Promise<Exit> {
  await expect(child.run(order(name, value))).rejects.toThrow("the child process");
  return child.exited;
}

describe("a pool", () => {
  test("lends a child out to one at a time, and uses it again", async () => {
    const pool = open();
    const child = await borrow(pool);
    const waiting = pool.acquire();
    expect((await child.run(order("echo", 7))).head.value).toBe(7);
    pool.release(child);
    expect(await waiting).toBe(child);
    expect(pool.children).toHaveLength(1);
    expect(child.runs).toBe(1);
  });

  test("tells what happens to its children", async () => {
    const pool = open();
    const told: string[] = [];
    for (const event of ["started", "ready", "busy", "idle", "exit"] as const)
      pool.on(event, () => told.push(event));
    const child = await borrow(pool);
    await child.run(order("echo"));
    pool.release(child);
    await pool.stopOne(child, "is not needed");
    expect(told).toEqual(["started", "ready", "busy", "idle", "exit"]);
  });

  test("starts as many as are asked for at once, and no more than its size", async () => {
    const pool = open({ size: 2 });
    const [a, b] = await Promise.all([borrow(pool), borrow(pool)]);
    expect(a.pid).not.toBe(b.pid);
    const third = pool.acquire();
    expect(pool.children).toHaveLength(2);
    pool.release(a);
    expect(await third).toBe(a);
    pool.resize(1);
    pool.release(b);
    expect((await b.exited).cause).toBe("stopped");
    pool.release(a);
    expect(await borrow(pool)).toBe(a);
  });

  test("a caller that no longer waits gets none, and takes none away", async () => {
    const pool = open();
    const child = await borrow(pool);
    const stop = new AbortController();
    const given = pool.acquire(stop.signal);
    stop.abort();
    expect(await given).toBeNull();
    pool.release(child);
    expect(await borrow(pool)).toBe(child);
  });

  test("closes: those who wait get none, all children end", async () => {
    const pool = open();
    const child = await borrow(pool);
    const given = pool.acquire();
    await pool.close();
    expect(await given).toBeNull();
    expect(await pool.acquire()).toBeNull();
    expect(isAlive(child.pid!)).toBe(false);
  });

  test("replaces a child that is old, when it has nothing to do", async () => {
    const pool = open({ lifetimeMs: 1, watchMs: 20 });
    const child = await borrow(pool);
    expect((await child.run(order("echo", 1))).head.value).toBe(1);
    pool.release(child);
    const { cause, text } = await child.exited;
    expect([cause, text]).toEqual(["stopped", expect.stringContaining("is replaced after")]);
    expect((await borrow(pool)).pid).not.toBe(child.pid);
  });

  test("replaces a child that has grown", async () => {
    const pool = open({ memoryRecycle: 150 * 1024 * 1024, watchMs: 20 });
    const child = await borrow(pool);
    await child.run(order("grow", 200));
    pool.release(child);
    expect((await child.exited).text).toMatch(/^is replaced: it used \d+ MiB of memory$/);
  });

  test("kills a child that uses too much memory, whatever it does", async () => {
    const pool = open({ memoryLimit: 200 * 1024 * 1024, watchMs: 20 });
    const child = await borrow(pool);
    // the child may be killed while it grows or right after
    await child.run(order("grow", 300)).catch(() => undefined);
    const { cause, text } = await child.exited;
    expect([cause, text]).toEqual([
      "memory",
      expect.stringMatching(/^used \d+ MiB of memory, the limit is 200 MiB$/),
    ]);
  });

  test("starts children that die at start after growing delays", async () => {
    const pool = open({ order: "exit", backOffMs: 20, maxBackOffMs: 100 });
    const delays: number[] = [];
    pool.on("delay", (delayMs) => delays.push(delayMs));
    const waiting = pool.acquire();
    await until("five starts have failed", () => delays.length >= 5);
    expect(delays.slice(0, 5)).toEqual([20, 40, 80, 100, 100]);
    await pool.close(0);
    expect(await waiting).toBeNull();
  });

  test("a program that does not exist is told as such", async () => {
    const pool = open({
      program: () => ({ command: "no-such-program", args: [], start: { head: { kind: "start" }, data: [] } }),
    });
    const exit = new Promise<Exit>((resolve) => pool.once("exit", (_child, told) => resolve(told)));
    const waiting = pool.acquire();
    expect((await exit).text).toContain("could not be started: no-such-program: there is no such program");
    await pool.close();
    expect(await waiting).toBeNull();
  });

  test("a child that is never ready is given up", async () => {
    const pool = open({ order: "nothing", startTimeoutMs: 200 });
    const exit = new Promise<Exit>((resolve) => pool.once("exit", (_child, told) => resolve(told)));
    void pool.acquire();
    expect((await exit).text).toBe("was not ready after 200 ms");
  });

  test("reads what children print, line by line, and leaves out what is too much", async () => {
    const pool = open({ lines: { maxPerSecond: 10 } });
    const lines: string[] = [];
    pool.on("line", (_child, stream, line) => lines.push(`${stream} ${line}`));
    const child = await borrow(pool);
    await child.run(order("print", 5000));
    await pool.close();
    expect(lines).toContain("stdout line 9");
    expect(lines).toContain("stderr to stderr");
    expect(lines.length).toBeLessThan(200);
    const leftOut = lines.flatMap((line) => /\((\d+) lines left out\)/.exec(line)?.[1] ?? []);
    const shown = lines.filter((line) => line.startsWith("stdout line")).length;
    expect(leftOut.reduce((sum, count) => sum + Number(count), shown)).toBe(5000);
  });
});

describe("the end of a child, in words", () => {
  test.each([
    ["exit", 3, "exited", "exited with code 3"],
    ["kill", 0, "signal", "was killed by SIGKILL (by a user, or by the system when memory ran short)"],
    ["throw", 0, "exited", "exited with code 1"],
    ["garbage", 0, "protocol", expect.stringContaining("wrote an invalid message to its channel")],
  ])("%s %s", async (name, value, cause, text) => {
    const pool = open();
    const exit = await exitOf(await borrow(pool), name, value);
    expect([exit.cause, exit.text]).toEqual([cause, text]);
    if (name === "throw") expect(exit.errorTail).toContain("Error: thrown on purpose");
    // another child takes its place
    expect((await (await borrow(pool)).run(order("echo", 1))).head.value).toBe(1);
  });

  test("the JavaScript heap is full", async () => {
    const pool = open({
      program: () => ({
        command: process.execPath,
        args: [
          "--max-old-space-size=20",
          "-e",
          "const a = []; for (;;) a.push(new Array(1000).fill(a.length));",
        ],
        start: { head: { kind: "start" }, data: [] },
      }),
    });
    const exit = new Promise<Exit>((resolve) => pool.once("exit", (_child, told) => resolve(told)));
    void pool.acquire();
    expect((await exit).text).toBe("ran out of memory (the JavaScript heap is full)");
  });
});

describe("the ladder", () => {
  test("SIGTERM is enough for a child that lets itself be ended", async () => {
    const child = await borrow(open());
    await begin(child, "hang");
    const { signal, text } = await child.stop("expired", "job expired", 20_000);
    expect([signal, text]).toEqual(["SIGTERM", "job expired"]);
  });

  test("SIGKILL follows for one that does not", async () => {
    const child = await borrow(open());
    await begin(child, "stubborn");
    expect((await child.stop("expired", "job expired", 200)).signal).toBe("SIGKILL");
  });

  test("a blocked child dies", async () => {
    const child = await borrow(open());
    const { first } = await begin(child, "block");
    await child.stop("expired", "job expired", 200);
    expect(isAlive(first.head.pid as number)).toBe(false);
  });

  test("takes a grandchild along that ignores SIGTERM", async () => {
    const child = await borrow(open());
    const { first } = await begin(child, "grandchild");
    const grandchild = first.head.pid as number;
    expect(isAlive(grandchild)).toBe(true);
    await child.stop("expired", "job expired", 200);
    await until("the grandchild is dead", () => !isAlive(grandchild));
  });

  test("a child that dies by itself takes its grandchild along", async () => {
    const child = await borrow(open());
    const { first } = await begin(child, "grandchild");
    process.kill(child.pid!, "SIGKILL");
    await child.exited;
    await until("the grandchild is dead", () => !isAlive(first.head.pid as number));
  });
});
