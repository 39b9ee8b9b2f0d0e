/**
 * docs/mistakes.md: the tests make each mistake of its table and compare the message with the page. A `…` on the page stands for text
 * that varies.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  configOf,
  createToken,
  readConfig,
  startDaemon,
  type Config,
  type Daemon,
} from "../../src/daemon/index.ts";
import { connect, openMemory } from "../../src/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { runOne, silentLogger, Worker } from "../../src/worker/index.ts";
import { selfSigned } from "../cbor/certificates.ts";
import { run } from "../cli/in-process.ts";

const page = readFileSync(path.join(import.meta.dirname, "..", "..", "docs", "mistakes.md"), "utf8");
const rows = [...page.matchAll(/^\| (?<mistake>[^|]+?) +\| `+ ?(?<said>[^|]+?) ?`+ +\|$/gm)].map(
  ({ groups }) => ({
    mistake: groups!.mistake!,
    said: groups!.said!,
  }),
);

const place = mkdtempSync(path.join(tmpdir(), "coordinate-mistakes-"));
const file = (name: string, text: string): string => {
  writeFileSync(path.join(place, name), text, { mode: 0o600 });
  return path.join(place, name);
};
const daemons: Daemon[] = [];
let open = "";
let closed = "";
let secure = "";

async function start(given: Partial<Config>): Promise<string> {
  const daemon = await startDaemon(
    configOf({ backend: "memory:", http: ["127.0.0.1:0"], dataDir: place, logLevel: "silent", ...given }),
  );
  daemons.push(daemon);
  return daemon.urls[0]!;
}

/** The error message of a daemon that refuses to start with these settings. */
async function refusal(given: Partial<Config>): Promise<string> {
  try {
    await start(given);
    return "it started";
  } catch (error) {
    return (error as Error).message;
  }
}

beforeAll(async () => {
  const { cert, key } = selfSigned(place);
  open = await start({});
  secure = await start({ tlsCert: cert, tlsKey: key });
  const guarded = path.join(place, "guarded");
  createToken(path.join(guarded, "tokens.json"), {
    name: "a",
    grants: [{ namespace: "*", scopes: ["read"] }],
  });
  closed = await start({ dataDir: guarded });
  const client = new RestClient(open);
  const spec = (ns: string, data: object) =>
    client.setWorkSpecs(ns, [{ data: JSON.stringify(data) as never }]);
  await spec("shop", { name: "crawl" });
  await spec("idle", { name: "crawl" });
  await client.setNamespace("idle", { desired: "terminate" });
  for (const [ns, data] of [
    ["nobody", { name: "crawl" }],
    ["others", { name: "crawl", runtime: "go" }],
    ["small", { name: "crawl", min_gb: 64 }],
  ] as const) {
    await spec(ns, data);
    await client.addWorkUnits(ns, "crawl", [{ name: "u" }]);
    const asks = [{ runtimes: ["", "node"], availableGb: 4 }];
    const worker = { name: "w1", active: true, mode: "run", data: JSON.stringify({ asks }) as never };
    if (ns !== "nobody") await client.updateWorkers(ns, [worker]);
  }
  await client.close();
});

afterAll(async () => {
  await Promise.all(daemons.map((daemon) => daemon.stop()));
  rmSync(place, { recursive: true, force: true });
});

const cli = async (...words: string[]): Promise<string> => {
  const { out, err } = await run(words, { HOME: place });
  return `${err}${out}`;
};
const at = (url: string, ns: string, ...words: string[]): Promise<string> =>
  cli(...words, "--address", url, "--namespace", ns);
const thrown = async (work: () => unknown): Promise<string> => {
  try {
    await work();
    return "nothing was thrown";
  } catch (error) {
    return (error as Error).message;
  }
};
const config = (...argv: string[]): Promise<string> => thrown(() => readConfig(argv, { HOME: place }));

const worker = (options: object): Promise<string> =>
  thrown(() => new Worker(openMemory().namespace(), options));

/** Makes each mistake and returns the message, by the first column of the table. */
const made: Readonly<Record<string, () => Promise<string>>> = {
  "No daemon runs": () => cli("summary", "--address", "http://127.0.0.1:1"),
  "A daemon runs already": () => refusal({ http: [open.replace("http://", "")] }),
  "Another process has the SQLite file open": async () => {
    const backend = `sqlite:${path.join(place, "store.sqlite")}`;
    await start({ backend });
    return refusal({ backend });
  },
  "A daemon for other machines, without tokens or TLS": () => refusal({ http: ["0.0.0.0:0"] }),
  "CBOR-RPC for other machines": () => refusal({ cborrpc: "0.0.0.0:0" }),
  "A file that is not a certificate": () =>
    refusal({ tlsCert: file("text", "x"), tlsKey: path.join(place, "localhost.key") }),
  "A misspelt option of the daemon": () => config("--htpp", "127.0.0.1:1"),
  "A misspelt setting in a file": () => config("--config", file("typo.yaml", "client:\n  tokn: x\n")),
  "A misspelt command": () => cli("sumary"),
  "No token, where the daemon wants one": () => cli("summary", "--address", closed),
  "A wrong token": () => cli("summary", "--address", closed, "--token", "wrong"),
  "`https://` where there is no TLS": () => cli("summary", "--address", open.replace("http:", "https:")),
  "`http://` where there is TLS": () => cli("summary", "--address", secure.replace("https:", "http:")),
  "A self-signed certificate": () => cli("summary", "--address", secure),
  "`connect` without a scheme": () => thrown(() => connect("localhost:5980")),
  "A misspelt namespace": () => at(open, "shp", "summary"),
  "A misspelt work spec": () => at(open, "shop", "status", "crwal"),
  "A misspelt key of a work spec, in a program": () =>
    thrown(() => openMemory().namespace().setWorkSpec({ name: "mail", max_retires: 3 })),
  "A key of a work spec with a wrong type": () =>
    thrown(() => openMemory().namespace().setWorkSpec({ name: "mail", weight: "heavy" })),
  "A chain to a work spec that is not there": () =>
    at(open, "shop", "flow", file("flow.yaml", "flows:\n  fetch: {min_gb: 0, then: crwal}\n")),
  "Units without a name": async () => {
    const units = file("units.jsonl", '{"url": "http://example.com"}\n');
    return at(open, "shop", "addwork", "crawl", "-u", units, "--no-journal");
  },
  "No worker runs": () => at(open, "nobody", "explain"),
  "Workers run, but for another runtime": () => at(open, "others", "explain"),
  "Workers have too little memory": () => at(open, "small", "explain"),
  "All workers were told to terminate": () => at(open, "idle", "explain"),
  "A worker without anything to run": () => at(open, "shop", "worker"),
  "`run_one` finds nothing": () => at(open, "shop", "run_one", "--runtime", "command"),
  "A misspelt option of a worker, in a program": () => worker({ tasks: { mail: () => ({}) }, concurency: 4 }),
  "A misspelt option of `connect`": () => thrown(() => connect("memory:", { tokn: "x" } as object)),
  "A worker without tasks, in a program": () => worker({ tasks: {} }),
  "A name instead of a namespace": () =>
    thrown(() => new Worker("mail" as never, { tasks: { mail: () => ({}) } })),
  "A back-off with keys of BullMQ": () => {
    const retry = { attempts: 3, backoff: { type: "exponential", delay: 1000 } };
    return thrown(() => openMemory().namespace().setWorkSpec({ name: "mail", retry }));
  },
  "A list of names instead of units": () =>
    thrown(async () => {
      const spec = await openMemory().namespace().setWorkSpec({ name: "mail" });
      await spec.addWorkUnits(["anna"] as never);
    }),
  "A task that returns text": () =>
    thrown(async () => {
      const namespace = openMemory().namespace();
      const unit = await (await namespace.setWorkSpec({ name: "mail" })).addWorkUnit("anna");
      await runOne(namespace, { tasks: { mail: () => "sent" as never }, log: silentLogger });
      await unit.result({ waitMs: 30_000 });
    }),
};

/** The text of the page as a pattern: `…` matches anything on a line, and white space matches any white space. */
const pattern = (said: string): RegExp =>
  new RegExp(
    said
      .split("…")
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"))
      .join("[^\\n]*"),
  );

test("the page has at least twenty, and each is made here", () => {
  expect(rows.length).toBeGreaterThanOrEqual(20);
  expect(rows.map(({ mistake }) => mistake)).toEqual(Object.keys(made));
});

test.each(rows)("$mistake", { timeout: 60_000 }, async ({ mistake, said }) => {
  expect(await made[mistake]!()).toMatch(pattern(said));
});
