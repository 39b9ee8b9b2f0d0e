/** A month of records for a scene, as daemons that ran all the time would have written them. */
import {
  bucketOf,
  emptyRecord,
  encodeData,
  Engine,
  historySteps,
  writeRecord,
  type HistoryRecord,
  type HistoryRow,
} from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { fillScene } from "./scene.ts";

/** Units per second, the share that fails, milliseconds per unit, and the number of waiting units. */
const busy: Readonly<
  Record<string, readonly [rate: number, fails: number, tookMs: number, waiting: number]>
> = {
  fetch: [28, 0.002, 180, 40],
  parse: [30, 0.01, 2400, 300],
  index: [22, 0.001, 420, 700],
  thumbs: [6, 0.02, 900, 30],
  "virus-scan": [5, 0, 700, 20],
  dedupe: [7, 0, 60, 10],
  report: [9, 0, 800, 60],
};

/** A pseudo-random number between 0 and 1, always the same for the same argument. */
const noise = (at: number): number => {
  const x = Math.sin(at * 12.9898) * 43758.5453;
  return x - Math.floor(x);
};

const minute = 60_000;

function recordOf(spec: string, time: number, stepMs: number, now: number): HistoryRecord {
  const [rate = 0, usualFails = 0, tookMs = 1, waiting = 0] = busy[spec] ?? [];
  const record = emptyRecord();
  const age = now - time;
  const day = 1 + 0.5 * Math.sin((time / 86_400_000) * 2 * Math.PI);
  // half an hour ago parse started to fail; the units of index pile up
  const broken = spec === "parse" && age < 34 * minute;
  const piles = spec === "index" && age < 55 * minute;
  const paused = spec === "report" && age < 21 * minute;
  const seconds = stepMs / 1000;
  const n = noise(time / 10_000 + spec.length);
  const arriving = rate * day * (0.8 + 0.4 * n) * seconds;
  const done = paused ? 0 : arriving * (piles ? 0.6 : 1);
  const fails = broken ? 0.09 : usualFails;
  record.counts.added = Math.round(arriving);
  record.counts.started = Math.round(done);
  record.counts.failed = Math.round(done * fails);
  record.counts.finished = Math.max(0, Math.round(done) - record.counts.failed);
  const waits = waiting * day * (piles ? 1 + (55 * minute - age) / (15 * minute) : 1);
  record.looks = 1;
  record.waiting = Math.round(waits * (0.9 + 0.2 * n));
  record.running = Math.round((done / seconds) * (tookMs / 1000));
  record.oldestMs = Math.round((waits / rate) * 1000);
  for (let i = 0; i < 9 && done >= 1; i++) {
    const factor = 2 ** ((i - 4) / 1.6) * (broken ? 2 : 1);
    const count = Math.max(1, Math.round((done / 9) * (i < 7 ? 1.2 : 0.2)));
    record.durations.set(bucketOf(tookMs * factor), count);
    record.waits.set(bucketOf(Math.max(1, (waits / rate) * 1000 * factor)), count);
  }
  return record;
}

export async function fillPast(file: string, ns: string, now: number, scale = 1): Promise<void> {
  const store = await openSqlite(file, { durability: "off" });
  const engine = new Engine(store, { history: false });
  const names = Object.keys(busy);
  await engine.setWorkSpecs(
    ns,
    names.map((name) => ({ data: encodeData({ name }) })),
  );
  const ids = new Map((await store.tally(ns, now)).map(({ workSpec, id }) => [workSpec, id]));
  const writer = store.newWriter();
  for (const { stepMs, keptMs } of historySteps) {
    const rows: HistoryRow[] = [];
    const end = now - (now % stepMs);
    for (let time = end - keptMs + stepMs; time < end; time += stepMs) {
      const whole = emptyRecord();
      for (const name of names) {
        const record = recordOf(name, time, stepMs, now);
        if (name === "parse" && Math.abs(now - 36 * minute - time) < stepMs / 2)
          record.changes.push({ time, workSpec: name, what: "minGb 2" });
        if (name === "report" && Math.abs(now - 21 * minute - time) < stepMs / 2)
          record.changes.push({ time, workSpec: name, what: "paused" });
        rows.push({ namespace: ns, spec: ids.get(name) ?? 0, stepMs, time, data: writeRecord(record) });
        addTo(whole, record);
      }
      rows.push({ namespace: ns, spec: 0, stepMs, time, data: writeRecord(whole) });
    }
    await store.putHistory(writer, rows);
  }
  // the current units
  await fillScene(engine, ns, { scale });
  await engine.close();
}

function addTo(whole: HistoryRecord, { counts, running, waiting, changes }: HistoryRecord): void {
  for (const key of ["added", "started", "finished", "failed"] as const) whole.counts[key] += counts[key];
  whole.looks = 1;
  whole.running += running;
  whole.waiting += waiting;
  whole.changes.push(...changes);
}
