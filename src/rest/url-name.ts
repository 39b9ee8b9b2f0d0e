/**
 * Names in URLs: as they are when every character is harmless, else `-` and base64url of their bytes. The rule is the
 * Go server's, but for `.` and `..`, which every URL library takes for something else and which are encoded here.
 */
import { Buffer } from "node:buffer";
import { CoordinateError, nameFromBytes, nameToBytes } from "../core/index.ts";

const safe = /^(?!\.{1,2}$)[A-Za-z0-9._:][A-Za-z0-9._:-]*$/;

export function nameToUrl(name: string): string {
  return safe.test(name) ? name : "-" + nameToBytes(name).toString("base64url");
}

/** From a segment that is percent-decoded already. Throws `bad_name`. */
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
