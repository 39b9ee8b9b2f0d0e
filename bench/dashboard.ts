/**
 * The dashboard over a large store: how fast pages load, whether they block, and what they cost the daemon while units are processed.
 *
 *   node --import ./examples/typescript.mjs bench/dashboard.ts fill DIRECTORY [units]     5,000,000 units in SQLite
 *   node --import ./examples/typescript.mjs bench/dashboard.ts measure DIRECTORY [seconds of a turn] [turns]
 *
 * `measure` runs the daemon as a separate process, adds, claims and finishes 200 units a second in four work specs, and opens the
 * pages in Chromium. The cost of the daemon is its processor time per finished unit, in alternating turns without a dashboard and with
 * three. The main-thread tasks are those of one page that is loaded and used while no other is open, in wall-clock time and in
 * processor time. With 0 turns, only these tasks are measured.
 */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { chromium, type Browser, type Page, type Request } from "playwright-core";
import { buildDashboard } from "../scripts/build-dashboard.mjs";
import { encodeData, Engine } from "../src/core/index.ts";
import { RestClient } from "../src/rest/index.ts";
import { openSqlite } from "../src/sqlite/index.ts";
import { cpuSeconds, median, sleep, sourceFlags, terminate } from "./machine.ts";

const ns = "filings";
const specs = ["fetch", "parse", "index", "archive"];
const perSecond = 200;
const unitName = (i: number): string => `s3://filings-in/2025/${String(i).padStart(8, "0")}.pdf`;

async function fill(directory: string, units: number): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const store = await openSqlite(path.join(directory, "coordinate.sqlite"), { durability: "off" });
  const engine = new Engine(store, {});
  await engine.setWorkSpecs(
    ns,
    specs.map((name) => ({ data: encodeData({ name }) })),
  );
  const started = Date.now();
  const batch = 5000;
  for (let at = 0; at < units; at += batch) {
    const spec = specs[(at / batch) % specs.length]!;
    await engine.addWorkUnits(
      ns,
      spec,
      Array.from({ length: Math.min(batch, units - at) }, (_, i) => ({
        name: unitName(at + i),
        data: encodeData({ bytes: at + i, lang: "en" }),
        // units added during the measurement are claimed first
        priority: -1,
      })),
    );
    // in every tenth batch all units have ended, a tenth of them failed
    if ((at / batch) % 10 !== 0) continue;
    const attempts = await engine.requestAttempts(ns, { worker: "w", number: 5000, workSpecs: [spec] });
    await engine.settleAttempts(
      ns,
      attempts.map(({ id }, i) =>
        i % 10 === 0
          ? { attempt: id, action: "fail", data: encodeData({ traceback: `Error: page ${i} is torn` }) }
          : { attempt: id, action: "finish" },
      ),
    );
  }
  await engine.sweep();
  await engine.close();
  console.log(`${units.toLocaleString("en-US")} units in ${Math.round((Date.now() - started) / 1000)} s`);
}

/** Adds, claims and finishes units at a steady rate until `stop`, and counts the finished ones. */
function flow(client: RestClient): { readonly done: () => number; stop: () => Promise<void> } {
  let finished = 0;
  const stopped = new AbortController();
  const running = (async () => {
    const started = Date.now();
    for (let sent = 0; !stopped.signal.aborted;) {
      const due = Math.floor(((Date.now() - started) / 1000) * perSecond);
      const number = Math.min(100, due - sent);
      if (number < 10) {
        await sleep(25);
        continue;
      }
      const spec = specs[Math.floor(sent / 20) % specs.length]!;
      await client.addWorkUnits(
        ns,
        spec,
        Array.from({ length: number }, (_, i) => ({
          name: `flow/${started}/${sent + i}`,
          data: encodeData({}),
          priority: 5,
        })),
      );
      const attempts = await client.requestAttempts(ns, { worker: "flow", number, workSpecs: [spec] });
      await client.settleAttempts(
        ns,
        attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
      );
      finished += attempts.length;
      sent += number;
    }
  })();
  return {
    done: () => finished,
    stop: async () => {
      stopped.abort();
      await running;
    },
  };
}

const longest = (tasks: readonly Task[], of: keyof Task): number =>
  Math.max(0, ...tasks.map((task) => task[of]));

const ms = (value: number): string => `${Math.round(value)} ms`;

/** Records every main-thread task of 50 ms or more, and when the counts of work specs are visible, by the page's clock. */
const watchPage = `window.blocked = [];
new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.blocked.push(duration); })
  .observe({ type: "longtask", buffered: true });
const look = () => {
  if (document.querySelector(".specs td.c-available a") === null) requestAnimationFrame(look);
  else window.shownAt = performance.now();
};
look();`;

/** Counts the requests of a page by verb or path. The returned function stops the counting. */
function countRequests(page: Page, asked: Map<string, { requests: number; bytes: number }>): () => void {
  const count = (request: Request): void => {
    const what = new URL(request.url()).pathname.replace(/^\/v1\/(namespace\/[^/]+\/)?/, "");
    const row = asked.get(what) ?? { requests: 0, bytes: 0 };
    asked.set(what, row);
    row.requests += 1;
    void request
      .sizes()
      .then(({ responseBodySize }) => (row.bytes += responseBodySize))
      // the page has been closed
      .catch(() => undefined);
  };
  page.on("requestfinished", count);
  return () => page.off("requestfinished", count);
}

async function open(browser: Browser, url: string, hash: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(watchPage);
  await page.goto(`${url}/${hash}`);
  return page;
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Wall-clock time (`dur`) and processor time (`tdur`), in microseconds. */
  readonly dur?: number;
  readonly tdur?: number;
  readonly args: { readonly name?: string; readonly data?: { readonly url?: string } };
}

/** In milliseconds. Wall time beyond processor time was spent waiting for a core that other processes used. */
interface Task {
  readonly wall: number;
  readonly processor: number;
}

/**
 * The main-thread tasks of a page while it loads, during the ten seconds after, and while `use` operates it. No other page is open:
 * pages that share two cores with the daemon wait for each other.
 */
async function tasksOf(browser: Browser, url: string, { hash, use }: Looked): Promise<Task[]> {
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  await browser.startTracing(page, { categories: ["devtools.timeline", "toplevel"] });
  await page.goto(`${url}/${hash}`);
  await sleep(10_000);
  await use(page);
  const { traceEvents: all } = JSON.parse(String(await browser.stopTracing())) as {
    traceEvents: TraceEvent[];
  };
  await page.context().close();
  // ignore the internal pages of Chromium
  const ours = new Set(all.filter(({ args }) => args.data?.url?.startsWith(url)).map(({ pid }) => pid));
  const mains = new Set(
    all
      .filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain")
      .map(({ tid }) => tid),
  );
  return all
    .filter(({ name, pid, tid }) => name.endsWith("RunTask") && ours.has(pid) && mains.has(tid))
    .map(({ dur = 0, tdur = 0 }) => ({ wall: dur / 1000, processor: tdur / 1000 }));
}

interface Looked {
  readonly hash: string;
  readonly use: (page: Page) => Promise<void>;
}

/** Shows longer time ranges, which have more records, then the shortest again. */
const useTimeLine = async (page: Page): Promise<void> => {
  for (const range of ["24 h", "30 d", "1 h"]) {
    await page.getByRole("link", { name: range, exact: true }).click();
    await sleep(2000);
  }
};

const looked: readonly Looked[] = [
  { hash: `#/${ns}`, use: useTimeLine },
  { hash: `#/${ns}/spec/parse`, use: useTimeLine },
  {
    hash: `#/${ns}/units/parse`,
    use: async (page) => {
      await page.mouse.move(700, 500);
      for (let i = 0; i < 40; i++) {
        await page.mouse.wheel(0, 1500);
        await sleep(50);
      }
      await sleep(2000);
    },
  },
];

async function tellTasks(browser: Browser, url: string): Promise<void> {
  for (const one of looked) {
    const tasks = await tasksOf(browser, url, one);
    console.log(
      `main thread of ${one.hash} alone: longest task ${ms(longest(tasks, "wall"))}, of processor time ` +
        `${ms(longest(tasks, "processor"))}; ${tasks.filter(({ wall }) => wall > 100).length} of ${tasks.length} over 100 ms`,
    );
  }
}

async function measure(directory: string, turnSeconds: number, turns: number): Promise<void> {
  await buildDashboard();
  const port = 20_000 + (process.pid % 20_000);
  const url = `http://127.0.0.1:${port}`;
  const main = path.join(import.meta.dirname, "../src/cli/main.ts");
  const daemon = spawn(
    process.execPath,
    [
      // for a profile of the daemon: NODE_FLAGS="--cpu-prof --cpu-prof-dir=/tmp"
      ...(process.env.NODE_FLAGS?.split(" ") ?? []),
      ...sourceFlags,
      main,
      "serve",
      "--data-dir",
      directory,
      "--http",
      `127.0.0.1:${port}`,
      "--log-level",
      "error",
    ],
    { stdio: "inherit" },
  );
  const used = (): number => cpuSeconds(daemon.pid) ?? NaN;
  const client = new RestClient(url);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  try {
    while ((await fetch(`${url}/readyz`).catch(() => null))?.status !== 200) {
      if (daemon.exitCode !== null) throw new Error("the daemon did not start");
      await sleep(200);
    }
    const units = (await client.tally(ns)).reduce(
      (sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0),
      0,
    );
    console.log(`${units.toLocaleString("en-US")} units`);
    const flowing = flow(client);
    await sleep(5000);
    if (turns === 0) {
      await tellTasks(browser, url);
      await flowing.stop();
      return;
    }

    const blocked: number[] = [];
    const close = async (page: Page): Promise<void> => {
      blocked.push(...(await page.evaluate<number[]>("window.blocked")));
      await page.context().close();
    };
    const homes: number[] = [];
    for (let i = 0; i < 5; i++) {
      const page = await open(browser, url, `#/${ns}`);
      // polled from here: the content security policy forbids evaluating text in the page itself
      while (!(await page.evaluate<boolean>("window.shownAt !== undefined"))) await sleep(50);
      homes.push(await page.evaluate<number>("window.shownAt"));
      await sleep(1000);
      await close(page);
    }
    console.log(
      `home: ${ms(median(homes))} from the address to the counts of every work spec (${homes.map(ms).join(", ")})`,
    );

    // by the page's clock: from the keystroke to the rows, including the time that the page waits for more keystrokes
    const searches: number[] = [];
    const units2 = await open(browser, url, `#/${ns}/units/parse`);
    await units2.locator(".rows .row").first().waitFor();
    for (const share of [0.2, 0.4, 0.6, 0.8, 0]) {
      // of every four batches of 5,000, the second belongs to this work spec
      const prefix = unitName(Math.floor((share * units) / 20_000) * 20_000 + 5000).slice(0, -4);
      searches.push(
        await units2.evaluate<number>(`new Promise((resolve) => {
          const input = document.querySelector("[data-search]");
          const start = performance.now();
          const look = () => {
            const first = document.querySelector(".rows .row .un");
            if (first?.textContent.startsWith(${JSON.stringify(prefix)})) resolve(performance.now() - start);
            else requestAnimationFrame(look);
          };
          Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, ${JSON.stringify(prefix)});
          input.dispatchEvent(new Event("input", { bubbles: true }));
          look();
        })`),
      );
      await sleep(300);
    }
    await close(units2);
    console.log(`search: ${ms(median(searches))} from the key to the units (${searches.map(ms).join(", ")})`);

    const costs: Record<"without" | "with", number[]> = { without: [], with: [] };
    const asked = new Map<string, { requests: number; bytes: number }>();
    for (let turn = 0; turn < turns; turn++) {
      for (const kind of turn % 2 === 0 ? (["without", "with"] as const) : (["with", "without"] as const)) {
        const pages =
          kind === "without" ? [] : await Promise.all(looked.map(({ hash }) => open(browser, url, hash)));
        // loading is not measured, and the page polls less often after the first seconds of a steady flow
        await sleep(10_000);
        const stopCounting = pages.map((page) => countRequests(page, asked));
        const [cpu, done] = [used(), flowing.done()];
        await sleep(turnSeconds * 1000);
        costs[kind].push(((used() - cpu) / (flowing.done() - done)) * 1e6);
        for (const stop of stopCounting) stop();
        for (const page of pages) await close(page);
      }
    }
    await tellTasks(browser, url);
    await flowing.stop();
    const [off, on] = [median(costs.without), median(costs.with)];
    console.log(
      `daemon: ${off.toFixed(0)} µs a unit without a dashboard, ${on.toFixed(0)} with three: ${((on / off - 1) * 100).toFixed(1)} % ` +
        `(${costs.without.map((one) => one.toFixed(0)).join(", ")}; ${costs.with.map((one) => one.toFixed(0)).join(", ")})`,
    );
    for (const [what, { requests, bytes }] of [...asked].sort((a, b) => b[1].requests - a[1].requests))
      console.log(
        `  ${what.padEnd(24)} ${(requests / (turns * turnSeconds)).toFixed(2)} requests a second, ${Math.round(bytes / requests)} bytes each`,
      );
    console.log(
      `main threads of three that share the cores with the daemon: ${ms(Math.max(0, ...blocked))} at most, ` +
        `${blocked.filter((one) => one > 100).length} times over 100 ms`,
    );
  } finally {
    await browser.close();
    await client.close();
    await terminate(daemon);
  }
}

const [what, directory, ...numbers] = process.argv.slice(2);
if (directory === undefined || (what !== "fill" && what !== "measure"))
  throw new Error("expected fill DIRECTORY [units] or measure DIRECTORY [seconds of a turn] [turns]");
if (what === "fill") await fill(directory, Number(numbers[0] ?? 5_000_000));
else await measure(directory, Number(numbers[0] ?? 15), Number(numbers[1] ?? 4));
