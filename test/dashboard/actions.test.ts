/** User actions in the dashboard, in a real browser against a real daemon. Every effect is checked through the API. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { decodeData, encodeData } from "../../src/core/index.ts";
import { nameToUrl } from "../../src/rest/client.ts";
import { executable } from "../daemon/built.ts";
import { noBrowser, openStage, type Stage } from "./browser.ts";
import { whySkipped } from "../skipped-reporter.ts";

const timeout = 90_000;
let stage: Stage;
let serial = 0;
let ns = "";

// needs a browser, which may not be installed; CI installs one
describe.skipIf(noBrowser !== "")(`actions${whySkipped(noBrowser)}`, () => {
  beforeAll(async () => {
    stage = await openStage();
  }, timeout);
  afterAll(() => stage.close());
  afterEach(() => stage.closePages());
  beforeEach(() => {
    ns = `actions-${(serial += 1)}`;
  });

  /** A work spec with `units` units, of which `bad` have failed. */
  const fill = async (units = 20, bad = 0): Promise<void> => {
    const { client } = stage;
    await client.setWorkSpecs(ns, [
      { data: encodeData({ name: "parse", weight: 40, then: "index" }) },
      { data: encodeData({ name: "index" }) },
    ]);
    const names = Array.from({ length: units }, (_, i) => `u${String(i).padStart(5, "0")}`);
    if (bad > 0) {
      await client.addWorkUnits(
        ns,
        "parse",
        names.slice(0, bad).map((name) => ({ name, data: encodeData({ name }) })),
      );
      const attempts = await client.requestAttempts(ns, { worker: "w", number: bad, workSpecs: ["parse"] });
      await client.settleAttempts(
        ns,
        attempts.map(({ id }, i) => ({
          attempt: id,
          action: "fail",
          data: encodeData({
            traceback: i % 2 === 0 ? "Error: even\n    at task.js:1" : "Error: odd\n    at task.js:2",
          }),
        })),
      );
    }
    await client.addWorkUnits(
      ns,
      "parse",
      names.slice(bad).map((name) => ({ name, labels: ["eu"] })),
    );
  };
  const counts = async () =>
    (await stage.client.tally(ns)).find(({ workSpec }) => workSpec === "parse")!.counts;
  const meta = async () => (await stage.client.getWorkSpecs(ns, ["parse"]))[0]!.meta;
  const dialog = (page: Page) => page.locator("dialog[open]");

  test("pauses and resumes a work spec, and takes it back", { timeout }, async () => {
    await fill();
    const { page, problems } = await stage.open(`#/${ns}/spec/parse`);
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await expect.poll(async () => (await meta()).paused).toBe(true);
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    await page.getByText("No work spec of priority 0 is scheduled now.").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await expect.poll(async () => (await meta()).paused).toBe(false);
    expect(problems).toEqual([]);
  });

  test(
    "edits metadata in route, refuses what is no number, and goes back to the definition",
    { timeout },
    async () => {
      await fill();
      const { page, problems } = await stage.open(`#/${ns}/spec/parse`);
      await page.getByRole("button", { name: "weight: 40; change" }).click();
      const field = page.getByRole("textbox", { name: "weight" });
      await field.fill("many");
      await field.press("Enter");
      expect(await field.getAttribute("aria-invalid")).toBe("true");
      await field.fill("75");
      await field.press("Enter");
      await expect.poll(async () => (await meta()).weight).toBe(75);
      await page.getByRole("button", { name: "Reset to 40" }).click();
      await expect.poll(async () => (await meta()).weight).toBe(40);
      await page.getByRole("button", { name: "max_running: none; change" }).click();
      await page.getByRole("textbox", { name: "max_running" }).fill("7");
      await page.keyboard.press("Enter");
      await expect.poll(async () => (await meta()).maxRunning).toBe(7);
      await page.getByRole("button", { name: "Undo" }).click();
      await expect.poll(async () => (await meta()).maxRunning).toBe(0);
      expect(problems).toEqual([]);
    },
  );

  test("groups failures, leads to the units of a group, and retries one group", { timeout }, async () => {
    await fill(20, 10);
    const { page, problems } = await stage.open(`#/${ns}`);
    // half of the ended units have failed: "Needs attention" shows this with the most frequent error
    const attention = page.getByRole("region", { name: "Needs attention" });
    await expect.poll(() => attention.innerText()).toMatch(/Most frequent error \(50 %\): Error: (odd|even)/);
    await attention.getByRole("button", { name: "Failure groups" }).click();
    const groups = page.getByRole("region", { name: "Failure groups" });
    const group = groups.getByRole("row", { name: /Error: odd/ });
    await expect.poll(() => group.innerText()).toMatch(/new/);
    await group.getByRole("link", { name: "5", exact: true }).click();
    await page.getByText("5 matching, by name").waitFor();
    expect(await page.locator(".rows .row").count()).toBe(5);
    expect(await page.locator(".flt", { hasText: "error" }).innerText()).toContain("Error: odd");
    await page.getByRole("combobox").selectOption("15m");
    await expect.poll(() => page.url()).toContain("within=15m");
    await page.getByText("5 matching, by name").waitFor();
    await page.goto(`${stage.url}/#/${ns}/spec/parse`);
    await group.getByRole("button", { name: "Retry 5…" }).click();
    expect(await dialog(page).innerText()).toContain("failed with this error");
    await dialog(page).getByRole("button", { name: "Retry 5 units of parse" }).click();
    await expect.poll(async () => (await counts()).failed).toBe(5);
    await expect.poll(() => groups.innerText()).not.toContain("Error: odd");
    await expect.poll(() => page.locator(".ops").innerText()).toContain("Done: 5 of 5 changed");
    const left = await stage.client.listWorkUnits(ns, "parse", { statuses: ["failed"] });
    for (const { data } of left.rows) expect(decodeData(data!).traceback).toContain("even");
    expect(problems).toEqual([]);
  });

  test("deletes a work spec", { timeout }, async () => {
    await fill();
    const { page } = await stage.open(`#/${ns}/spec/parse`);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete the work spec…" }).click();
    await dialog(page)
      .getByRole("button", { name: /^Delete parse with 20 units/ })
      .click();
    await expect.poll(async () => (await stage.client.getWorkSpecs(ns, ["parse"]))[0]).toBeNull();
  });

  test(
    "finds by prefix, status and label; the URL is the state, and Back goes back",
    { timeout },
    async () => {
      await fill(300, 4);
      const { page, problems } = await stage.open(`#/${ns}/units/parse`);
      const rows = page.locator(".rows .row");
      await rows.first().waitFor();
      await page.keyboard.press("/");
      await page.keyboard.type("u0001");
      await expect.poll(() => rows.count()).toBe(10);
      await expect.poll(() => page.url()).toContain("prefix=u0001");
      await expect
        .poll(() => page.getByRole("region", { name: "Units" }).locator("header").innerText())
        .toContain("10 matching");
      await page.goBack();
      await expect.poll(() => page.getByRole("textbox", { name: "Name begins with" }).inputValue()).toBe("");
      await page.getByRole("link", { name: /^Failed/ }).click();
      await expect.poll(() => rows.count()).toBe(4);
      const { page: same } = await stage.open(page.url().replace(/^.*#/, "#"));
      await expect.poll(() => same.locator(".rows .row").count()).toBe(4);
      await page.getByRole("link", { name: "All", exact: true }).click();
      await page.getByRole("textbox", { name: "Name begins with" }).fill("label:eu");
      await page.keyboard.press("Enter");
      await expect
        .poll(() => page.getByRole("region", { name: "Units" }).locator("header").innerText())
        .toContain("296 matching");
      expect(problems).toEqual([]);
    },
  );

  test("reads on while scrolling, with few rows on the page", { timeout }, async () => {
    await fill(1000);
    const { page } = await stage.open(`#/${ns}/units/parse`);
    await page.locator(".rows .row").first().waitFor();
    await expect
      .poll(
        async () => {
          await page.locator(".rows").evaluate((box) => box.scrollTo(0, box.scrollHeight));
          return page.locator(".rows").innerText();
        },
        { timeout: 30_000 },
      )
      .toContain("u00999");
    expect(await page.locator(".rows .row").count()).toBeLessThan(80);
  });

  test("retries what is selected", { timeout }, async () => {
    await fill(20, 6);
    const { page } = await stage.open(`#/${ns}/units/parse?status=failed`);
    await page.getByRole("checkbox", { name: "Select u00001" }).check();
    await page.getByRole("checkbox", { name: "Select u00003" }).check();
    await page.getByRole("button", { name: "Retry…" }).click();
    await dialog(page).getByRole("button", { name: "Retry 2 units of parse" }).click();
    await expect.poll(async () => (await counts()).failed).toBe(4);
    const [one, two] = await stage.client.getWorkUnits(ns, "parse", ["u00001", "u00002"]);
    expect([one!.status, two!.status]).toEqual(["available", "failed"]);
  });

  test("retries all that match, at a pace, and stops", { timeout }, async () => {
    await fill(400, 300);
    const { page, problems } = await stage.open(`#/${ns}/units/parse?status=failed`);
    await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
    await page.getByRole("button", { name: "Select all 300 matching units" }).click();
    await page.getByRole("button", { name: "Retry…" }).click();
    await dialog(page).getByRole("spinbutton").fill("20");
    await dialog(page).getByRole("button", { name: "Retry 300 units of parse" }).click();
    await expect.poll(async () => (await counts()).failed).toBeLessThan(300);
    await page.getByRole("button", { name: "Stop" }).click();
    await expect.poll(() => page.locator(".ops").innerText()).toContain("Stopped");
    const { failed } = await counts();
    expect(failed).toBeGreaterThan(100);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect((await counts()).failed).toBe(failed);
    expect(problems).toEqual([]);
  });

  test("tries ten first", { timeout }, async () => {
    await fill(60, 50);
    const { page } = await stage.open(`#/${ns}/units/parse?status=failed`);
    await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
    await page.getByRole("button", { name: "Retry…" }).click();
    await dialog(page).getByRole("button", { name: "Try 10 first" }).click();
    await expect.poll(async () => (await counts()).failed).toBe(40);
  });

  test("sets priorities and delays", { timeout }, async () => {
    await fill(5);
    const { page } = await stage.open(`#/${ns}/units/parse`);
    await page.getByRole("checkbox", { name: "Select u00002" }).check();
    await page.getByRole("button", { name: "Prioritise…" }).click();
    await dialog(page).getByRole("spinbutton").fill("42");
    await dialog(page).getByRole("button", { name: "Prioritise 1 unit of parse" }).click();
    await expect
      .poll(async () => (await stage.client.getWorkUnits(ns, "parse", ["u00002"]))[0]!.priority)
      .toBe(42);
    await page.getByRole("checkbox", { name: "Select u00003" }).check();
    await page.getByRole("button", { name: "Delay…" }).click();
    await dialog(page).getByRole("spinbutton").fill("3600");
    await dialog(page).getByRole("button", { name: "Delay 1 unit of parse" }).click();
    await expect.poll(async () => (await counts()).delayed).toBe(1);
  });

  test("deletes what is selected; a thousand only for who types the name", { timeout }, async () => {
    await fill(1200);
    const { page } = await stage.open(`#/${ns}/units/parse`);
    await page.getByRole("checkbox", { name: "Select u00002" }).check();
    await page.getByRole("button", { name: "Delete…" }).click();
    await dialog(page).getByRole("button", { name: "Delete 1 unit of parse" }).click();
    await expect.poll(async () => (await counts()).available).toBe(1199);
    await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
    await page.getByRole("button", { name: "Select all 1,199 matching units" }).click();
    await page.getByRole("button", { name: "Delete…" }).click();
    const button = dialog(page).getByRole("button", { name: "Delete 1,199 units of parse" });
    expect(await button.isDisabled()).toBe(true);
    await dialog(page).getByRole("textbox").fill("parse");
    await button.click();
    await expect.poll(async () => (await counts()).available, { timeout: 20_000 }).toBe(0);
  });

  test("exports what matches as lines of JSON", { timeout }, async () => {
    await fill(30);
    const { page, problems } = await stage.open(`#/${ns}/units/parse?prefix=u0000`);
    await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
    await page.getByRole("button", { name: "Export…" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      dialog(page).getByRole("button", { name: "Export 10 units of parse" }).click(),
    ]);
    const lines = readFileSync(await download.path(), "utf8")
      .trim()
      .split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual(
      Array.from({ length: 10 }, (_, i) => `u0000${i}`),
    );
    expect(problems).toEqual([]);
  });

  test("exports the units of a failure group, and no others", { timeout }, async () => {
    await fill(300, 250);
    const failed = await stage.client.listFailures(ns, { workSpec: "parse" });
    const { fingerprint } = failed.find(({ error }) => error.includes("odd"))!;
    const { page } = await stage.open(`#/${ns}/units/parse?error=${fingerprint}`);
    await page.getByText("125 matching, by name").waitFor();
    await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
    await page.getByRole("button", { name: "Select all 125 matching units" }).click();
    await page.getByRole("button", { name: "Export…" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      dialog(page).getByRole("button", { name: "Export 125 units of parse" }).click(),
    ]);
    const lines = readFileSync(await download.path(), "utf8")
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { data: { traceback: string } }).data.traceback);
    expect(lines).toHaveLength(125);
    expect(lines.every((text) => text.startsWith("Error: odd"))).toBe(true);
  });

  test("a selection ends with its filter: nothing is changed that is not shown", { timeout }, async () => {
    await fill(20, 6);
    const { page } = await stage.open(`#/${ns}/units/parse?status=failed`);
    const bar = page.getByRole("toolbar", { name: "Selected units" });
    const select = async (name: string): Promise<void> => {
      await page.getByRole("checkbox", { name: `Select ${name}` }).check();
      await bar.waitFor();
    };
    await select("u00001");
    await page.getByRole("link", { name: /^Available/ }).click();
    await bar.waitFor({ state: "detached" });
    await select("u00010");
    await page.getByRole("textbox", { name: "Name begins with" }).fill("u0001");
    await bar.waitFor({ state: "detached" });
    await select("u00011");
    await page.goBack();
    await bar.waitFor({ state: "detached" });
  });

  test("the number of matches follows the units", { timeout }, async () => {
    await fill(20);
    const { page } = await stage.open(`#/${ns}/units/parse?label=eu`);
    await page.getByText("20 matching, by name").waitFor();
    await stage.client.deleteWorkUnits(ns, "parse", { names: ["u00001", "u00002"] });
    await page.getByText("18 matching, by name").waitFor();
  });

  test("adds no more units once the dialog is closed", { timeout }, async () => {
    await fill(1);
    const { page } = await stage.open(`#/${ns}/units/parse?add=1`);
    await page.route("**/add-work-units", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 200));
      await route.continue();
    });
    const names = Array.from({ length: 20_000 }, (_, i) => `n${i}`).join("\n");
    const file = { name: "names.txt", mimeType: "text/plain", buffer: Buffer.from(names) };
    await dialog(page).locator("input[type=file]").setInputFiles(file);
    await dialog(page).getByRole("button", { name: "Add 20,000 units" }).click();
    await expect.poll(async () => (await counts()).available).toBeGreaterThan(1);
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await dialog(page).waitFor({ state: "detached" });
    await page.waitForTimeout(500);
    const before = (await counts()).available;
    expect(before).toBeLessThan(20_001);
    await page.waitForTimeout(1000);
    expect((await counts()).available).toBe(before);
  });

  test("adds units by pasting, and says what is wrong with which line", { timeout }, async () => {
    await fill(1);
    const { page, problems } = await stage.open(`#/${ns}/units/parse`);
    await page.getByRole("button", { name: "Add units" }).click();
    await dialog(page)
      .getByRole("textbox")
      .fill(
        '{"name": "a", "data": {"n": 1.0}, "priority": 3}\n{"name": 7}\n["b", {"x": 1}]\n{"name": "c", "dependencies": [{"workUnit": "nowhere"}]}\nnot json',
      );
    const wrong = dialog(page).getByRole("list", { name: "Lines with errors" });
    await expect.poll(() => wrong.innerText()).toMatch(/Line 2[^]*Line 5/);
    await dialog(page).getByRole("button", { name: "Add 3 valid units" }).click();
    await dialog(page).getByText("2 units stored").waitFor();
    expect(await wrong.innerText()).toMatch(/Line 4/);
    const [a, b, c] = await stage.client.getWorkUnits(ns, "parse", ["a", "b", "c"]);
    expect([a!.priority, a!.data, b!.data, c]).toEqual([3, '{"n": 1.0}', '{"x": 1}', null]);
    expect(problems).toEqual([]);
  });

  test("adds names, and a packed file", { timeout }, async () => {
    await fill(1);
    const { page } = await stage.open(`#/${ns}/units/parse?add=1`);
    await dialog(page).getByRole("textbox").fill("https://example.org/1\nhttps://example.org/2\n");
    await dialog(page).getByRole("button", { name: "Add 2 units" }).click();
    await dialog(page).getByText("2 units stored").waitFor();
    await dialog(page).getByRole("button", { name: "Close" }).click();
    expect((await stage.client.getWorkUnits(ns, "parse", ["https://example.org/2"]))[0]!.status).toBe(
      "available",
    );
    const file = path.join(stage.dataDir, "units.jsonl.gz");
    writeFileSync(file, gzipSync(Array.from({ length: 2500 }, (_, i) => `{"name":"f${i}"}`).join("\n")));
    await page.getByRole("button", { name: "Add units" }).click();
    await dialog(page).locator("input[type=file]").setInputFiles(file);
    await dialog(page).getByRole("button", { name: "Add 2,500 units" }).click();
    await dialog(page).getByText("2,500 units stored").waitFor();
    expect((await counts()).available).toBe(2503);
  });

  test(
    "works on a page without TLS, where browsers have no clipboard and no randomUUID",
    { timeout },
    async () => {
      await fill(1);
      const { page, context, problems } = await stage.open(`#/${ns}/unit/parse/u00000`);
      const copy = page.getByRole("button", { name: "Copy name" });
      await copy.waitFor();
      await context.addInitScript(() => {
        Object.defineProperty(navigator, "clipboard", { value: undefined });
        Object.defineProperty(crypto, "randomUUID", { value: undefined });
      });
      await page.reload();
      await page.getByRole("heading", { name: "u00000" }).waitFor();
      expect(await copy.count()).toBe(0);
      await page.goto(`${stage.url}/#/${ns}/units/parse?add=1`);
      await dialog(page).getByRole("textbox").fill("one\n");
      await dialog(page).getByRole("button", { name: "Add 1 unit" }).click();
      await dialog(page).getByText("1 unit stored").waitFor();
      expect(problems).toEqual([]);
    },
  );

  test("runs a unit again, gives one back, and deletes one", { timeout }, async () => {
    await fill(3, 1);
    const { page, problems } = await stage.open(`#/${ns}/unit/parse/u00000`);
    await page.getByText("Error: even").first().waitFor();
    await page.getByRole("button", { name: "Run again…" }).click();
    await dialog(page).getByRole("button", { name: "Retry 1 unit of parse" }).click();
    const status = async (name: string) => (await stage.client.getWorkUnits(ns, "parse", [name]))[0]?.status;
    await expect.poll(() => status("u00000")).toBe("available");
    const [attempt] = await stage.client.makeAttempts(ns, [
      { workSpec: "parse", workUnit: "u00001", worker: "w" },
    ]);
    await page.goto(`${stage.url}/#/${ns}/unit/parse/u00001`);
    await page.getByRole("button", { name: "Give back…" }).click();
    await dialog(page).getByRole("button", { name: "Give the unit back" }).click();
    await expect
      .poll(async () => (await stage.client.getAttempts(ns, [attempt!.id]))[0]!.status)
      .toBe("expired");
    await page.goto(`${stage.url}/#/${ns}/unit/parse/u00002`);
    await page.getByRole("button", { name: "Delete…" }).click();
    await dialog(page).getByRole("button", { name: "Delete 1 unit of parse" }).click();
    await expect.poll(() => status("u00002")).toBeUndefined();
    expect(problems).toEqual([]);
  });

  test(
    "shows what changed between attempts, where a unit came from and what it made",
    { timeout },
    async () => {
      await fill(1);
      const { client } = stage;
      const [first] = await client.requestAttempts(ns, { worker: "w", workSpecs: ["parse"] });
      await client.settleAttempts(ns, [
        { attempt: first!.id, action: "retry", data: encodeData({ page: 1, kept: "same" }) },
      ]);
      const [second] = await client.requestAttempts(ns, { worker: "w", workSpecs: ["parse"] });
      await client.settleAttempts(ns, [
        {
          attempt: second!.id,
          action: "finish",
          data: encodeData({ page: 2, kept: "same", output: { child: { x: 1 } } }),
        },
      ]);
      const { page } = await stage.open(`#/${ns}/unit/parse/u00000`);
      const data = page.getByRole("region", { name: "Data" });
      await expect.poll(() => data.locator(".del").first().innerText()).toContain('"page": 1');
      await expect.poll(() => data.locator(".add").first().innerText()).toContain('"page": 2');
      await page.getByRole("region", { name: "Related units" }).getByRole("link", { name: "child" }).click();
      await page
        .getByRole("region", { name: "Related units" })
        .getByRole("link", { name: "u00000" })
        .waitFor();
    },
  );

  test(
    "runs a unit again as of one of its attempts, and lists what a worker has had",
    { timeout },
    async () => {
      await fill(1);
      const { client } = stage;
      for (const [worker, page] of [
        ["w", 1],
        ["v", 2],
      ] as const) {
        const [attempt] = await client.requestAttempts(ns, { worker, workSpecs: ["parse"] });
        const action = page === 1 ? "retry" : "fail";
        await client.settleAttempts(ns, [{ attempt: attempt!.id, action, data: encodeData({ page }) }]);
      }
      const { page, problems } = await stage.open(`#/${ns}/unit/parse/u00000`);
      await page.getByRole("button", { name: "Rerun 1…" }).click();
      await dialog(page).getByRole("button", { name: "Run again with the data of attempt 1" }).click();
      const unit = async () => (await client.getWorkUnits(ns, "parse", ["u00000"]))[0]!;
      await expect.poll(async () => (await unit()).status).toBe("available");
      expect([decodeData((await unit()).data!), (await unit()).labels]).toEqual([{ page: 1 }, ["eu"]]);
      await page
        .getByRole("region", { name: "Attempts" })
        .getByRole("link", { name: "v", exact: true })
        .click();
      const had = page.getByRole("region", { name: "Units of a worker" });
      await had.getByRole("link", { name: "u00000" }).waitFor();
      expect(page.url()).toContain("worker=v");
      await had.getByRole("link", { name: "parse" }).click();
      await expect.poll(() => page.url()).toContain("/units/parse?worker=v");
      await had.getByRole("link", { name: "u00000" }).click();
      await expect.poll(() => page.url()).toContain("/unit/parse/u00000");
      expect(problems).toEqual([]);
    },
  );

  test("drains, stops and lets run a worker, and all of them", { timeout }, async () => {
    await fill();
    const { client } = stage;
    await client.updateWorkers(ns, [
      { name: "box", active: true, mode: "run" },
      { name: "box/1", parent: "box", active: true, mode: "run" },
    ]);
    const { page, problems } = await stage.open(`#/${ns}/workers`);
    const desired = async (name: string) => (await client.getWorkers(ns, [name]))[0]!.desired;
    const ask = async (worker: string, what: string): Promise<void> => {
      await page.getByRole("button", { name: worker, exact: true }).click();
      await page.getByRole("menuitem", { name: what }).click();
    };
    await ask("Ask box", "Drain");
    await expect.poll(() => desired("box")).toBe("idle");
    expect(await desired("box/1")).toBe("idle");
    await ask("Ask box", "Stop");
    await expect.poll(() => desired("box")).toBe("terminate");
    await ask("Ask box", "Run");
    await expect.poll(() => desired("box")).toBe("run");
    await ask("Ask all to…", "Drain");
    await expect.poll(async () => (await client.getNamespace(ns)).settings.desired).toBe("idle");
    await page.getByRole("button", { name: "Undo" }).click();
    await expect.poll(async () => (await client.getNamespace(ns)).settings.desired).toBe("run");
    expect(problems).toEqual([]);
  });

  test("gives back what a worker holds", { timeout }, async () => {
    await fill();
    const { client } = stage;
    await client.updateWorkers(ns, [{ name: "box", active: true, mode: "run" }]);
    await client.requestAttempts(ns, { worker: "box", number: 3, workSpecs: ["parse"] });
    const { page } = await stage.open(`#/${ns}/workers`);
    await page.getByRole("button", { name: "Ask box" }).click();
    await page.getByRole("menuitem", { name: "Give back 3…" }).click();
    await dialog(page).getByRole("button", { name: "Give back 3 units of box" }).click();
    await expect.poll(async () => (await counts()).pending).toBe(0);
  });

  test("shows schedules with their runs, and pauses one", { timeout }, async () => {
    const { client } = stage;
    await client.setWorkSpecs(ns, [
      // frequent enough to see a run, and rare enough that a slow browser can click on it before the next one is shown
      { data: encodeData({ name: "beat", schedule: { every: 10 } }) },
      { data: encodeData({ name: "report", schedule: { cron: "0 3 29 2 *", timezone: "Europe/Brussels" } }) },
    ]);
    const { page, problems } = await stage.open(`#/${ns}/schedules`);
    const row = (name: RegExp) => page.getByRole("region", { name: "Schedules" }).getByRole("row", { name });
    await expect.poll(() => row(/report/).innerText()).toContain("0 3 29 2 *, Europe/Brussels");
    expect(await row(/report/).innerText()).toMatch(/none yet\s+in \d+ \w+/);
    // a run links to its unit
    await row(/beat/)
      .getByRole("link", { name: /available/ })
      .click();
    await page.getByText("waiting for a worker").waitFor();
    await page.goto(`${stage.url}/#/${ns}/schedules`);
    await row(/report/)
      .getByRole("button", { name: "Pause" })
      .click();
    const isPaused = async () => (await client.getWorkSpecs(ns, ["report"]))[0]!.meta.paused;
    await expect.poll(isPaused).toBe(true);
    await expect.poll(() => row(/report/).innerText()).toContain("paused");
    await page.getByRole("button", { name: "Undo" }).click();
    await expect.poll(isPaused).toBe(false);
    await row(/report/)
      .getByRole("link", { name: "report" })
      .click();
    await page
      .getByRole("region", { name: "Current state" })
      .getByText("Its schedule creates the next unit in")
      .waitFor();
    await page.getByRole("link", { name: "Schedules" }).last().click();
    await expect.poll(() => page.url()).toContain("/schedules");
    expect(problems).toEqual([]);
  });

  test(
    "shows how far batches are, retries what failed in one, and cancels the rest",
    { timeout },
    async () => {
      await fill(1);
      const { client } = stage;
      await client.setBatches(ns, [
        { name: "all", then: { workSpec: "index" } },
        { name: "part", parent: "all", sealed: true },
      ]);
      await client.addWorkUnits(
        ns,
        "parse",
        ["a", "b", "c", "d"].map((name) => ({ name, batch: "part", priority: 5 })),
      );
      const [a, b] = await client.requestAttempts(ns, { worker: "w", number: 2, workSpecs: ["parse"] });
      await client.settleAttempts(ns, [
        { attempt: a!.id, action: "finish" },
        { attempt: b!.id, action: "fail", data: encodeData({ traceback: "Error: no" }) },
      ]);
      const { page, problems } = await stage.open(`#/${ns}/unit/parse/a`);
      await page
        .getByRole("region", { name: "Details" })
        .getByRole("link", { name: "part", exact: true })
        .click();
      const row = (name: RegExp) => page.getByRole("region", { name: "Batches" }).getByRole("row", { name });
      await expect.poll(() => row(/^part/).innerText()).toContain("50 % of 4 units");
      // the counts of the batch, by work spec and status, link to the list of units
      await page.getByRole("link", { name: "2 available" }).click();
      await page.getByText("2 matching, by name").waitFor();
      expect(await page.locator(".rows .row").allInnerTexts()).toEqual([
        expect.stringContaining("c"),
        expect.stringContaining("d"),
      ]);
      await page.goto(`${stage.url}/#/${ns}/batches`);
      await row(/^part/).getByRole("button", { name: "Retry…" }).click();
      await dialog(page).getByRole("button", { name: "Retry 1 unit of part" }).click();
      const batch = async () => (await client.getBatches(ns, ["part"]))[0]!;
      await expect.poll(async () => (await batch()).failed).toBe(0);
      await row(/^part/).getByRole("button", { name: "Cancel…" }).click();
      await dialog(page).getByRole("button", { name: "Cancel 3 units of part" }).click();
      await expect.poll(async () => (await batch()).doneTime).toBeGreaterThan(0);
      await expect.poll(() => row(/^part/).innerText()).toContain("100 % of 4 units");
      expect((await batch()).failed).toBe(3);
      // the parent batch has no units: an action on it applies to its child batches
      await row(/^all/).getByRole("button", { name: "Retry…" }).click();
      await dialog(page)
        .getByRole("button", { name: "Retry failed units of all and 1 nested batch" })
        .click();
      await expect.poll(async () => (await batch()).failed).toBe(0);
      expect(problems).toEqual([]);
    },
  );

  test(
    "shows what runs under a shared limit, changes it, and takes the change back",
    { timeout },
    async () => {
      await fill(1);
      const { client } = stage;
      await client.setLimits(ns, [{ name: "api", maxRunning: 1, rate: { limit: 100, periodMs: 60_000 } }]);
      await client.setWorkSpecs(ns, [{ data: encodeData({ name: "parse", limits: ["api"] }) }]);
      await client.requestAttempts(ns, { worker: "w", workSpecs: ["parse"] });
      const { page, problems } = await stage.open(`#/${ns}/limits`);
      const row = page.getByRole("region", { name: "Limits" }).getByRole("row", { name: /^api/ });
      await expect.poll(() => row.innerText()).toMatch(/1 of 1[^]*100 per 1 m[^]*when one ends[^]*parse/);
      const stored = async () =>
        (await client.listLimits(ns)).map(({ maxRunning, rate }) => [maxRunning, rate]);
      await row.getByRole("spinbutton").fill("5");
      await row.getByRole("spinbutton").press("Enter");
      await expect.poll(stored).toEqual([[5, { limit: 100, periodMs: 60_000 }]]);
      await expect.poll(() => row.innerText()).toContain("1 of 5");
      await page.getByRole("button", { name: "Undo" }).click();
      await expect.poll(stored).toEqual([[1, { limit: 100, periodMs: 60_000 }]]);
      expect(problems).toEqual([]);
    },
  );

  test(
    "lists the partitions of a work spec, page by page, and what holds each back",
    { timeout },
    async () => {
      const { client } = stage;
      await client.setWorkSpecs(ns, [{ data: encodeData({ name: "crawl", max_running_per_partition: 1 }) }]);
      const site = (i: number): string => `site ${String(i).padStart(2, "0")} <b>`;
      const units = Array.from({ length: 20 }, (_, i) => [
        { name: `${site(i)} 1`, partition: site(i) },
        { name: `${site(i)} 2`, partition: site(i) },
      ]).flat();
      await client.addWorkUnits(ns, "crawl", [...units, { name: "alone" }]);
      const [attempt] = await client.requestAttempts(ns, { worker: "w", workSpecs: ["crawl"] });
      const { page, problems } = await stage.open(`#/${ns}/spec/crawl`);
      const card = page.getByRole("region", { name: "Partitions" });
      const row = (name: RegExp) => card.getByRole("row", { name });
      await expect
        .poll(() => row(/^site 00/).innerText())
        .toMatch(/site 00 <b>\s+1\s+1\s+site 00 <b> 2\s+1 of 1 running/);
      expect(await row(/^site 01/).innerText()).toMatch(/\s2\s+0\s+site 01 <b> 1\s+ready to start/);
      expect(await row(/^without a partition/).innerText()).toMatch(/\s1\s+0\s+alone\s/);
      expect(await card.getByRole("row").count()).toBe(1 + 15);
      // updated live: the slot is free again
      await client.settleAttempts(ns, [{ attempt: attempt!.id, action: "finish" }]);
      await expect
        .poll(() => row(/^site 00/).innerText())
        .toMatch(/\s1\s+0\s+site 00 <b> 2\s+ready to start/);
      await card.getByRole("link", { name: "Next" }).click();
      await row(/^site 19/).waitFor();
      expect(await card.getByRole("row").count()).toBe(1 + 6);
      expect(await card.getByRole("link", { name: "Next" }).count()).toBe(0);
      await page.goBack();
      await row(/^without a partition/).waitFor();
      await card.getByRole("link", { name: "site 00 <b> 2" }).click();
      await page.getByRole("heading", { name: "site 00 <b> 2" }).waitFor();
      expect(problems).toEqual([]);
    },
  );

  test("shows how far a running unit is, and cancels it", { timeout }, async () => {
    await fill(1);
    const { client } = stage;
    const [attempt] = await client.requestAttempts(ns, { worker: "w", workSpecs: ["parse"] });
    await client.settleAttempts(ns, [
      { attempt: attempt!.id, action: "renew", progress: { done: 0.4, note: "page <b>4</b> of 10" } },
    ]);
    const { page, problems } = await stage.open(`#/${ns}/unit/parse/u00000`);
    await page.getByRole("progressbar", { name: "Progress" }).waitFor();
    expect(await page.locator(".progress").innerText()).toMatch(/40 %\s*page <b>4<\/b> of 10/);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await dialog(page).getByLabel("Reason").fill("wrong file");
    await dialog(page).getByRole("button", { name: "Cancel 1 unit of parse" }).click();
    const unit = async () => (await client.getWorkUnits(ns, "parse", ["u00000"]))[0]!;
    await expect.poll(async () => (await unit()).reason).toBe("cancelled");
    expect(decodeData((await unit()).data!).traceback).toContain("wrong file");
    await page.getByRole("region", { name: "Error" }).getByText("wrong file").waitFor();
    expect(problems).toEqual([]);
  });

  test("empties a queue and releases a lock", { timeout }, async () => {
    const { client } = stage;
    await client.setWorkSpecs(ns, [{ data: encodeData({ name: "parse" }) }]);
    await client.addWorkUnits(ns, "parse", [{ name: "a", queues: ["done"] }]);
    const [attempt] = await client.requestAttempts(ns, { worker: "w" });
    await client.settleAttempts(ns, [{ attempt: attempt!.id, action: "finish" }]);
    const { page } = await stage.open(`#/${ns}/queues`);
    await page.getByRole("row", { name: /done/ }).getByRole("button", { name: "Empty…" }).click();
    await dialog(page).getByRole("button", { name: "Remove 1 message from done" }).click();
    await expect.poll(() => client.countMessages(ns, ["done"])).toEqual([0]);
    await client.lock(ns, { owner: "anna", paths: [["shard", "3"]] });
    await page.goto(`${stage.url}/#/${ns}/locks`);
    await page.getByRole("textbox", { name: "Path of a lock" }).fill("shard/3");
    await page.getByRole("button", { name: "Look up" }).click();
    await page.getByRole("row", { name: /anna/ }).waitFor();
    await page.getByRole("button", { name: "Release it and all below…" }).click();
    await dialog(page).getByRole("button", { name: "Release shard/3 and all below" }).click();
    await expect.poll(() => client.readLocks(ns, [["shard", "3"]])).toEqual([null]);
  });

  test("sorts by the column that is clicked, while the pointer is over the table", { timeout }, async () => {
    const { client } = stage;
    await client.setWorkSpecs(
      ns,
      ["a", "b", "c"].map((name) => ({ data: encodeData({ name }) })),
    );
    for (const [spec, number] of [
      ["a", 1],
      ["b", 3],
      ["c", 2],
    ] as const)
      await client.addWorkUnits(
        ns,
        spec,
        Array.from({ length: number }, (_, i) => ({ name: `u${i}`, notBefore: Date.now() + 3_600_000 })),
      );
    const { page } = await stage.open(`#/${ns}?sort=name`);
    const table = page.getByRole("region", { name: "Work specs" });
    const names = async (): Promise<string> =>
      (await table.locator("tbody tr td:first-child").allInnerTexts()).join(" ");
    await expect.poll(names).toMatch(/^a\W+b\W+c/);
    await table.getByRole("link", { name: "Delayed" }).click();
    await expect.poll(names, { timeout: 3000 }).toMatch(/^b\W+c\W+a/);
  });

  test(
    "the palette pauses a work spec, says so where it can be undone, and says what failed",
    { timeout },
    async () => {
      await fill();
      const { page } = await stage.open(`#/${ns}`);
      const choose = async (): Promise<void> => {
        await page.keyboard.press("Control+k");
        await dialog(page).getByRole("combobox").fill("pause parse");
        await page.keyboard.press("Enter");
      };
      await page.getByRole("region", { name: "Work specs" }).waitFor();
      await choose();
      await expect.poll(async () => (await meta()).paused).toBe(true);
      await page.getByRole("button", { name: "Undo" }).click();
      await expect.poll(async () => (await meta()).paused).toBe(false);
      await page.route("**/set-work-spec-meta", (route) => route.fulfill({ status: 500, body: "{}" }));
      await expect
        .poll(async () => (await page.getByRole("button", { name: "Undo" }).count()) === 0)
        .toBe(true);
      await choose();
      await page.getByRole("alert").waitFor();
      expect((await meta()).paused).toBe(false);
    },
  );

  test(
    "resuming a work spec that its breaker holds cannot be undone by pausing it",
    { timeout },
    async () => {
      const { client } = stage;
      await client.setWorkSpecs(ns, [
        { data: encodeData({ name: "parse", breaker: { failures: 0.5, min: 2, pause: 3600 } }) },
      ]);
      await client.addWorkUnits(ns, "parse", [{ name: "a" }, { name: "b" }, { name: "c" }]);
      const attempts = await client.requestAttempts(ns, { worker: "w", number: 2 });
      await client.settleAttempts(
        ns,
        attempts.map(({ id }) => ({ attempt: id, action: "fail" })),
      );
      const { page } = await stage.open(`#/${ns}/spec/parse`);
      await page.getByRole("button", { name: "Resume", exact: true }).click();
      await page.getByText("parse resumed").waitFor();
      expect(await page.getByRole("button", { name: "Undo" }).count()).toBe(0);
      expect((await meta()).paused).toBe(false);
    },
  );

  test("shows the newest jobs when there are more than it reads", { timeout }, async () => {
    const { client } = stage;
    await client.setWorkSpecs(ns, [{ data: encodeData({ name: "jobs", runtime: "jobs" }) }]);
    const now = Date.now();
    const id = (i: number): string => {
      const hex = (now - (1200 - i) * 20_000).toString(16).padStart(12, "0");
      return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${String(i).padStart(12, "0")}`;
    };
    const units = Array.from({ length: 1200 }, (_, i) => ({
      name: id(i),
      data: encodeData({ job: `number ${i}`, action: "x" }),
    }));
    await client.addWorkUnits(ns, "jobs", units);
    const { page } = await stage.open(`#/${ns}/jobs`);
    const rows = page.getByRole("region", { name: "Jobs" }).locator("tbody tr");
    await expect.poll(() => rows.first().innerText()).toContain("number 1199");
    expect(await rows.count()).toBeGreaterThanOrEqual(250);
  });

  test("a namespace may be named all", { timeout }, async () => {
    const { client } = stage;
    const name = "all";
    await client.setWorkSpecs(name, [{ data: encodeData({ name }) }]);
    await client.addWorkUnits(name, name, [{ name: "a" }]);
    await client.updateWorkers(name, [{ name: "box", active: true, mode: "run" }]);
    const { page, problems } = await stage.open(`#/${name}`);
    for (const where of ["", "/workers", `/spec/${name}`, "/workers"]) {
      await page.goto(`${stage.url}/#/${name}${where}`);
      await page.locator("main h1").first().waitFor({ state: "attached" });
      await page.waitForTimeout(300);
      expect(await page.locator("main").innerText()).not.toContain("could not be displayed");
    }
    expect(problems).toEqual([]);
  });

  test(
    "a namespace without units shows its work specs if one of them has a schedule",
    { timeout },
    async () => {
      const { client } = stage;
      await client.setWorkSpecs(ns, [
        { data: encodeData({ name: "nightly", schedule: { cron: "0 3 29 2 *" } }) },
      ]);
      const { page } = await stage.open(`#/${ns}`);
      await page.getByRole("region", { name: "Work specs" }).getByText("nightly").waitFor();
    },
  );

  test("an empty namespace shows the steps, and checks each off when it is done", { timeout }, async () => {
    const { client } = stage;
    const { page, problems } = await stage.open(`#/${ns}`);
    await page.getByText("Define the work").waitFor();
    expect(await page.locator(".start li.now").innerText()).toContain("Define the work");
    await page.getByRole("button", { name: "create one here, named hello" }).click();
    await expect.poll(async () => (await client.getWorkSpecs(ns, ["hello"]))[0]?.name).toBe("hello");
    await expect.poll(() => page.locator(".start li.now").innerText()).toContain("Add work");
    await client.addWorkUnits(ns, "hello", [{ name: "a" }]);
    await page.getByRole("region", { name: "Work specs" }).waitFor();
    expect(problems).toEqual([]);
  });

  test("the commands of an empty namespace run as they are", { timeout }, async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "coordinate-start-"));
    const program = path.join(folder, "coordinate");
    writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${executable("coordinate")}' "$@"\n`, {
      mode: 0o755,
    });
    const { page } = await stage.open(`#/${ns}`);
    await page.getByText("Define the work").waitFor();
    const commands = (await page.locator(".start .cmd code").allInnerTexts()).map((one) =>
      one.replace(/^\$ /, ""),
    );
    // the last one is a worker, which runs until it is stopped
    const shell = spawn("sh", ["-c", `set -e\n${commands.join("\n")}`], {
      cwd: folder,
      env: { PATH: `${folder}:${process.env.PATH ?? ""}`, HOME: folder },
      detached: true,
      stdio: ["ignore", "inherit", "inherit"],
    });
    const ended = once(shell, "exit");
    try {
      await expect
        .poll(async () => (await stage.client.tally(ns))[0]?.counts.finished, { timeout: 60_000 })
        .toBe(100);
    } finally {
      if (shell.exitCode === null) process.kill(-shell.pid!, "SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("says at once that no worker claims units, and why", { timeout }, async () => {
    await fill(3);
    const { client } = stage;
    await client.updateWorkers(ns, [
      {
        name: "w",
        active: true,
        mode: "run",
        data: encodeData({ asks: [{ runtimes: [""], tasks: ["mail"] }] }),
      },
    ]);
    const { page } = await stage.open(`#/${ns}`);
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText("It runs the task parse. The active worker does not have it.").waitFor();
    // the time goes on although nothing happens
    const age = attention.getByText(/^waiting, /);
    const first = await age.innerText();
    await expect.poll(() => age.innerText()).not.toBe(first);
    await client.setNamespace(ns, { desired: "idle" });
    await attention.getByText("The active worker was asked to drain or stop").waitFor();
    await attention.getByRole("button", { name: "View workers" }).click();
    await page.getByText("All workers of this namespace are asked to").waitFor();
  });

  test("says what holds a healthy work spec back, and a cause only once", { timeout }, async () => {
    const { client } = stage;
    await client.setWorkSpecs(ns, [
      { data: encodeData({ name: "full", max_running: 2 }) },
      { data: encodeData({ name: "held", breaker: { failures: 0.5, min: 2, pause: 3600 } }) },
    ]);
    for (const spec of ["full", "held"])
      await client.addWorkUnits(ns, spec, [{ name: "a" }, { name: "b" }, { name: "c" }]);
    await client.requestAttempts(ns, { worker: "w", number: 2, workSpecs: ["full"] });
    const attempts = await client.requestAttempts(ns, { worker: "w", number: 2, workSpecs: ["held"] });
    await client.settleAttempts(
      ns,
      attempts.map(({ id }) => ({
        attempt: id,
        action: "fail" as const,
        data: encodeData({ traceback: "Error: gone" }),
      })),
    );
    await client.updateWorkers(ns, [{ name: "w", active: true, mode: "run" }]);
    const { page } = await stage.open(`#/${ns}`);
    const row = page.getByRole("region", { name: "Work specs" }).getByRole("row", { name: /full/ });
    await row.getByText("at its max_running").waitFor();
    // the units run for longer than rates are measured: that is not "never"
    await page.waitForTimeout(8000);
    expect(await row.innerText()).not.toContain("never");
    await page.goto(`${stage.url}/#/${ns}/spec/held`);
    const state = page.getByRole("region", { name: "Current state" });
    await state.getByText("Not scheduled now.").waitFor();
    expect((await state.innerText()).split("Error: gone")).toHaveLength(2);
  });

  test("what was clicked stays in place while Undo is offered, also by a key", { timeout }, async () => {
    await fill();
    const { page, problems } = await stage.open(`#/${ns}/spec/parse`);
    const pause = page.getByRole("button", { name: "Pause", exact: true });
    await pause.waitFor();
    const before = await pause.boundingBox();
    await pause.click();
    await page.getByRole("button", { name: "Undo" }).waitFor();
    expect(await page.getByRole("button", { name: "Resume", exact: true }).boundingBox()).toMatchObject({
      y: before!.y,
    });
    await expect.poll(async () => (await meta()).paused).toBe(true);
    await page.keyboard.press("u");
    await expect.poll(async () => (await meta()).paused).toBe(false);
    // an error is shown where the user looks, until it is dismissed
    await page.route("**/v1/**", (route) =>
      route.request().method() === "POST" && route.request().url().includes("set-work-spec-meta")
        ? route.fulfill({ status: 403, json: { code: "forbidden", message: "Not allowed" } })
        : route.continue(),
    );
    await pause.click();
    await page.locator(".undo").getByRole("alert").waitFor();
    expect((await pause.boundingBox())!.y).toBe(before!.y);
    await page.getByRole("button", { name: "Dismiss" }).click();
    await expect.poll(() => page.getByRole("alert").count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test("lists locks, and Back shows the path that was looked up before", { timeout }, async () => {
    const { client } = stage;
    const { page } = await stage.open(`#/${ns}/locks`);
    await page.getByText("Nothing is locked").waitFor();
    const command = await page.locator(".cmd code").innerText();
    expect(command).toBe(`$ coordinate --address ${stage.url} --namespace ${ns} lock take shard/3 --for 10m`);
    await client.lock(ns, { owner: "anna", paths: [["shard", "3"], ["report"]], timeoutMs: 600_000 });
    await client.lock(ns, { owner: "bert", paths: [["shard", "4"]], timeoutMs: 600_000 });
    const locks = page.getByRole("region", { name: "Locks" });
    await expect.poll(() => locks.getByRole("row").count()).toBe(4);
    await expect
      .poll(() => locks.getByRole("row", { name: "shard / 3" }).innerText())
      .toMatch(/anna\s+in 9 m/);
    const search = page.getByRole("textbox", { name: "Path of a lock" });
    await search.fill("shard");
    await search.press("Enter");
    await expect.poll(() => locks.getByRole("row").count()).toBe(3);
    // a path is locked by a lock above it
    await page.getByRole("textbox", { name: "Path of a lock" }).fill("report/march");
    await page.getByRole("button", { name: "Look up" }).click();
    await expect.poll(() => locks.getByRole("row", { name: /report/ }).innerText()).toContain("anna");
    await page.goBack();
    await expect.poll(() => search.inputValue()).toBe("shard");
  });

  test("a name with characters that nobody can type is confirmed as it is shown", { timeout }, async () => {
    const { client } = stage;
    const name = "in\u202evoices\n";
    await client.setWorkSpecs(ns, [{ data: encodeData({ name }) }]);
    for (let at = 0; at < 1001; at += 500)
      await client.addWorkUnits(
        ns,
        name,
        Array.from({ length: 501 }, (_, i) => ({ name: `u${at + i}` })),
      );
    const { page } = await stage.open(`#/${ns}/spec/${nameToUrl(name)}`);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete the work spec…" }).click();
    const shown = await dialog(page).locator("label code").innerText();
    expect(shown).toBe("in\\u202evoices\\u000a");
    await dialog(page).getByRole("textbox").fill(shown);
    await dialog(page)
      .getByRole("button", { name: /^Delete / })
      .last()
      .click();
    await expect.poll(async () => (await client.listWorkSpecs(ns)).rows.length).toBe(0);
  });

  test("commands are for this daemon and the namespace of the page", { timeout }, async () => {
    const { page } = await stage.open(`#/${nameToUrl("o'neil & co")}/flow`);
    const shown = page.locator(".cmd code").first();
    const own = `coordinate --address ${stage.url} --namespace 'o'\\''neil & co'`;
    await expect.poll(() => shown.innerText()).toBe(`$ ${own} flow flow.yaml`);
    for (const name of ["queues", "batches"]) {
      await page.goto(`${stage.url}/#/${nameToUrl("o'neil & co")}/${name}`);
      await expect
        .poll(() => shown.innerText())
        .toContain(`${stage.url}/v1/namespace/${nameToUrl("o'neil & co")}/add-work-units`);
    }
  });
});
