/** A daemon and a browser for the tests of the dashboard, and checks for problems that must not occur in a page. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Page,
} from "playwright-core";
import { buildDashboard } from "../../scripts/build-dashboard.mjs";
import { configOf, startDaemon, type Daemon } from "../../src/daemon/index.ts";
import { RestClient } from "../../src/rest/index.ts";

export const browserPath = [
  process.env.CHROMIUM_PATH,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((file) => file !== undefined && existsSync(file));

/** Why the browser tests are skipped; empty if they run. On CI a missing browser is a failure. */
export const noBrowser =
  browserPath === undefined ? "there is no Chromium; install it, or set CHROMIUM_PATH" : "";
if (noBrowser !== "" && process.env.CI === "true") throw new Error(noBrowser);

export interface Stage {
  readonly url: string;
  readonly daemon: Daemon;
  readonly client: RestClient;
  readonly dataDir: string;
  readonly browser: Browser;
  /** Opens a page with separate storage; `problems` collects what goes wrong in it. */
  open(hash: string, options?: BrowserContextOptions): Promise<Opened>;
  /** Closes all open pages: each follows events, and uses resources as long as it is open. */
  closePages(): Promise<void>;
  close(): Promise<void>;
}

export interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Dialogs, errors, violations of the content security policy, requests to other origins. */
  readonly problems: readonly string[];
}

/** Starts a daemon on an embedded store, as `npm start` does. `prepare` returns a token for the client if it created one. */
export async function openStage(
  prepare?: (dataDir: string) => string | Promise<void>,
  settings: Parameters<typeof configOf>[0] = {},
): Promise<Stage> {
  await buildDashboard();
  const dataDir = mkdtempSync(path.join(tmpdir(), "dashboard-"));
  const token = await prepare?.(dataDir);
  const daemon = await startDaemon(
    configOf({ dataDir, http: ["127.0.0.1:0"], logLevel: "error", ...settings }),
  );
  const url = daemon.urls[0]!.replace(/\/$/, "");
  const client = new RestClient(url, typeof token === "string" ? { token } : {});
  const browser = await chromium.launch({ executablePath: browserPath!, args: ["--no-sandbox"] });
  const contexts: BrowserContext[] = [];
  return {
    url,
    daemon,
    client,
    dataDir,
    browser,
    open: async (hash, options = {}) => {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
      contexts.push(context);
      const page = await context.newPage();
      const problems: string[] = [];
      watch(page, url, problems);
      await page.goto(`${url}/${hash}`);
      return { page, context, problems };
    },
    closePages: async () => {
      for (const context of contexts.splice(0)) await context.close();
    },
    close: async () => {
      await browser.close();
      await client.close();
      await daemon.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function watch(page: Page, url: string, problems: string[]): void {
  page.on("dialog", (dialog) => {
    problems.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => void problems.push(`error ${error.message}`));
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedHTML|Refused to/.test(message.text())) problems.push(message.text());
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== url && protocol !== "blob:") problems.push(`request to ${request.url()}`);
  });
}
