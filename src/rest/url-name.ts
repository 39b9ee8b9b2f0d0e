/**
 * Names in URLs: unchanged if every character is safe, else `-` and base64url of their bytes. This is the rule of the
 * Go server, except for `.` and `..`, which URL libraries resolve as relative paths and which are encoded here.
 */
import { Buffer } from "node:buffer";
import { CoordinateError, nameFromBytes, nameToBytes } from "../core/index.ts";

const safe = /^(?!\.{1,2}$)[A-Za-z0-9._:][A-Za-z0-9._:-]*$/;

export function nameToUrl(name: string): string {
  return safe.test(name) ? name : "-" + nameToBytes(name).toString("base64url");
}

/** Decodes a segment that is already percent-decoded. Throws `bad_name`. */
export function nameFromUrl(segment: string): string {
  if (!segment.startsWith("-")) return segment;
  const digits = segment.slice(1);
  const wrong = /[^A-Za-z0-9_-]/.exec(digits);
  if (wrong !== null || digits.length % 4 === 1) {
    throw new CoordinateError(
      "bad_name",
      `: illegal base64 data at input byte ${wrong?.index ?? digits.length}`,
    );
  }
  return nameFromBytes(Buffer.from(digits, "base64url"));
}
