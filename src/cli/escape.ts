/**
 * Names on a terminal. A name is any bytes: it may hold an escape sequence that clears the screen, a line feed that fakes a
 * second row, or a mark that reverses the text direction. Names are therefore escaped for display. The escaped form can be typed
 * back (`--escaped`), so that every unit can be named from a shell.
 *
 *   \\ \n \r \t     as in most languages
 *   \xNN            one byte: a control character, or a byte that is no UTF-8
 *   \u{NNNN}        an invisible character or a direction mark
 */
import { Buffer } from "node:buffer";
import { nameFromBytes } from "../core/index.ts";
import { UsageError } from "./failure.ts";

/**
 * Control characters, invisible characters, direction marks, escaped bytes (lone surrogates), and the backslash that starts an
 * escape.
 */
const unsafe =
  /[\\\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const short: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(unit: string): string {
  const code = unit.charCodeAt(0);
  if (code < 0x80) return short[unit] ?? `\\x${hex(code)}`;
  return code >= 0xdc80 && code <= 0xdcff ? `\\x${hex(code - 0xdc00)}` : `\\u{${hex(code)}}`;
}

const hex = (code: number): string => code.toString(16).padStart(2, "0");

/** The name as one line, without anything that a terminal would interpret. */
export const show = (name: string): string => name.replace(unsafe, escaped);

/** For the middle of a sentence: in quotes when the name is empty or has spaces, quotes or punctuation. */
export function quote(name: string): string {
  const shown = show(name);
  return /^[^\s"'`;,()]+$/.test(shown) ? shown : `"${shown}"`;
}

/** Text of several lines, such as a traceback: keeps line feeds, tabs and backslashes, escapes the rest. */
export const showText = (text: string): string =>
  text.replace(unsafe, (unit) => (unit === "\n" || unit === "\t" || unit === "\\" ? unit : escaped(unit)));

/** JSON is safe for programs. For a terminal, the control and invisible characters that JSON allows must be escaped too. */
export const showJson = (json: string): string =>
  json.replace(
    /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Reverses `show`. */
export function unescape(text: string): string {
  const pieces: Buffer[] = [];
  let plain = 0;
  for (const match of text.matchAll(/\\(?:([\\nrt])|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|(.?))/gs)) {
    const [whole, letter, byte, code, other] = match;
    if (other !== undefined || Number.parseInt(code ?? "0", 16) > 0x10ffff)
      throw new UsageError(`${whole} is not a valid escape; write a backslash as \\\\`);
    pieces.push(Buffer.from(text.slice(plain, match.index), "utf8"));
    if (byte !== undefined) pieces.push(Buffer.of(Number.parseInt(byte, 16)));
    else if (code !== undefined) pieces.push(Buffer.from(String.fromCodePoint(Number.parseInt(code, 16))));
    else pieces.push(Buffer.from({ "\\": "\\", n: "\n", r: "\r", t: "\t" }[letter ?? "\\"] ?? ""));
    plain = match.index + whole.length;
  }
  pieces.push(Buffer.from(text.slice(plain), "utf8"));
  return nameFromBytes(Buffer.concat(pieces));
}
