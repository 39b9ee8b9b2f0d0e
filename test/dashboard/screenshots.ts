/**
 * Makes the pictures of the documentation: `npm run screenshots`. A daemon with a busy namespace and a month of records, and every
 * page of the dashboard, light, dark and on a phone. With names, only the pictures whose names contain one of them.
 */
import path from "node:path";
import { mkdirSync } from "node:fs";
import type { Page } from "playwright-core";
import { nameToUrl } from "../../src/rest/client.ts";
import { browserPath, openStage } from "./browser.ts";
import { fillPast } from "./past.ts";
import { flowScene, unitName } from "./scene.ts";

const ns = "filings";
const to = process.env.PICTURES ?? path.resolve(import.meta.dirname, "../../docs/images");

interface Picture {
  name: string;
  hash: string;
  width?: number;
  height?: number;
  dark?: true;
  /** What must be there before the picture is taken. */
  until: string;
  act?: (page: Page) => Promise<void>;
}

const pictures: readonly Picture[] = [
  { name: "home", hash: `#/${ns}?range=1h`, until: "[aria-label='Over time'] path.ln", height: 1000 },
  {
    name: "home-dark",
    hash: `#/${ns}?range=24h`,
    until: "[aria-label='Over time'] path.ln",
    dark: true,
    height: 1000,
  },
  { name: "month", hash: `#/${ns}?range=30d`, until: "[aria-label='Over time'] path.ln", height: 1000 },
  { name: "flow", hash: `#/${ns}/flow`, until: ".react-flow__node" },
  {
    name: "spec",
    hash: `#/${ns}/spec/parse?range=1h`,
    until: "[aria-label='Over time'] path.ln",
    dark: true,
    height: 1300,
  },
  {
    name: "spec-light",
    hash: `#/${ns}/spec/index?range=6h`,
    until: "[aria-label='Over time'] path.ln",
    height: 1300,
  },
  { name: "units", hash: `#/${ns}/units/parse?status=failed`, until: "[data-row]" },
  { name: "unit", hash: `#/${ns}/unit/parse/${encodeURIComponent(unitName(0))}`, until: "h1", height: 1000 },
  { name: "schedules", hash: `#/${ns}/schedules`, until: "[data-row]", height: 500 },
  {
    name: "batches",
    hash: `#/${ns}/batches?batch=${nameToUrl("backfill 2024 Q2")}`,
    until: "[data-row]",
    height: 500,
  },
  { name: "workers", hash: `#/${ns}/workers`, until: "[data-row]", height: 1000 },
  { name: "system", hash: `#/${ns}/system`, until: "h1, h2" },
  {
    name: "phone",
    hash: `#/${ns}?range=1h`,
    until: "[aria-label='Over time'] path.ln",
    width: 390,
    height: 844,
  },
  {
    name: "phone-spec",
    hash: `#/${ns}/spec/parse?range=1h`,
    until: "[aria-label='Over time'] path.ln",
    width: 390,
    height: 1600,
    dark: true,
  },
];

if (browserPath === undefined) throw new Error("there is no Chromium: install it, or set CHROMIUM_PATH");
mkdirSync(to, { recursive: true });
const wanted = process.argv.slice(2);
const stage = await openStage((dataDir) => fillPast(path.join(dataDir, "coordinate.sqlite"), ns, Date.now()));
const ends = new AbortController();
let flowing: Promise<void> | undefined;
try {
  flowing = flowScene(stage.client, ns, ends.signal);
  for (const { name, hash, width = 1440, height = 900, dark, until, act } of pictures) {
    if (wanted.length > 0 && !wanted.some((one) => name.includes(one))) continue;
    const { page, problems } = await stage.open(hash, {
      viewport: { width, height },
      colorScheme: dark === true ? "dark" : "light",
      ...(width < 500 && { isMobile: true, hasTouch: true, deviceScaleFactor: 2 }),
    });
    await page.locator(until).first().waitFor({ timeout: 60_000 });
    // a few looks, so that there are rates
    await page.waitForTimeout(8000);
    await act?.(page);
    await page.screenshot({ path: path.join(to, `dashboard-${name}.png`) });
    await stage.closePages();
    console.log(name, problems.length === 0 ? "" : problems);
  }
} finally {
  ends.abort();
  await flowing?.catch(() => undefined);
  await stage.close();
}
