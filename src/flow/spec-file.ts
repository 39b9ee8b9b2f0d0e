/** A file of one work spec, for `load -w`: YAML or JSON with a `name`. The configuration in effect is not added. */
import { ConfigError, isMapping, shown, type YamlDocument } from "../config/index.ts";
import { checkSpec, checkNameOf, type Findings } from "./spec-entry.ts";

export interface SpecFile {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly warnings: readonly string[];
}

/** Throws a `ConfigError` that lists all errors. */
export function readSpecFile(document: YamlDocument): SpecFile {
  const { value, file } = document;
  if (!isMapping(value))
    throw new ConfigError(`${file}: expected a mapping with the keys of a work spec, got ${shown(value)}`);
  const findings: Findings = { wrong: [], warnings: [] };
  const data = checkSpec(value, [], document, findings);
  const { name } = data;
  if (typeof name === "string") checkNameOf("work spec", name, `${document.where(["name"])}: name`, findings);
  else if (!Object.hasOwn(value, "name")) {
    const flow = Object.hasOwn(value, "flows") ? "; this is a flow file: use coordinate flow" : "";
    findings.wrong.push(`${file}: a work spec must have a name${flow}`);
  }
  if (findings.wrong.length > 0) throw new ConfigError(findings.wrong.join("\n"));
  return { name: String(name), data, warnings: findings.warnings };
}
