/**
 * JSON for people and scripts. Rows hold data dictionaries as the text or bytes that they arrived in. They are printed as
 * objects, with every number exactly as it was written.
 */
import { dataToJson, jsonText, type Data } from "../core/index.ts";

/** Text that is JSON already. */
class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const rawText = (json: string): unknown => new RawJson(json);

/** A data dictionary as a part of the printed JSON. */
export const rawData = (data: Data | null): unknown =>
  data === null ? null : new RawJson(dataToJson(data).text);

/** A row, or any structure of rows, with every member called `data` turned into raw JSON. */
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

/** Like JSON.stringify, but copies raw parts: an indent changes only their white space. */
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

/** Changes the white space of JSON text; copies strings and numbers without parsing them. */
function reindent(text: string, indent: number, at: number): string {
  let out = "";
  let depth = at;
  let last = "";
  for (const token of tokens(text)) {
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

/** Not by a regular expression: one with a repeated group overflows the stack on strings of megabytes. */
function* tokens(text: string): Generator<string> {
  for (let at = jsonText.skipSpace(text, 0); at < text.length;) {
    const end = "[]{},:".includes(text[at]!) ? at + 1 : jsonText.jsonValueEnd(text, at);
    yield text.slice(at, end);
    at = jsonText.skipSpace(text, end);
  }
}
