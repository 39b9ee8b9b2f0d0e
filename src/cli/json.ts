/**
 * JSON for people and scripts. Rows hold data dictionaries as the text or bytes that they arrived in; printed, they
 * are objects again, with every number as it was written.
 */
import { dataToJson, type Data } from "../core/index.ts";

/** Text that is JSON already. */
class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const rawText = (json: string): unknown => new RawJson(json);

/** Data as a part of what is printed. */
export const rawData = (data: Data | null): unknown =>
  data === null ? null : new RawJson(dataToJson(data).text);

/** A row, or anything made of rows, with every member called `data` as the object that it is. */
export function withData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withData);
  if (typeof value !== "object" || value === null || value instanceof RawJson) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      key === "data" && (typeof member === "string" || member instanceof Uint8Array)
        ? rawData(member as Data)
        : withData(member),
    ]),
  );
}

/** As JSON.stringify, which cannot leave a part alone. Raw parts stay as they are, whatever the indent. */
export function writeJson(value: unknown, indent = 0, at = 0): string {
  if (value instanceof RawJson) return indent === 0 ? value.text : reindent(value.text, indent, at);
  if (typeof value === "bigint") return String(value);
  if (value === undefined) return "null";
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const open = indent === 0 ? "" : `\n${" ".repeat(at + indent)}`;
  const close = indent === 0 ? "" : `\n${" ".repeat(at)}`;
  const separator = indent === 0 ? "," : `,${open}`;
  if (Array.isArray(value)) {
    const items = value.map((item) => writeJson(item, indent, at + indent));
    return items.length === 0 ? "[]" : `[${open}${items.join(separator)}${close}]`;
  }
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(
      ([key, member]) =>
        `${JSON.stringify(key)}:${indent === 0 ? "" : " "}${writeJson(member, indent, at + indent)}`,
    );
  return members.length === 0 ? "{}" : `{${open}${members.join(separator)}${close}}`;
}

/** JSON text with other white space; strings and numbers are copied, not read. */
function reindent(text: string, indent: number, at: number): string {
  let out = "";
  let depth = at;
  let last = "";
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs)) {
    const empty = (last === "{" && token === "}") || (last === "[" && token === "]");
    if (token === "}" || token === "]") depth -= indent;
    if ((token === "}" || token === "]") && !empty) out += `\n${" ".repeat(depth)}`;
    else if ((last === "{" || last === "[" || last === ",") && !empty) out += `\n${" ".repeat(depth)}`;
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += indent;
    last = token;
  }
  return out;
}
