/** A busy namespace: chained work specs, workers, failures, a paused work spec; and work that goes on while the pages are open. */
import { encodeData, type Coordinate, type WorkerChange } from "../../src/core/index.ts";

const specs: readonly Record<string, unknown>[] = [
  { name: "scan", runtime: "node", continuous: true, interval: 60, then: "fetch" },
  { name: "mailbox", runtime: "node", continuous: true, interval: 30, then: "fetch" },
  { name: "fetch", runtime: "node", weight: 33, then: "parse", desc: "Fetches filings from their sources." },
  {
    name: "parse",
    runtime: "python",
    weight: 50,
    max_retries: 3,
    min_gb: 1.5,
    then: "index",
    desc: "Turns fetched files into text blocks.",
    task: "parse.run",
    config: { pdf: { strict: true, pages: 400 } },
    retention: { finished: { max_age: 604_800 }, failed: { max_age: 2_592_000 } },
  },
  { name: "virus-scan", runtime: "python", weight: 8, then: "parse" },
  { name: "parse.ocr", runtime: "python-gpu", weight: 10, min_gb: 12, requires: ["gpu"], then: "index" },
  { name: "dedupe", runtime: "python", weight: 5, then: "index" },
  { name: "index", runtime: "node", weight: 40, max_running: 64, then: "report", limits: ["search"] },
  {
    name: "report",
    runtime: "node",
    weight: 10,
    then: "notify",
    limits: ["search"],
    fair: "partition",
    partition_weights: { "tenant/large": 3 },
    rate_per_partition: { limit: 100, period: 60, burst: 100 },
  },
  {
    name: "notify",
    runtime: "node",
    weight: 5,
    limits: ["mail gateway"],
    breaker: { failures: 0.5, min: 10, pause: 3600 },
  },
  { name: "archive", runtime: "node", weight: 2 },
  { name: "billing.sync", runtime: "node", continuous: true, interval: 3600 },
  { name: "cleanup", runtime: "node", continuous: true, interval: 300 },
  { name: "thumbs", runtime: "python", weight: 4 },
  {
    name: "digest",
    runtime: "node",
    schedule: { cron: "30 6 * * 1-5", timezone: "Europe/Brussels", overlap: "skip" },
  },
  { name: "rates", runtime: "node", schedule: { every: 900, jitter: 60 } },
];

const companies = ["ACME", "BOLT", "CRUX", "DELTA", "EON", "FJORD", "GRID", "HELIX", "IONA", "JUNO", "KITE"];
const forms = ["10K", "8K", "10Q", "20F", "S1", "DEF14A"];
const labels = ["us", "eu", "jp"];

const pdfError = `Traceback (most recent call last):
  File "parse/run.py", line 31, in run
    document = open(unit.data["key"])
  File "parse/pdf.py", line 96, in open
    trailer = read_trailer(handle)
  File "parse/pdf.py", line 212, in read_trailer
    raise PDFSyntaxError("no /Root object in trailer")
PDFSyntaxError: no /Root object in trailer`;
const errors = [
  pdfError,
  pdfError,
  pdfError,
  pdfError,
  "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x96 in position 11",
  "TimeoutError: page 14 took over 120 s",
];

export const unitName = (i: number): string =>
  `s3://filings-in/2025/11/15/${companies[i % companies.length]}-${forms[i % forms.length]}-${String(i).padStart(7, "0")}.pdf`;

const unitData = (i: number): object => ({
  bucket: "filings-in",
  key: `2025/11/15/${companies[i % companies.length]}-${forms[i % forms.length]}-${i}.pdf`,
  bytes: 2_184_331 + i,
  etag: `9b1c${(i * 7919).toString(16)}e07`,
  pages: null,
  checkpoint: { page: 112 },
  lang: "en",
});

export interface SceneSize {
  /** Multiplies the numbers of units. */
  readonly scale?: number;
}

async function add(
  to: Coordinate,
  ns: string,
  spec: string,
  number: number,
  options: object = {},
  from = 0,
): Promise<void> {
  for (let at = 0; at < number; at += 2000) {
    await to.addWorkUnits(
      ns,
      spec,
      Array.from({ length: Math.min(2000, number - at) }, (_, i) => ({
        name: unitName(from + at + i),
        data: encodeData(unitData(from + at + i)),
        labels: [labels[(at + i) % labels.length]!, forms[(at + i) % forms.length]!],
        ...options,
      })),
    );
  }
}

/** A number from 0 to 1, always the same for the same name. It spreads the failures over the units. */
const spread = (name: string): number =>
  (Array.from(name).reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 99_991, 7) % 1000) / 1000;

/** Claims units of a work spec and settles them as a worker does: some finish with outputs, some fail. */
async function run(
  to: Coordinate,
  ns: string,
  spec: string,
  number: number,
  failShare: number,
  worker: string,
): Promise<void> {
  const attempts = await to.requestAttempts(ns, { worker, number, workSpecs: [spec], lifetimeMs: 900_000 });
  await to.settleAttempts(
    ns,
    attempts.map(({ id, workUnit }, i) => {
      const fails = spread(workUnit) < failShare;
      const data = {
        ...unitData(i),
        etag: `44fa${(i * 31).toString(16)}1d2`,
        pages: fails ? 0 : 12,
        parser: "pdf-strict 14",
        checkpoint: undefined,
      };
      return fails
        ? {
            attempt: id,
            action: "fail",
            data: encodeData({ ...data, error: "PDFSyntaxError", traceback: errors[i % errors.length] }),
          }
        : {
            attempt: id,
            action: "finish",
            data: encodeData({
              ...data,
              ...(i % 4 !== 3 && { output: { [workUnit]: { text: `s3://text/${workUnit}` } } }),
            }),
          };
    }),
  );
}

function workers(): WorkerChange[] {
  const parent = (
    name: string,
    children: number,
    slots: number,
    runtimes: string[],
    version = "1.5.0",
  ): WorkerChange[] => [
    {
      name,
      active: true,
      mode: "run",
      data: encodeData({
        host: `${name}.internal`,
        pid: 4117,
        platform: "linux x64",
        versions: { coordinate: version, node: "22.4.0" },
        memory: { rss: 412_000_000 + children * 13_000_000, heap: 1e8, free: 2e10, total: 64 * 2 ** 30 },
        slots: children * slots,
        asks: [{ runtimes, labels: [`site=${name.slice(0, 3)}`] }],
      }),
    },
    ...Array.from({ length: children }, (_, i) => ({
      name: `${name}/${i + 1}`,
      parent: name,
      active: true,
      mode: "run",
    })),
  ];
  return [
    ...parent("fra-1", 8, 1, ["python"]),
    ...parent("fra-2", 8, 1, ["python"]),
    ...parent("fra-3", 8, 1, ["python"], "1.4.2"),
    ...parent("ams-1", 4, 1, ["node"]),
    ...parent("ams-2", 4, 1, ["node"]),
  ];
}

export async function fillScene(to: Coordinate, ns: string, { scale = 1 }: SceneSize = {}): Promise<void> {
  await to.setWorkSpecs(
    ns,
    specs.map((spec) => ({ data: encodeData(spec) })),
  );
  await to.setLimits(ns, [
    { name: "search", maxRunning: 200 },
    { name: "mail gateway", maxRunning: 20, rate: { limit: 6000, periodMs: 60_000, burst: 1000 } },
  ]);
  const many = (number: number): number => Math.max(1, Math.round(number * scale));
  await add(to, ns, "index", many(400));
  await run(to, ns, "index", many(300), 0.01, "ams-1/1");
  await add(to, ns, "index", many(2400), {}, 10_000);
  await add(to, ns, "parse", many(1400));
  await run(to, ns, "parse", many(1000), 0.124, "fra-1/2");
  await add(to, ns, "parse", many(120), { delayMs: 600_000 }, 20_000);
  await add(to, ns, "fetch", many(600), {}, 30_000);
  await run(to, ns, "fetch", many(300), 0.006, "ams-1/2");
  await add(to, ns, "parse.ocr", many(312));
  await add(to, ns, "report", many(90));
  await run(to, ns, "report", many(30), 0, "ams-2/1");
  await add(to, ns, "archive", many(180));
  await add(to, ns, "archive", many(900), { delayMs: 86_400_000 }, 40_000);
  await add(to, ns, "thumbs", many(140));
  await run(to, ns, "thumbs", many(100), 0.02, "fra-2/2");
  await add(to, ns, "dedupe", many(77));
  await add(to, ns, "virus-scan", many(38), {}, 50_000);
  await add(to, ns, "notify", many(2));
  await trip(to, ns, "notify");
  await to.addWorkUnits(ns, "report", [
    {
      name: "month end",
      dependencies: [
        { workSpec: "parse", workUnit: unitName(many(1400) - 1) },
        { workSpec: "index", workUnit: unitName(many(400) - 1) },
      ],
      queues: ["month-end"],
    },
  ]);
  await fillBatches(to, ns);
  await to.setWorkSpecMeta(ns, "report", { paused: true });
  await to.setWorkSpecMeta(ns, "parse", { weight: 60, minGb: 2 });
  await to.updateWorkers(ns, workers());
  await to.updateWorkers(ns, [
    {
      name: "gpu-02",
      active: true,
      mode: "run",
      lastUpdate: Date.now() - 8_040_000,
      expiration: Date.now() - 7_140_000,
    },
  ]);
  // a unit with three attempts: the first expired, the second was retried, the third failed
  const [first] = await to.makeAttempts(ns, [
    { workSpec: "parse", workUnit: unitName(0), worker: "fra-2/5", lifetimeMs: 60_000 },
  ]);
  await to.settleAttempts(ns, [{ attempt: first!.id, action: "expire" }]);
  const [second] = await to.makeAttempts(ns, [
    { workSpec: "parse", workUnit: unitName(0), worker: "fra-1/2" },
  ]);
  await new Promise((resolve) => setTimeout(resolve, 400));
  await to.settleAttempts(ns, [
    {
      attempt: second!.id,
      action: "retry",
      data: encodeData({ ...unitData(0), traceback: "503 from storage" }),
    },
  ]);
  await new Promise((resolve) => setTimeout(resolve, 700));
  const [third] = await to.makeAttempts(ns, [
    { workSpec: "parse", workUnit: unitName(0), worker: "fra-3/1" },
  ]);
  await new Promise((resolve) => setTimeout(resolve, 250));
  await to.settleAttempts(ns, [
    {
      attempt: third!.id,
      action: "fail",
      data: encodeData({
        ...unitData(0),
        etag: "44fa1d2",
        pages: 0,
        parser: "pdf-strict 14",
        error: "PDFSyntaxError",
        traceback: pdfError,
        checkpoint: undefined,
      }),
    },
  ]);
}

/** Opens the breaker of a work spec: a server that it needs is down. */
async function trip(to: Coordinate, ns: string, spec: string): Promise<void> {
  await add(to, ns, spec, 60, { priority: 1 }, 60_000);
  const attempts = await to.requestAttempts(ns, { worker: "ams-2/4", number: 16, workSpecs: [spec] });
  await to.settleAttempts(
    ns,
    attempts.map(({ id }) => ({
      attempt: id,
      action: "fail",
      data: encodeData({ traceback: "Error: connect ECONNREFUSED mail.internal:25" }),
    })),
  );
}

/** A batch with three child batches: one is done, one has failures, one is not sealed yet. */
async function fillBatches(to: Coordinate, ns: string): Promise<void> {
  await to.setBatches(ns, [
    { name: "backfill 2024", then: { workSpec: "report", on: "finished" } },
    ...["Q1", "Q2", "Q3"].map((part) => ({ name: `backfill 2024 ${part}`, parent: "backfill 2024" })),
  ]);
  for (const [part, number, finish, fail] of [
    ["Q1", 40, 40, 0],
    ["Q2", 60, 32, 5],
    ["Q3", 24, 0, 0],
  ] as const) {
    const batch = `backfill 2024 ${part}`;
    await to.addWorkUnits(
      ns,
      "archive",
      Array.from({ length: number }, (_, i) => ({ name: `2024/${part}/${i + 1}.tar`, batch, priority: 9 })),
    );
    const attempts = await to.requestAttempts(ns, {
      worker: "ams-2/3",
      number: finish + fail,
      workSpecs: ["archive"],
    });
    await to.settleAttempts(
      ns,
      attempts.map(({ id }, i) =>
        i < finish
          ? { attempt: id, action: "finish" }
          : {
              attempt: id,
              action: "fail",
              data: encodeData({ traceback: "Error: the archive is truncated" }),
            },
      ),
    );
    if (part !== "Q3") await to.setBatches(ns, [{ name: batch, sealed: true }]);
  }
}

/** Processes units and adds new ones, a few at a time, until the signal aborts. */
export async function flowScene(to: Coordinate, ns: string, signal: AbortSignal): Promise<void> {
  const lines: readonly [worker: string, spec: string, number: number, failShare: number][] = [
    ["ams-1/1", "fetch", 16, 0.001],
    ["fra-1/1", "parse", 18, 0.06],
    ["fra-1/3", "virus-scan", 3, 0],
    ["fra-2/1", "dedupe", 4, 0],
    ["ams-2/1", "index", 12, 0.001],
    ["fra-2/3", "thumbs", 3, 0],
    ["ams-2/3", "archive", 2, 0],
  ];
  // attempts that keep running, so that the pages show running units
  await to.requestAttempts(ns, { worker: "fra-1/4", number: 6, workSpecs: ["parse"], lifetimeMs: 900_000 });
  await to.requestAttempts(ns, { worker: "fra-2/4", number: 5, workSpecs: ["parse"], lifetimeMs: 600_000 });
  await to.requestAttempts(ns, { worker: "ams-1/3", number: 10, workSpecs: ["index"], lifetimeMs: 900_000 });
  await to.requestAttempts(ns, { worker: "ams-2/2", number: 3, workSpecs: ["fetch"], lifetimeMs: 50_000 });
  for (let round = 0; !signal.aborted; round++) {
    const wave = 1 + 0.3 * Math.sin(round / 5);
    for (const [worker, spec, number, failShare] of lines)
      await run(to, ns, spec, Math.round(number * wave), failShare, worker);
    await add(to, ns, "fetch", Math.round(16 * wave), {}, 100_000 + round * 40);
    await add(to, ns, "index", 14, {}, 300_000 + round * 40);
    await add(to, ns, "thumbs", 3, {}, 500_000 + round * 4);
    await add(to, ns, "virus-scan", 3, {}, 600_000 + round * 4);
    await add(to, ns, "dedupe", 4, {}, 700_000 + round * 4);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
