import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { runToken } from "../../src/cli/token.ts";
import { configOf, startDaemon } from "../../src/daemon/index.ts";

describe("coordinate token", () => {
  let place = "";
  let printed: string[] = [];
  beforeEach(() => {
    place = mkdtempSync(path.join(tmpdir(), "coordinate-token-"));
    printed = [];
    vi.spyOn(console, "log").mockImplementation((text: string) => void printed.push(text));
    vi.spyOn(console, "error").mockImplementation((text: string) => void printed.push(text));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    rmSync(place, { recursive: true, force: true });
  });
  const run = (...argv: string[]): number => runToken([...argv, "--data-dir", place], {});

  test("makes a token that opens a daemon, lists it without its secret, and revokes it", async () => {
    expect(run("create", "--name", "reader", "--namespace", "shop", "--scope", "read")).toBe(0);
    const token = printed.at(-1) ?? "";
    expect(token).toMatch(/^cjt_/);
    expect(statSync(path.join(place, "tokens.json")).mode & 0o777).toBe(0o600);
    const daemon = await startDaemon(
      configOf({ backend: "memory:", dataDir: place, http: ["127.0.0.1:0"], logLevel: "silent" }),
    );
    try {
      const get = async (headers: Record<string, string>): Promise<number> =>
        (await fetch(`${daemon.urls[0] ?? ""}/namespace/shop/summary`, { headers })).status;
      expect(await get({})).toBe(401);
      expect(await get({ authorization: `Bearer ${token}` })).toBe(200);
    } finally {
      await daemon.stop();
    }
    printed = [];
    expect(run("list")).toBe(0);
    expect(printed.join()).toMatch(/reader {2}shop: read/);
    expect(printed.join()).not.toContain(token.slice(-43));
    const id = token.split("_")[1] ?? "";
    expect(run("revoke", id)).toBe(0);
    expect(run("revoke", id)).toBe(1);
    expect(printed.at(-1)).toMatch(/no such token/);
  });

  test.each([[[]], [["create"]], [["revoke"]], [["dance"]]])(
    "wrong use %j prints how it is used, and answers 2",
    (argv) => {
      expect(run(...argv)).toBe(2);
      expect(printed.join()).toMatch(/usage/);
    },
  );

  test.each([
    [["create", "--name", "x", "--scope", "everything"], /no such scope/],
    [["create", "--name", "x", "--days", "soon"], /days/],
    [["list", "--colour"], /colour/],
  ])("%j fails with one line", (argv, message) => {
    expect(run(...argv)).toBe(1);
    expect(printed.join()).toMatch(message);
  });
});
