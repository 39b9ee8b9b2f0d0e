/** Media types and their negotiation, like the Go server: four names for the same JSON. */
import { HttpError } from "./errors.ts";

export const v1Json = "application/vnd.diffeo.coordinate.v1+json";
export const jsonTypes = [
  v1Json,
  "application/vnd.diffeo.coordinate+json",
  "application/json",
  "text/json",
] as const;
export const ndjson = "application/x-ndjson";
/** Many requests and their answers over one connection: see calls.ts. */
export const callsType = "application/x-coordinate-calls";

/** The type for a range of an Accept header, and its rank: an exact type ranks above half a wildcard, and that above a full one. */
function rangeType(range: string): { type: string; rank: number } | null {
  if (range === "*/*") return { type: v1Json, rank: 1 };
  if (range === "application/*") return { type: v1Json, rank: 2 };
  if (range === "text/*") return { type: "text/json", rank: 2 };
  return (jsonTypes as readonly string[]).includes(range) ? { type: range, rank: 3 } : null;
}

const token = /^[\w!#$%&'*+.^`|~-]+$/;

/** The type of the answer. Throws 406 if none is acceptable and 400 if the header is malformed. */
export function negotiate(accept: string | undefined): string {
  if (accept === undefined || accept === "" || accept === v1Json) return v1Json;
  let best: { type: string; rank: number; q: number } | null = null;
  for (const part of accept.split(",")) {
    const [range = "", ...params] = part.split(";").map((piece) => piece.trim());
    const [major = "", minor = "", extra] = range.toLowerCase().split("/");
    if (!token.test(major) || !token.test(minor) || extra !== undefined) throw badAccept();
    const q = quality(params);
    const found = rangeType(`${major}/${minor}`);
    if (found === null || q === 0) continue;
    if (best === null || q > best.q || (q === best.q && found.rank > best.rank)) best = { ...found, q };
  }
  if (best === null) throw new HttpError("not_acceptable", "No acceptable representation for response");
  return best.type;
}

function quality(params: readonly string[]): number {
  for (const param of params) {
    const match = /^q\s*=\s*(.*)$/i.exec(param);
    if (match === null) continue;
    const q = /^\d*\.?\d+$|^\d+\.$/.test(match[1] ?? "") ? Number(match[1]) : NaN;
    if (!(q >= 0 && q <= 1)) throw badAccept();
    return q;
  }
  return 1;
}

const badAccept = (): HttpError => new HttpError("bad_request", "Invalid Accept: header");

/** A browser that loads a page accepts HTML; programs do not. */
export const wantsPage = (accept: string | undefined): boolean => accept?.includes("text/html") === true;
