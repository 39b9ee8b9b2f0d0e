/** The page in a real browser, with names that try to be markup. Left out where there is no Chromium. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { expect, test } from "vitest";
import { encodeData } from "../../src/core/index.ts";
import { configOf, createToken, startDaemon } from "../../src/daemon/index.ts";
import { RestClient } from "../../src/rest/index.ts";

const browserPath = [
  process.env.CHROMIUM_PATH,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((file) => file !== undefined && existsSync(file));

const hostile = [
  "<img src=x onerror=alert(1)>",
  "<script>window.owned=1</script>",
  '"><svg onload=window.owned=1>',
  "{{7*7}}",
  "javascript:alert(1)",
  "a\u202eb\u0000c",
];

// it needs a browser, which a fresh machine may not have; CI installs one
test.skipIf(browserPath === undefined)(
  "shows names as text, and asks for a token",
  { timeout: 90_000 },
  async () => {
    const dataDir = mkdtempSync(path.join(tmpdir(), "page-"));
    const { token } = createToken(path.join(dataDir, "tokens.json"), {
      name: "page",
      grants: [{ namespace: "*", scopes: ["admin"] }],
    });
    const daemon = await startDaemon(
      configOf({ backend: "memory:", dataDir, http: ["127.0.0.1:0"], logLevel: "silent" }),
    );
    const url = daemon.urls[0]!;
    const client = new RestClient(url, { token });
    for (const ns of ["demo", hostile[0]!]) {
      await client.setWorkSpecs(ns, [
        ...hostile.map((name) => ({ data: encodeData({ name, runtime: name }) })),
        { data: encodeData({ name: "fetch", weight: 20, then: "parse" }) },
        { data: encodeData({ name: "parse", weight: 10 }) },
        { data: encodeData({ name: "nightly", continuous: true, interval: 86_400, disabled: true }) },
      ]);
      for (const name of [...hostile, "fetch"]) {
        await client.addWorkUnits(
          ns,
          name,
          Array.from({ length: 40 }, (_, i) => ({ name: `${name} ${i}` })),
        );
      }
      await client.updateWorkers(
        ns,
        [...hostile, "worker-1"].map((name) => ({ name, active: true, mode: name })),
      );
      const attempts = await client.requestAttempts(ns, {
        worker: "worker-1",
        number: 25,
        workSpecs: ["fetch"],
      });
      await client.settleAttempts(
        ns,
        attempts.slice(0, 20).map(({ id }, i) => ({ attempt: id, action: i % 5 === 0 ? "fail" : "finish" })),
      );
    }

    const browser = await chromium.launch({ executablePath: browserPath!, args: ["--no-sandbox"] });
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      const problems: string[] = [];
      page.on("dialog", (dialog) => void problems.push(`dialog ${dialog.message()}`));
      page.on("console", (message) => {
        if (/Content Security Policy|Trusted/.test(message.text())) problems.push(message.text());
      });
      page.on("pageerror", (error) => void problems.push(error.message));
      await page.goto(url);
      await page.locator("#login").waitFor({ state: "visible" });
      await page.locator("#token").fill(token);
      await page.locator("#login button").click();
      await page.locator("#specs tbody tr").first().waitFor();
      await page.selectOption("#namespace", JSON.stringify("demo"));
      await page.locator("#explain td", { hasText: "is paused" }).waitFor();
      expect(await page.locator("#specs tbody tr").count()).toBe(hostile.length + 3);
      expect(await page.locator("main script, main img, main svg").count()).toBe(0);
      expect(await page.evaluate("window.owned")).toBeUndefined();
      const shown = await page.locator("#specs").innerText();
      for (const name of hostile.slice(0, 5)) expect(shown).toContain(name);
      expect(shown).toContain("a\\u202eb\\u0000c");
      if (process.env.SCREENSHOTS !== undefined) {
        await client.addWorkUnits(
          "demo",
          "parse",
          Array.from({ length: 12_345 }, (_, i) => ({ name: `p${i}` })),
        );
        await page.waitForTimeout(2500);
        await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "page.png"), fullPage: true });
        await page.setViewportSize({ width: 390, height: 800 });
        await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "page-phone.png") });
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      await page.goto(`${url}/docs`);
      await page.locator("details").first().waitFor();
      expect(await page.locator("details").count()).toBeGreaterThan(80);
      await page
        .locator("details", { hasText: "/v1/namespace/{namespace}/request-attempts" })
        .locator("summary")
        .click();
      if (process.env.SCREENSHOTS !== undefined)
        await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "docs.png") });
      expect(problems).toEqual([]);
    } finally {
      await browser.close();
      await client.close();
      await daemon.stop();
    }
  },
);
