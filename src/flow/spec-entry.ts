/** Checks a work spec of a file against the table of known keys. Errors have file and line. */
import {
  checkName,
  CoordinateError,
  misfits,
  pathText,
  readField,
  workSpecKeys,
  workSpecProblems,
  type NameKind,
  type WorkSpecField,
} from "../core/index.ts";
import { isMapping, nearest, setOwn, shown, type Path, type YamlDocument } from "../config/index.ts";

/** Findings of a read: errors make it fail in the end, warnings are only shown. */
export interface Findings {
  readonly wrong: string[];
  readonly warnings: string[];
}

/**
 * Checks the entry of a work spec: its keys one by one, then what the engine would refuse in values of the right kind. Returns the
 * entry to store.
 */
export function checkSpec(
  entry: Readonly<Record<string, unknown>>,
  at: Path,
  document: YamlDocument,
  findings: Findings,
): Record<string, unknown> {
  const result = checkEntry(entry, at, document, findings);
  for (const { path, problem } of workSpecProblems(result))
    findings.wrong.push(finding(document, [...at, ...path], problem));
  return result;
}

/** `flow.yaml:12: flows.hello.weight: …` */
const finding = (document: YamlDocument, at: Path, problem: string): string =>
  `${document.where(at)}: ${pathText(at)}: ${problem}`;

/**
 * Checks the known keys of one entry. Unknown keys are kept, with a warning if they look like a typo. Values from the environment are
 * text and are converted to the type of their key. Returns the entry without the keys that are wrong.
 */
function checkEntry(
  entry: Readonly<Record<string, unknown>>,
  at: Path,
  document: YamlDocument,
  findings: Findings,
  keys: Readonly<Record<string, WorkSpecField>> = workSpecKeys,
): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, given] of Object.entries(entry)) {
    const there = [...at, key];
    const known = Object.hasOwn(keys, key) ? keys[key] : undefined;
    if (known === undefined) {
      const meant = nearest(key, Object.keys(keys));
      if (meant !== null)
        findings.warnings.push(finding(document, there, `not a known key; did you mean ${meant}?`));
      setOwn(result, key, given);
      continue;
    }
    const value = document.isFromEnvironment(there) ? fromText(known, given) : given;
    const before = findings.wrong.length;
    if (value !== null && readField(known, value) === undefined)
      for (const { path, problem } of misfits(known, value, shown))
        findings.wrong.push(finding(document, [...there, ...path], problem + hint(known, value)));
    const checked =
      known.keys !== undefined && isMapping(value)
        ? checkEntry(value, there, document, findings, known.keys)
        : value;
    if (findings.wrong.length === before) setOwn(result, key, checked);
  }
  return result;
}

export function checkNameOf(kind: NameKind, name: string, where: string, { wrong }: Findings): void {
  try {
    checkName(kind, name);
  } catch (error) {
    if (!(error instanceof CoordinateError)) throw error;
    wrong.push(`${where}: ${error.message}`);
  }
}

function fromText({ kind }: WorkSpecField, value: unknown): unknown {
  if (
    typeof value !== "string" ||
    ["text", "object", "arguments", "times", "names", "weights", "choice"].includes(kind)
  )
    return value;
  if (kind === "boolean") return value === "true" ? true : value === "false" ? false : value;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(value) ? Number(value) : value;
}

/** Older YAML versions read these words as booleans, so files may still use them. */
function hint({ kind }: WorkSpecField, value: unknown): string {
  const older = kind === "boolean" && typeof value === "string" && /^(y|yes|n|no|on|off)$/i.test(value);
  return older ? "; write true or false" : "";
}
