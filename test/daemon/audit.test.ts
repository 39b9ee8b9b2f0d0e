import { mkdirSync, mkdtempSync, readFileSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Audit } from "../../src/daemon/audit.ts";
import type { Answered } from "../../src/rest/index.ts";

const refused: Answered = {
  id: "1",
  method: "POST",
  path: "/v1/namespace/n/tally",
  route: null,
  ns: "n",
  identity: null,
  presented: true,
  address: "10.0.0.1",
  status: 401,
  ms: 1,
};

function open() {
  const file = path.join(mkdtempSync(path.join(tmpdir(), "audit-")), "audit.log");
  const onError = vi.fn();
  const audit = new Audit(file, { all: false, wanted: () => true, onError });
  const lines = (): { count?: number }[] =>
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { count?: number });
  return { file, audit, onError, lines };
}

test("after a failure, the next line opens the file again", async () => {
  const { file, audit, onError, lines } = open();
  mkdirSync(file);
  audit.answered(refused);
  await vi.waitUntil(() => onError.mock.calls.length > 0);
  rmdirSync(file);
  audit.answered(refused);
  await audit.close();
  expect(lines()).toHaveLength(1);
  expect(onError).toHaveBeenCalledTimes(1);
});

describe("a flood of refusals", () => {
  afterEach(() => vi.useRealTimers());

  test("has ten lines a minute for an address, and one with the number of the others", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { audit, lines } = open();
    for (let minute = 0; minute < 2; minute++) {
      for (let i = 0; i < 1000; i++) audit.answered(refused);
      audit.answered({ ...refused, address: "10.0.0.2" });
      for (let i = 0; i < 5; i++) audit.refused("coordinate.tally", "10.0.0.1");
      vi.advanceTimersByTime(60_000);
    }
    audit.answered(refused);
    await audit.close();
    const own = Array.from({ length: 10 }, () => ({ address: "10.0.0.1", status: 401, path: refused.path }));
    const minute = [
      ...own,
      { address: "10.0.0.2" },
      { action: "refused", address: "10.0.0.1", status: 401, count: 995 },
    ];
    expect(lines()).toMatchObject([...minute, ...minute, own[0]]);
  });

  test("of many addresses is bounded, and what is only counted is written at the end", async () => {
    const { audit, lines } = open();
    for (let i = 0; i < 5000; i++) audit.answered({ ...refused, address: `10.0.${i >> 8}.${i & 255}` });
    await audit.close();
    expect(lines().length).toBeLessThanOrEqual(100 + 10 + 1);
    expect(lines().reduce((sum, { count = 1 }) => sum + count, 0)).toBe(5000);
  });

  test("a token's own refusals each have a line", async () => {
    const { audit, lines } = open();
    const identity = { id: "known", may: () => false, somewhere: () => false };
    for (let i = 0; i < 50; i++) audit.answered({ ...refused, status: 403, identity });
    await audit.close();
    expect(lines()).toHaveLength(50);
  });
});
