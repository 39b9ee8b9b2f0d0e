/**
 * A flow file: many work specs in one document.
 *
 *   flows:
 *     hello: { min_gb: 1, runtime: go }
 *     feeds:                               a group: its work specs are feeds.fetch and feeds.parse
 *       fetch: { min_gb: 1, then: feeds.parse }
 *       parse: { min_gb: 2 }
 *
 *   limits:
 *     api.example: { max_running: 5, rate: { limit: 100, period: 60 } }
 *
 * An entry is a work spec when it has `min_gb`, or another known key whose value is not a mapping; otherwise it is a group.
 * `yakonfig_modules` is accepted for files that are shared with the Python tool, and ignored.
 */
import {
  readField,
  wantedKind,
  workSpecFields,
  workSpecKeys,
  type Rate,
  type SharedLimitInput,
  type WorkSpecField,
} from "../core/index.ts";
import {
  ConfigError,
  didYouMean,
  isMapping,
  nearest,
  overlay,
  shown,
  type YamlDocument,
} from "../config/index.ts";
import { checkSpec, checkNameOf, type Findings } from "./spec-entry.ts";

export interface FlowSpec {
  /** The full, dotted name. */
  readonly name: string;
  /** Includes `name`. The configuration in effect is added later, by `withConfiguration`. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Where it begins: `flow.yaml:3`. */
  readonly where: string;
  /** Location of its `then` key. */
  readonly thenWhere: string;
}

export interface Flow {
  readonly file: string;
  /** In the order of the file. */
  readonly specs: readonly FlowSpec[];
  /** Limits that work specs of the namespace share. */
  readonly limits: readonly SharedLimitInput[];
  readonly warnings: readonly string[];
}

/** The keys of a shared limit. They have the same meaning as in a work spec. */
export const limitKeys: Readonly<Record<string, WorkSpecField>> = {
  max_running: workSpecFields.max_running,
  rate: workSpecFields.rate,
};

const topKeys = ["flows", "limits", "yakonfig_modules"];

/** Throws a `ConfigError` that lists all errors, each with file, line and key. */
export function readFlow(document: YamlDocument): Flow {
  const { value, file } = document;
  const findings: Findings = { wrong: [], warnings: [] };
  if (!isMapping(value) || !Object.hasOwn(value, "flows")) {
    const instead = isMapping(value) ? nearest("flows", Object.keys(value)) : null;
    throw new ConfigError(
      `${file}: expected a mapping with the key flows${instead === null ? "" : `, got ${instead}`}`,
    );
  }
  for (const [key, inside] of Object.entries(value)) {
    const where = document.where([key]);
    if (key === "yakonfig_modules") {
      if (!Array.isArray(inside) || inside.some((item) => typeof item !== "string"))
        findings.wrong.push(`${where}: ${key}: expected a list of module names, got ${shown(inside)}`);
    } else if (!topKeys.includes(key))
      findings.warnings.push(`${where}: ${key}: not a known key${didYouMean(key, topKeys)}`);
  }
  const specs: FlowSpec[] = [];
  readGroup(value.flows, ["flows"], document, findings, specs);
  const limits = readLimits(value.limits ?? null, document, findings);
  checkChains(specs, findings);
  if (findings.wrong.length > 0) throw new ConfigError(findings.wrong.join("\n"));
  return { file, specs, limits, warnings: findings.warnings };
}

function readLimits(given: unknown, document: YamlDocument, findings: Findings): SharedLimitInput[] {
  const { wrong } = findings;
  if (given === null) return [];
  if (!isMapping(given)) {
    wrong.push(`${document.where(["limits"])}: limits: expected limits by name, got ${shown(given)}`);
    return [];
  }
  return Object.entries(given).map(([name, entry]) => {
    const limit: SharedLimitInput = { name };
    const where = `${document.where(["limits", name])}: limits.${name}`;
    checkNameOf("limit", name, where, findings);
    if (!isMapping(entry)) wrong.push(`${where}: expected max_running and rate, got ${shown(entry)}`);
    else
      for (const [key, value] of Object.entries(entry)) {
        const at = `${document.where(["limits", name, key])}: limits.${name}`;
        const field = limitKeys[key];
        const read = field === undefined || value === null ? undefined : readField(field, value);
        if (field === undefined)
          wrong.push(`${at}.${key}: not a known key${didYouMean(key, Object.keys(limitKeys))}`);
        else if (value === null) continue;
        else if (read === undefined)
          wrong.push(`${at}.${key}: expected ${wantedKind(field)}, got ${shown(value)}`);
        else if (key === "max_running") limit.maxRunning = read as number;
        else limit.rate = readRate(value as Record<string, unknown>, `${at}.${key}`, wrong);
      }
    return limit;
  });
}

function readRate(given: Readonly<Record<string, unknown>>, at: string, wrong: string[]): Rate {
  const rate: Record<string, unknown> = {};
  const known: Readonly<Record<string, WorkSpecField>> = workSpecFields.rate.keys;
  for (const [key, value] of Object.entries(given)) {
    const field = known[key];
    const read = field === undefined ? undefined : readField(field, value);
    if (field === undefined)
      wrong.push(`${at}.${key}: not a known key${didYouMean(key, Object.keys(known))}`);
    else if (read === undefined)
      wrong.push(`${at}.${key}: expected ${wantedKind(field)}, got ${shown(value)}`);
    else rate[field.field ?? key] = read;
  }
  return rate;
}

function readGroup(
  group: unknown,
  at: readonly string[],
  document: YamlDocument,
  findings: Findings,
  specs: FlowSpec[],
): void {
  const where = `${document.where(at)}: ${at.join(".")}`;
  if (group === null || (isMapping(group) && Object.keys(group).length === 0)) {
    findings.warnings.push(`${where}: ignored because it is empty; a work spec has at least the key min_gb`);
    return;
  }
  if (!isMapping(group)) {
    findings.wrong.push(`${where}: expected work specs by name, got ${shown(group)}`);
    return;
  }
  for (const [key, entry] of Object.entries(group)) {
    const there = [...at, key];
    if (isMapping(entry) && isSpec(entry)) specs.push(readSpec(entry, there, document, findings));
    else if (isMapping(entry) && !isGroup(entry)) findings.wrong.push(neither(entry, there, document));
    else readGroup(entry, there, document, findings, specs);
  }
}

const isSpec = (entry: Readonly<Record<string, unknown>>): boolean =>
  Object.hasOwn(entry, "min_gb") ||
  Object.entries(entry).some(([key, value]) => Object.hasOwn(workSpecKeys, key) && !isMapping(value));

const isGroup = (entry: Readonly<Record<string, unknown>>): boolean =>
  Object.values(entry).every((value) => isMapping(value) || value === null);

function neither(entry: Record<string, unknown>, at: readonly string[], document: YamlDocument): string {
  const [key = ""] = Object.entries(entry).find(([, value]) => !isMapping(value)) ?? [];
  const hints = Object.keys(entry).map((one) => nearest(one, Object.keys(workSpecKeys)));
  const meant = hints.find((one) => one !== null);
  const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
  return `${document.where([...at, key])}: ${at.join(".")}: not a work spec, because it has no min_gb, and not a group, because ${key} is not a mapping${hint}`;
}

function readSpec(
  entry: Record<string, unknown>,
  at: readonly string[],
  document: YamlDocument,
  findings: Findings,
): FlowSpec {
  const where = document.where(at);
  const name = at.slice(1).join(".");
  checkNameOf("work spec", name, `${where}: ${at.join(".")}`, findings);
  const { name: given = null, ...rest } = checkSpec(entry, at, document, findings);
  if (given !== null && given !== name)
    findings.warnings.push(
      `${document.where([...at, "name"])}: ${at.join(".")}.name: ignored; the name comes from the flow: ${name}`,
    );
  return {
    name,
    data: { name, ...rest },
    where,
    thenWhere: `${document.where([...at, "then"])}: ${at.join(".")}.then`,
  };
}

function checkChains(specs: readonly FlowSpec[], { wrong }: Findings): void {
  const seen = new Map<string, FlowSpec>();
  for (const spec of specs) {
    const twin = seen.get(spec.name);
    // possible when a.b: {…} stands beside a: {b: {…}}
    if (twin !== undefined)
      wrong.push(`${spec.where}: ${spec.name} is defined twice, first at ${twin.where}`);
    seen.set(spec.name, spec);
  }
}

export const nextOf = ({ data }: FlowSpec): string => (typeof data.then === "string" ? data.then : "");

/** Returns the data to store: its `config` is the configuration in effect, overlaid with the spec's own `config` if it has one. */
export function withConfiguration(
  spec: FlowSpec,
  config: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const own = spec.data.config ?? null;
  const { config: _own, ...rest } = spec.data;
  return { ...rest, config: own === null ? config : overlay(config, own) };
}
