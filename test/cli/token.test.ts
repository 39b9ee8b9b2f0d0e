import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { configOf, listTokens, startDaemon } from "../../src/daemon/index.ts";
import { run as runLine, type Ran } from "./in-process.ts";

describe("coordinate token", () => {
  let place = "";
  beforeEach(() => {
    place = mkdtempSync(path.join(tmpdir(), "coordinate-token-"));
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));
  const run = (...argv: string[]): Promise<Ran> => runLine(["token", ...argv, "--data-dir", place]);

  test("makes a token that opens a daemon, lists it without its secret, and revokes it", async () => {
    const made = await run("create", "--name", "reader", "--namespace", "shop", "--scope", "read");
    expect(made.code).toBe(0);
    const token = made.out.trim();
    expect(token).toMatch(/^cjt_/);
    expect(statSync(path.join(place, "tokens.json")).mode & 0o777).toBe(0o600);
    const daemon = await startDaemon(
      configOf({ backend: "memory:", dataDir: place, http: ["127.0.0.1:0"], logLevel: "silent" }),
    );
    try {
      const address = daemon.urls[0] ?? "";
      const ask = (...argv: string[]): Promise<Ran> =>
        runLine(["summary", "--address", address, "--namespace", "shop", ...argv]);
      const refused = await ask();
      expect(refused.code).toBe(1);
      expect(refused.err).toMatch(/COORDINATE_TOKEN/);
      expect((await ask("--token", token)).code).toBe(0);
      const other = await ask("--token", token, "--namespace", "other");
      expect(other.code).toBe(1);
      expect(other.err).toMatch(/the token lacks the rights/);
    } finally {
      await daemon.stop();
    }
    const listed = await run("list");
    expect(listed.code).toBe(0);
    expect(listed.out).toMatch(/reader {2}shop: read/);
    expect(listed.out).not.toContain(token.slice(-43));
    const id = token.split("_")[1] ?? "";
    const last = await run("revoke", id);
    expect(last.code).toBe(1);
    expect(last.err).toMatch(/is the last token/);
    expect((await run("create", "--name", "other")).code).toBe(0);
    expect((await run("revoke", id)).code).toBe(0);
    const [other] = listTokens(path.join(place, "tokens.json"));
    expect((await run("revoke", other?.id ?? "", "--yes")).code).toBe(0);
    const again = await run("revoke", id);
    expect(again.code).toBe(1);
    expect(again.err).toMatch(/no such token/);
  });

  test.each([[[]], [["create"]], [["revoke"]], [["dance"]], [["list", "--colour"]]])(
    "wrong use %j says what was wrong, and answers 2",
    async (argv) => {
      const { code, err } = await run(...argv);
      expect(code).toBe(2);
      expect(err).toMatch(/^coordinate/);
    },
  );

  test.each([
    [["create", "--name", "x", "--scope", "everything"], 1, /no such scope/],
    [["create", "--name", "x", "--days", "soon"], 2, /days/],
  ])("%j fails with one line", async (argv, code, message) => {
    const ran = await run(...argv);
    expect(ran.code).toBe(code);
    expect(ran.err).toMatch(message);
  });
});
