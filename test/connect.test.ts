/** `connect` opens every kind of store and every kind of connection to a daemon. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { configOf, createToken, startDaemon, type Daemon } from "../src/daemon/index.ts";
import { connect } from "../src/index.ts";
import { openServer } from "./postgres/server.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-connect-"));
let daemon: Daemon;
let guarded: Daemon;
let token = "";

beforeAll(async () => {
  const shared = { backend: "memory:", http: ["127.0.0.1:0"], logLevel: "silent" };
  daemon = await startDaemon(
    configOf({ ...shared, dataDir: place, socket: path.join(place, "s"), cborrpc: "127.0.0.1:0" }),
  );
  const tokens = path.join(place, "guarded", "tokens.json");
  ({ token } = createToken(tokens, { name: "w", grants: [{ namespace: "*", scopes: ["admin"] }] }));
  guarded = await startDaemon(configOf({ ...shared, dataDir: path.join(place, "guarded") }));
});

afterAll(async () => {
  await Promise.all([daemon.stop(), guarded.stop()]);
  rmSync(place, { recursive: true, force: true });
});

async function works(url: string, options = {}): Promise<void> {
  const coordinate = await connect(url, options);
  try {
    const spec = await coordinate.namespace("connect").setWorkSpec({ name: "hello" });
    await spec.addWorkUnit("world");
    const [attempt] = await coordinate.namespace("connect").worker("w").requestAttempts();
    await attempt?.finish({ done: true });
    expect((await spec.workUnit("world")).status).toBe("finished");
  } finally {
    await coordinate.close();
  }
}

describe("connect", () => {
  test.each([
    ["memory:", () => "memory:"],
    ["sqlite:PATH", () => `sqlite:${path.join(place, "connect.sqlite")}`],
    ["http://", () => daemon.urls[0]!],
    ["HTTP://", () => daemon.urls[0]!.replace("http", "HTTP")],
    ["unix:", () => daemon.urls[1]!],
    ["cborrpc://", () => daemon.urls[2]!.replace("cbor-rpc", "cborrpc")],
    ["a token in the URL", () => guarded.urls[0]!.replace("http://", `http://any:${token}@`)],
  ])("%s", async (_what, url) => {
    await works(url());
  });

  test("a token as an option", async () => {
    await works(guarded.urls[0]!, { token });
    await expect(connect(guarded.urls[0]!)).rejects.toMatchObject({ code: "unauthorized" });
  });

  test("a PostgreSQL server that does not answer is reported soon", async () => {
    const start = performance.now();
    await expect(connect("postgres://me@127.0.0.1:1/x")).rejects.toMatchObject({ code: "unavailable" });
    expect(performance.now() - start).toBeLessThan(5000);
  });

  test("postgres://", { timeout: 120_000 }, async () => {
    const server = await openServer();
    try {
      await works(await server.createDatabase());
    } finally {
      await server.stop();
    }
  });

  test("what was finished in a file is there the next time", async () => {
    const again = await connect(`sqlite:${path.join(place, "connect.sqlite")}`);
    expect((await again.tally())[0]?.counts.finished).toBe(1);
    await again.close();
  });

  test.each([
    ["localhost:5980", 'got "localhost:5980"; did you mean http://localhost:5980?'],
    [
      "redis://me:secret@h",
      'url: expected http://HOST:PORT, https://…, unix:/PATH, cborrpc://HOST:PORT, sqlite:PATH, postgres://… or memory:, got "redis://me:***@h"',
    ],
    ["sqlite:", 'expected "sqlite:PATH"'],
    ["http://:80:80", "url: expected http://HOST:PORT"],
    ["unix:", 'address: expected http://HOST:PORT, https://… or unix:/PATH, got "unix:"'],
  ])("%s is refused", async (url, message) => {
    const error: unknown = await connect(url).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "bad_argument",
      message: expect.stringContaining(message) as string,
    });
  });

  test.each([
    ["https://HTTP", "unavailable", "HTTP does not speak TLS; use http:// instead of https://"],
    [
      "cborrpc://HTTP",
      "unavailable",
      "HTTP does not speak CBOR-RPC; a daemon serves CBOR-RPC at the address of --cborrpc",
    ],
    ["http://GUARDED", "unauthorized", "This needs a token; give one: connect(url, { token })"],
    [
      "http://me:wrong@GUARDED",
      "unauthorized",
      "the token was not accepted: it is wrong, expired or revoked",
    ],
    ["http://127.0.0.1:1", "unavailable", "is a daemon running at http://127.0.0.1:1/?"],
  ])("%s says what is wrong and what to do", { timeout: 30_000 }, async (url, code, message) => {
    const fill = (text: string): string =>
      text
        .replace("HTTP ", `${new URL(daemon.urls[0]!).host} `)
        .replace(/HTTP$/, new URL(daemon.urls[0]!).host)
        .replace("GUARDED", new URL(guarded.urls[0]!).host);
    const error: unknown = await connect(fill(url)).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code, message: expect.stringContaining(fill(message)) as string });
  });

  test("what is no URL, and what is no option", async () => {
    await expect(connect(undefined as never)).rejects.toThrow(/^Bad argument url: .*, got undefined$/);
    await expect(connect("memory:", { tokn: "x" } as never)).rejects.toThrow(
      "tokn: not an option of connect; did you mean token?",
    );
    await expect(connect("memory:", null as never)).rejects.toThrow("options: expected an object, got null");
    await expect(connect("memory:", { token: 5 } as never)).rejects.toThrow(
      "token: expected a string, got 5",
    );
    await expect(connect("memory:", { housekeepingMs: "x" } as never)).rejects.toThrow(
      'housekeepingMs: expected milliseconds, more than 0, got "x"',
    );
  });

  test("nobody there is `unavailable`, at once", async () => {
    await expect(connect("http://127.0.0.1:1")).rejects.toMatchObject({ code: "unavailable" });
    await expect(connect("cborrpc://127.0.0.1:1")).rejects.toMatchObject({ code: "unavailable" });
  });
});
