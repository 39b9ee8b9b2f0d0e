/**
 * Makes the pictures of the documentation: `npm run screenshots`. It starts a daemon with a busy namespace and a month of records, and
 * takes every page of the dashboard in light and dark and on a phone, and an animation of a load that is worked off. With names as
 * arguments, only the pictures whose names contain one of them. Pictures that the documentation shows go to docs/images, the others to
 * docs/images/gallery.
 */
import path from "node:path";
import { mkdirSync, writeFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { encodeData, type AttemptRow } from "../../src/core/index.ts";
import { createToken } from "../../src/daemon/index.ts";
import { nameToUrl } from "../../src/rest/client.ts";
import { RestClient, type Scope } from "../../src/rest/index.ts";
import { animate } from "./animation.ts";
import { browserPath, openStage, type Stage } from "./browser.ts";
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
  /** The selector of an element that must be present before the picture is taken. */
  until: string;
  act?: (page: Page) => Promise<void>;
}

const drawn = "main :is(.card, .start)";
const line = "[aria-label='Over time'] path.ln";
const unit = encodeURIComponent(unitName(0));

/** Every page in light mode, the main pages in dark mode and on a phone, and an empty namespace. */
const pictures: readonly Picture[] = [
  { name: "home", hash: `#/${ns}?range=1h`, until: line, height: 1000 },
  { name: "home-dark", hash: `#/${ns}?range=24h`, until: line, dark: true, height: 1000 },
  { name: "home-1024", hash: `#/${ns}?range=1h`, until: line, width: 1024, height: 1000 },
  { name: "home-empty", hash: "#/fresh", until: ".start" },
  { name: "month", hash: `#/${ns}?range=30d`, until: line, height: 1000 },
  { name: "flow", hash: `#/${ns}/flow`, until: ".react-flow__node" },
  { name: "flow-dark", hash: `#/${ns}/flow`, until: ".react-flow__node", dark: true },
  { name: "spec", hash: `#/${ns}/spec/parse?range=1h`, until: line, dark: true, height: 1300 },
  { name: "spec-light", hash: `#/${ns}/spec/index?range=6h`, until: line, height: 1300 },
  { name: "spec-1024", hash: `#/${ns}/spec/parse?range=1h`, until: line, width: 1024, height: 1300 },
  { name: "partitions", hash: `#/${ns}/spec/crawl?range=1h`, until: ".parts [data-row]", height: 1100 },
  {
    name: "partitions-dark",
    hash: `#/${ns}/spec/crawl?range=1h`,
    until: ".parts [data-row]",
    height: 1100,
    dark: true,
  },
  {
    name: "phone-partitions",
    hash: `#/${ns}/spec/crawl?range=1h`,
    until: ".parts [data-row]",
    width: 390,
    height: 1600,
  },
  {
    name: "units",
    hash: `#/${ns}/units/parse?status=failed`,
    until: "[data-row]",
    act: async (page) => {
      await page.getByRole("checkbox", { name: "Select all on the screen" }).check();
      const all = page.getByRole("button", { name: /^Select all .* matching units$/ });
      if ((await all.count()) > 0) await all.click();
      await page.getByRole("button", { name: "Retry…" }).click();
      await page.locator("dialog[open]").waitFor();
    },
  },
  { name: "units-dark", hash: `#/${ns}/units/parse`, until: "[data-row]", dark: true },
  { name: "units-worker", hash: `#/${ns}/units?worker=${nameToUrl("fra-1/2")}`, until: "[data-row]" },
  { name: "unit", hash: `#/${ns}/unit/parse/${unit}`, until: "h1", height: 1000 },
  { name: "unit-dark", hash: `#/${ns}/unit/parse/${unit}`, until: "h1", height: 1000, dark: true },
  { name: "jobs", hash: `#/${ns}/jobs`, until: "[data-row]", height: 500 },
  { name: "schedules", hash: `#/${ns}/schedules`, until: "[data-row]", height: 500 },
  {
    name: "batches",
    hash: `#/${ns}/batches?batch=${nameToUrl("backfill 2024 Q2")}`,
    until: "[data-row]",
    height: 500,
  },
  { name: "batches-empty", hash: "#/fresh/batches", until: drawn, height: 500 },
  { name: "limits", hash: `#/${ns}/limits`, until: "[data-row]", height: 500 },
  { name: "limits-dark", hash: `#/${ns}/limits`, until: "[data-row]", height: 500, dark: true },
  { name: "limits-empty", hash: "#/fresh/limits", until: drawn, height: 500 },
  { name: "phone-limits", hash: `#/${ns}/limits`, until: "[data-row]", width: 390, height: 844 },
  { name: "queues", hash: `#/${ns}/queues`, until: drawn, height: 500 },
  { name: "locks", hash: `#/${ns}/locks?path=${nameToUrl("shard/3")}`, until: drawn, height: 500 },
  { name: "workers", hash: `#/${ns}/workers`, until: "[data-row]", height: 1000 },
  { name: "workers-dark", hash: `#/${ns}/workers`, until: "[data-row]", height: 1000, dark: true },
  {
    name: "what-if",
    hash: `#/${ns}/what-if?range=6h&plan=${nameToUrl('{"slots":{"node":12,"python":60},"weights":{"index":80}}')}`,
    until: "[data-row]",
  },
  { name: "system", hash: `#/${ns}/system`, until: "h1, h2" },
  { name: "phone", hash: `#/${ns}?range=1h`, until: line, width: 390, height: 844 },
  {
    name: "phone-spec",
    hash: `#/${ns}/spec/parse?range=1h`,
    until: line,
    width: 390,
    height: 1600,
    dark: true,
  },
  {
    name: "phone-units",
    hash: `#/${ns}/units/parse?status=failed`,
    until: "[data-row]",
    width: 390,
    height: 844,
  },
  { name: "phone-unit", hash: `#/${ns}/unit/parse/${unit}`, until: "h1", width: 390, height: 1200 },
  { name: "phone-workers", hash: `#/${ns}/workers`, until: "[data-row]", width: 390, height: 844 },
  { name: "phone-batches", hash: `#/${ns}/batches`, until: "[data-row]", width: 390, height: 844 },
];

/** Pages of a daemon with tokens, as an administrator sees them. */
const ofAdmins: readonly Picture[] = [
  { name: "tokens", hash: `#/${ns}/tokens`, until: "[data-row]", height: 700 },
  { name: "tokens-dark", hash: `#/${ns}/tokens`, until: "[data-row]", height: 700, dark: true },
  { name: "audit", hash: `#/${ns}/audit`, until: "[data-row]", height: 700 },
  { name: "audit-dark", hash: `#/${ns}/audit`, until: "[data-row]", height: 700, dark: true },
  { name: "phone-tokens", hash: `#/${ns}/tokens`, until: "[data-row]", width: 390, height: 844 },
  { name: "phone-audit", hash: `#/${ns}/audit`, until: "[data-row]", width: 390, height: 844 },
];

/** The pictures that the documentation shows. */
const inText = [
  "home",
  "flow",
  "spec",
  "partitions",
  "units",
  "unit",
  "batches",
  "what-if",
  "workers",
  "phone",
  "audit",
];

/** The animation: pictures of one page, five seconds apart, while workers process a load. */
async function drain(stage: Stage): Promise<void> {
  const { coordinate } = stage.daemon;
  const load = "photos";
  await coordinate.setWorkSpecs(load, [
    { data: encodeData({ name: "resize", then: "publish", weight: 20 }) },
    { data: encodeData({ name: "publish", weight: 20 }) },
  ]);
  await coordinate.updateWorkers(load, [{ name: "box", active: true, mode: "run" }]);
  const { page } = await stage.open(`#/${load}?range=5m`, { viewport: { width: 1120, height: 620 } });
  const units = 6000;
  for (let at = 0; at < units; at += 2000)
    await coordinate.addWorkUnits(
      load,
      "resize",
      Array.from({ length: 2000 }, (_, i) => ({ name: `photo ${at + i}` })),
    );
  // a line at zero has no height, so it does not count as visible
  await page.locator(line).first().waitFor({ state: "attached", timeout: 60_000 });
  const frames: Buffer[] = [];
  const looks = 12;
  const started = Date.now();
  let ended = 0;
  for (let frame = 0; frame <= looks; frame++) {
    // the number of units done by this frame, on any machine: each photo is resized and then published
    const due = (2 * units * frame) / looks;
    while (ended < due || Date.now() < started + frame * 5000) {
      const attempts =
        ended < due ? await coordinate.requestAttempts(load, { worker: "box", number: 100 }) : [];
      await new Promise((resolve) => setTimeout(resolve, 20));
      await coordinate.settleAttempts(
        load,
        attempts.map(({ id, workSpec, workUnit }) => ({
          attempt: id,
          action: "finish" as const,
          ...(workSpec === "resize" && { data: encodeData({ output: { [workUnit]: {} } }) }),
        })),
      );
      ended += attempts.length;
    }
    frames.push(await page.screenshot());
  }
  writeFileSync(path.join(to, "dashboard-drain.png"), animate(frames, 500, 2500));
  await stage.closePages();
  console.log("drain");
}

const wanted = process.argv.slice(2);
const isWanted = ({ name }: Picture): boolean =>
  wanted.length === 0 || wanted.some((one) => name.includes(one));

async function take(stage: Stage, picture: Picture, token?: string): Promise<void> {
  const { name, hash, width = 1440, height = 900, dark, until, act } = picture;
  const { page, problems } = await stage.open(hash, {
    viewport: { width, height },
    colorScheme: dark === true ? "dark" : "light",
    ...(width < 500 && { isMobile: true, hasTouch: true, deviceScaleFactor: 2 }),
  });
  if (token !== undefined) {
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.mouse.move(0, 0);
  }
  await page.locator(until).first().waitFor({ state: "attached", timeout: 60_000 });
  // wait for several updates, so that the page shows rates
  await page.waitForTimeout(5000);
  await act?.(page);
  const folder = inText.includes(name) ? to : path.join(to, "gallery");
  await page.screenshot({ path: path.join(folder, `dashboard-${name}.png`) });
  await stage.closePages();
  console.log(name, problems.length === 0 ? "" : problems);
}

/** Takes the pictures of tokens and of the audit log: tokens of several scopes, their actions, and refused requests. */
async function takeOfAdmins(): Promise<void> {
  const made: Record<string, string> = {};
  const stage = await openStage((dataDir) => {
    const day = 86_400_000;
    const now = Date.now();
    const make = (name: string, namespace: string, scope: Scope, madeDaysAgo: number, expires = 0): void => {
      const given = { name, grants: [{ namespace, scopes: [scope] }], expires };
      made[name] = createToken(path.join(dataDir, "tokens.json"), given, now - madeDaysAgo * day).token;
    };
    make("Ada", "*", "admin", 210);
    make("crawler", ns, "write", 209);
    make("workers fra-1", ns, "work", 41, now + 49 * day);
    make("grafana", "*", "read", 12);
    make("contractor", ns, "write", 9, now - 2 * day);
    return made.Ada!;
  });
  const as = (name: string): RestClient => new RestClient(stage.url, { token: made[name]!, retries: 0 });
  const refused = (asked: Promise<unknown>): Promise<unknown> => asked.catch(() => undefined);
  try {
    await stage.client.setWorkSpecs(
      ns,
      ["fetch", "parse", "index"].map((name) => ({ data: encodeData({ name }) })),
    );
    const crawler = as("crawler");
    for (let batch = 0; batch < 6; batch++)
      await crawler.addWorkUnits(
        ns,
        "fetch",
        Array.from({ length: 50 }, (_, i) => ({ name: unitName(batch * 50 + i) })),
      );
    await refused(as("contractor").deleteWorkUnits(ns, "fetch", { all: true }));
    await refused(as("grafana").setWorkSpecMeta(ns, "fetch", { paused: true }));
    await stage.client.setWorkSpecMeta(ns, "fetch", { paused: true });
    await crawler.setWorkUnitPriorities(ns, "fetch", { names: [unitName(0)] }, { set: 10 });
    await stage.client.setWorkSpecMeta(ns, "fetch", { paused: false, weight: 40 });
    await refused(as("workers fra-1").deleteNamespace(ns));
    await crawler.deleteWorkUnits(ns, "fetch", { names: [unitName(1)] });
    for (const picture of ofAdmins.filter(isWanted)) await take(stage, picture, made.Ada);
  } finally {
    await stage.close();
  }
}

if (browserPath === undefined) throw new Error("there is no Chromium: install it, or set CHROMIUM_PATH");
mkdirSync(path.join(to, "gallery"), { recursive: true });
if (ofAdmins.some(isWanted)) await takeOfAdmins();
if (wanted.length === 0 || wanted.includes("drain") || pictures.some(isWanted)) await takeAll();

/** Partitions of a crawler, one per site: some are at their limit, some have just started a unit, most wait for their turn. */
async function fillPartitions(client: RestClient): Promise<void> {
  await client.setWorkSpecs(ns, [
    {
      data: encodeData({
        name: "crawl",
        runtime: "node",
        desc: "Reads the pages of investors' sites, politely.",
        fair: "partition",
        max_running_per_partition: 2,
        rate_per_partition: { limit: 1, period: 240, burst: 3 },
      }),
    },
  ]);
  const sites = (names: string): Promise<unknown> =>
    client.addWorkUnits(
      ns,
      "crawl",
      names.split(" ").flatMap((site, i) =>
        Array.from({ length: 3 + ((i * 37) % 90) + (site === "eon" ? 2000 : 0) }, (_, page) => ({
          name: `https://ir.${site}.example/reports/${String(page + 1).padStart(4, "0")}`,
          partition: `ir.${site}.example`,
        })),
      ),
    );
  const claim = (): Promise<AttemptRow[]> =>
    client.requestAttempts(ns, { worker: "ams-1/4", number: 99, workSpecs: ["crawl"], lifetimeMs: 900_000 });
  await sites("acme crux delta eon fjord helix juno kite lumen");
  const running = await claim();
  const ends = running.filter(({ workUnit }) => /acme|delta|fjord|kite/.test(workUnit));
  await client.settleAttempts(
    ns,
    ends.map(({ id }) => ({ attempt: id, action: "finish" as const })),
  );
  await claim();
  await sites("bolt grid iona mono nova onyx prism quill rune sable terra umbra vega");
}

async function takeAll(): Promise<void> {
  const stage = await openStage((dataDir) =>
    fillPast(path.join(dataDir, "coordinate.sqlite"), ns, Date.now()),
  );
  const ends = new AbortController();
  let flowing: Promise<void> | undefined;
  try {
    await stage.client.setWorkSpecs(ns, [{ data: encodeData({ name: "mail", runtime: "jobs" }) }]);
    await stage.client.addWorkUnits(
      ns,
      "mail",
      Array.from({ length: 8 }, (_, i) => ({
        name: `${Date.now()
          .toString(16)
          .padStart(12, "0")
          .replace(/^(.{8})/, "$1-")}-7000-8000-00000000000${i}`,
        data: encodeData({ job: `newsletter ${i + 1}`, action: "0d1f7c", category: "mail" }),
      })),
    );
    await fillPartitions(stage.client);
    await stage.client.lock(ns, { owner: "ams-1/2", paths: [["shard", "3"]] });
    if (wanted.length === 0 || wanted.includes("drain")) await drain(stage);
    flowing = flowScene(stage.client, ns, ends.signal);
    const inOrder = pictures
      .filter(isWanted)
      .sort((a, b) => Number(inText.includes(b.name)) - Number(inText.includes(a.name)));
    for (const picture of inOrder) await take(stage, picture);
  } finally {
    ends.abort();
    await flowing?.catch(() => undefined);
    await stage.close();
  }
}
