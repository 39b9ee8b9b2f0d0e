/** The time line: records from before the tab was opened, ranges, zooming; and two daemons on one database. */
import path from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { encodeData } from "../../src/core/index.ts";
import { configOf, startDaemon, type Daemon } from "../../src/daemon/index.ts";
import { RestClient } from "../../src/rest/index.ts";
import { openServer, type Server } from "../postgres/server.ts";
import { whySkipped } from "../skipped-reporter.ts";
import { noBrowser, openStage, type Stage } from "./browser.ts";
import { fillPast } from "./past.ts";

const timeout = 120_000;
const soon = { timeout: 30_000 };

describe.skipIf(noBrowser !== "")(`over time${whySkipped(noBrowser)}`, () => {
  let stage: Stage;
  /** The end of the recorded history: no work runs during the tests, however long they take. */
  let filled = 0;
  beforeAll(async () => {
    filled = Date.now();
    stage = await openStage((dataDir) =>
      fillPast(path.join(dataDir, "coordinate.sqlite"), "filings", filled, 0.05),
    );
  }, timeout);
  afterAll(() => stage.close());
  afterEach(() => stage.closePages());

  const card = (page: Page): ReturnType<Page["locator"]> => page.locator("[aria-label='Over time']");
  /** The number of points of the first line in the time line. */
  const pointsOf = async (page: Page): Promise<number> =>
    ((await card(page).locator("path.ln").first().getAttribute("d")) ?? "").split("L").length;

  test(
    "a tab that was just opened shows the hour before it, with what was changed",
    { timeout },
    async () => {
      const { page, problems } = await stage.open("#/filings?range=1h");
      await expect.poll(() => pointsOf(page), soon).toBeGreaterThan(100);
      await card(page).getByText("report: paused").waitFor();
      await card(page).getByText("parse: minGb 2").waitFor();
      // the sparklines of the rows also show the hour
      const spark = page.locator(".specs .c-spark path.ln").first();
      await expect
        .poll(async () => ((await spark.getAttribute("d")) ?? "").split("L").length, soon)
        .toBeGreaterThan(40);
      expect(problems).toEqual([]);
    },
  );

  test("ranges go to a month, by click and by key", { timeout }, async () => {
    const { page, problems } = await stage.open("#/filings");
    await expect.poll(() => pointsOf(page), soon).toBeGreaterThan(50);
    await card(page).getByRole("link", { name: "30 d" }).click();
    await expect.poll(() => page.url(), soon).toContain("range=30d");
    await expect.poll(() => pointsOf(page), soon).toBeGreaterThan(100);
    await page.keyboard.press("[");
    await expect.poll(() => page.url(), soon).toContain("range=7d");
    await page.keyboard.press("]");
    await expect.poll(() => page.url(), soon).toContain("range=30d");
    expect(problems).toEqual([]);
  });

  test("dragging over a stretch looks closer at it, and the way back is there", { timeout }, async () => {
    const { page, problems } = await stage.open("#/filings?range=1h");
    await expect.poll(() => pointsOf(page), soon).toBeGreaterThan(100);
    const box = (await card(page).locator(".plot").first().boundingBox())!;
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
    await page.mouse.move(box.x + box.width * 0.6, y, { steps: 4 });
    await page.mouse.up();
    await expect.poll(() => page.url(), soon).toContain("at=");
    // twelve minutes of the hour, a range that does not move with the clock
    await expect.poll(() => pointsOf(page), soon).toBeLessThan(100);
    expect(await card(page).locator(".axis").textContent()).not.toContain("now");
    const [from = 0, to = 0] = (/at=(\w+)-(\w+)/.exec(page.url()) ?? [])
      .slice(1)
      .map((text) => Number.parseInt(text, 36));
    expect(to - from).toBeGreaterThan(600);
    expect(to - from).toBeLessThan(900);
    await card(page).getByRole("link", { name: "×" }).click();
    await expect.poll(() => page.url(), soon).not.toContain("at=");
    await expect.poll(() => card(page).locator(".axis").textContent(), soon).toContain("now");
    expect(problems).toEqual([]);
  });

  test(
    "a work spec shows how long its attempts took and its units waited, and its share",
    { timeout },
    async () => {
      const [from = "", to = ""] = [3600, 60].map((ago) => Math.floor(filled / 1000 - ago).toString(36));
      const { page, problems } = await stage.open(`#/filings/spec/parse?at=${from}-${to}`);
      const value = (label: string): Promise<string | null> =>
        card(page).locator(".keys > div", { hasText: label }).first().locator(".v").textContent();
      await expect.poll(() => value("Run p99"), soon).toMatch(/\d+ (ms|s|m)/);
      await expect.poll(() => value("Wait p99"), soon).toMatch(/\d+ (ms|s|m)/);
      await page.getByText("Share of claims").waitFor();
      await stage.client.setNamespace("filings", { share: "time" });
      await page.getByText("Share of worker time").waitFor(soon);
      await stage.client.setNamespace("filings", { share: "choices" });
      expect(problems).toEqual([]);
    },
  );
});

describe.skipIf(noBrowser !== "")(`what if${whySkipped(noBrowser)}`, () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage((dataDir) =>
      fillPast(path.join(dataDir, "coordinate.sqlite"), "filings", Date.now(), 0.05),
    );
  }, timeout);
  afterAll(() => stage.close());

  test("plays the record with other slots and weights, and sets the weights", { timeout }, async () => {
    const { page, problems } = await stage.open("#/filings/what-if");
    const row = page.getByRole("region", { name: "Work specs" }).getByRole("row", { name: /^parse / });
    await row.waitFor(soon);
    expect(await row.innerText()).not.toMatch(/none started/);
    await page.getByRole("spinbutton", { name: "Slots of python", exact: true }).fill("0");
    await expect.poll(() => row.innerText(), soon).toMatch(/none started/);
    // the URL holds the state: the link shows the same page to another user
    const copy = await stage.open(page.url().slice(page.url().indexOf("#")));
    const there = copy.page.getByRole("region", { name: "Work specs" }).getByRole("row", { name: /^parse / });
    await expect.poll(() => there.innerText(), soon).toMatch(/none started/);
    await page.getByRole("button", { name: "Reset" }).click();
    await expect.poll(() => row.innerText(), soon).not.toMatch(/none started/);
    await page.getByRole("spinbutton", { name: "Weight of parse", exact: true }).fill("77");
    await page.getByRole("button", { name: "Set 1 weight…" }).click();
    await page.locator("dialog[open]").getByRole("button", { name: "Set 1 weight", exact: true }).click();
    await expect
      .poll(async () => (await stage.client.getWorkSpecs("filings", ["parse"]))[0]!.meta.weight, soon)
      .toBe(77);
    await expect.poll(() => page.url(), soon).not.toContain("plan=");
    expect(problems).toEqual([]);
  });
});

describe.skipIf(noBrowser !== "")(`two daemons on one PostgreSQL${whySkipped(noBrowser)}`, () => {
  let server: Server;
  let stage: Stage;
  let other: Daemon;
  let client: RestClient;
  beforeAll(async () => {
    server = await openServer();
    const backend = await server.createDatabase();
    stage = await openStage(undefined, { backend });
    other = await startDaemon(
      configOf({ backend, dataDir: stage.dataDir, http: ["127.0.0.1:0"], logLevel: "error" }),
    );
    client = new RestClient(other.urls[0]!);
  }, timeout);
  afterAll(async () => {
    await client.close();
    await other.stop();
    await stage.close();
    await server.stop();
  });

  test(
    "what goes through one is seen in a page of the other, and their histories add up",
    { timeout },
    async () => {
      const since = Date.now();
      await client.setWorkSpecs("shared", [{ data: encodeData({ name: "resize" }) }]);
      await client.addWorkUnits("shared", "resize", [{ name: "first" }]);
      const { page, problems } = await stage.open("#/shared");
      const row = page.locator(".specs tbody tr", { hasText: "resize" });
      const available = row.locator(".c-available");
      await expect.poll(() => available.textContent(), soon).toBe("1");
      // one unit through each daemon, while the page is open
      await stage.client.addWorkUnits("shared", "resize", [{ name: "here" }]);
      await client.addWorkUnits("shared", "resize", [{ name: "there" }, { name: "there too" }]);
      await expect.poll(() => available.textContent(), soon).toBe("4");
      const [attempt] = await client.requestAttempts("shared", { worker: "w" });
      await client.settleAttempts("shared", [{ attempt: attempt!.id, action: "fail" }]);
      await expect.poll(() => row.locator(".c-failed").textContent(), soon).toBe("1");
      const sum = async (what: "added" | "failed"): Promise<number> => {
        const { series } = await stage.client.history("shared", {
          workSpecs: ["resize"],
          from: since - 60_000,
        });
        return series[0]!.points.reduce((total, point) => total + point[what], 0);
      };
      await expect.poll(() => sum("added"), { timeout: 60_000, interval: 1000 }).toBe(4);
      await expect.poll(() => sum("failed"), { timeout: 60_000, interval: 1000 }).toBe(1);
      expect(problems).toEqual([]);
    },
  );
});
