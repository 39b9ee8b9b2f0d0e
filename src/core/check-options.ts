/** Checks option names: without it, an option misspelt by a caller without type checks would be ignored silently. */
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";
import { sameWordAs, closestName } from "./closest-name.ts";

/** Throws `bad_argument` for an unknown option, and suggests the one that was probably meant. */
export function checkOptions(of: string, options: object, known: readonly string[]): void {
  const given: unknown = options;
  if (typeof given !== "object" || given === null)
    throw new CoordinateError("bad_argument", `options: expected an object, got ${describeValue(given)}`);
  for (const key of Object.keys(given))
    if (!known.includes(key))
      throw new CoordinateError("bad_argument", `${key}: not an option of ${of}${suggestion(key, known)}`);
}

function suggestion(key: string, known: readonly string[]): string {
  const meant =
    closestName(key, known) ??
    sameWordAs(key, known) ??
    known.find((one) => key !== "" && one.startsWith(key));
  if (meant !== undefined) return `; did you mean ${meant}?`;
  return known.length > 6 ? "" : `; the options are ${known.join(", ")}`;
}
