/** Stores results in bench/results.json and shows them in docs/performance.md. New results of a workload replace its old ones. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { format, resolveConfig } from "prettier";
import { here } from "./machine.ts";
import { environmentMarkdown, plots, ratioMarkdown, workloadMarkdown, type Report } from "./report.ts";
import { workloads } from "./workloads.ts";

const kept = path.join(here, "results.json");
const page = path.join(here, "../docs/performance.md");
const images = path.join(here, "../docs/images");
const [begin, end] = ["<!-- results -->", "<!-- end of results -->"];

async function pretty(text: string, file: string): Promise<string> {
  return format(text, { ...(await resolveConfig(file)), filepath: file });
}

export async function writeReport(now: Report): Promise<void> {
  const before = existsSync(kept) ? (JSON.parse(readFileSync(kept, "utf8")) as Report) : null;
  const measured = new Set([...now.rows, ...now.skipped].map(({ workload }) => workload));
  const merge = <One extends { workload: string }>(
    old: readonly One[] | undefined,
    fresh: readonly One[],
  ): One[] => [...(old ?? []).filter(({ workload }) => !measured.has(workload)), ...fresh];
  const rows = merge(before?.rows, now.rows);
  const skipped = merge(before?.skipped, now.skipped);
  writeFileSync(kept, await pretty(JSON.stringify({ environment: now.environment, rows, skipped }), kept));
  for (const [name, svg] of Object.entries(plots(rows))) writeFileSync(path.join(images, name), svg);
  const text = readFileSync(page, "utf8");
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/performance.md: expected ${begin} and ${end}`);
  const parts = [
    ratioMarkdown(rows),
    `Measured on: ${environmentMarkdown(now.environment)}.`,
    ...workloads.map((workload) => workloadMarkdown(workload, rows, skipped)).filter((part) => part !== ""),
  ];
  const fresh = `${text.slice(0, from + begin.length)}\n\n${parts.join("\n\n")}\n\n${text.slice(to)}`;
  writeFileSync(page, await pretty(fresh, page));
}
