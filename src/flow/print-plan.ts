/** Prints a plan: what would be created, changed and deleted. Secrets are masked; each name and value stays on one line. */
import { isSecretKey, starred } from "../config/index.ts";
import type { Difference, FlowOptions, FlowPlan, VanishedSpec } from "./plan.ts";

/** Returns lines whose first character tells the change of a work spec: + new, ~ changed, = unchanged, - not in the file. */
export function printPlan(plan: FlowPlan, { prune = false }: FlowOptions = {}): string[] {
  const lines = plan.specs.flatMap(({ name, kind, differences, resets }) => [
    { new: `+ ${printable(name)}`, changed: `~ ${printable(name)}`, same: `= ${printable(name)}` }[kind],
    ...differences.map((one) => `    ${printDifference(one)}`),
    ...resets.map((one) => `    ${printDifference(one)} (was set by hand; use --keep-meta to keep it)`),
  ]);
  lines.push(...plan.limits.map(({ name }) => `~ limit ${printable(name)}`));
  return [...lines, ...plan.vanished.map((spec) => printVanished(spec, prune))];
}

export function printVanished({ name, counts }: VanishedSpec, prune: boolean): string {
  const units = counts === null ? 0 : Object.values(counts).reduce((sum, count) => sum + count, 0);
  const held = `${units.toLocaleString("en")} ${units === 1 ? "unit" : "units"}`;
  const fate = prune ? "deleted with" : "not in the file; kept with";
  return `- ${printable(name)}: ${fate} ${held}`;
}

function printDifference({ path, from, to }: Difference): string {
  const key = path.slice(path.lastIndexOf(".") + 1);
  const show = (value: unknown): string => printValue(isSecretKey(key) ? "***" : starred(value));
  if (from === undefined) return `${printable(path)}: + ${show(to)}`;
  if (to === undefined) return `${printable(path)}: - ${show(from)}`;
  return `${printable(path)}: ${show(from)} -> ${show(to)}`;
}

function printValue(value: unknown): string {
  const text = JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? String(one) : one));
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

/** Escapes control characters, since names are not trusted and a terminal would interpret them. */
const printable = (text: string): string =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (unit) => {
    const code = unit.charCodeAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code}`;
  });
