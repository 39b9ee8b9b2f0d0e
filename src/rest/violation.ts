/** Turns a schema violation of a request body into an error of the engine. */
import { CoordinateError, nameLimits } from "../core/index.ts";
import { cut } from "./errors.ts";

export interface Violation {
  keyword: string;
  instancePath: string;
  message?: string;
  params: Record<string, unknown>;
  data?: unknown;
  parentSchema?: { title?: string; properties?: Record<string, { title?: string } | undefined> };
}

/** The same error that the engine would throw for the body. */
export function invalid(violations: readonly Violation[]): CoordinateError {
  // of the branches of a union, the one that matched deepest is probably the intended one
  const depth = ({ instancePath }: Violation): number => instancePath.split("/").length;
  const first = violations.reduce<Violation | undefined>(
    (best, one) => (best === undefined || depth(one) > depth(best) ? one : best),
    undefined,
  );
  if (first === undefined) return new CoordinateError("bad_argument", "body");
  const { keyword, params, parentSchema } = first;
  const at = (member?: string): string => {
    const path = first.instancePath.slice(1).replaceAll("/", ".");
    const field = [path, ...(member === undefined ? [] : [cut(member)])]
      .filter((part) => part !== "")
      .join(".");
    const item = /^(\w+)\.(\d+)\.(.+)$/.exec(field);
    return item === null ? field || "body" : `item ${item[2]} of ${item[1]}: ${item[3]}`;
  };
  if (keyword === "additionalProperties") {
    return new CoordinateError("bad_argument", `${at(String(params.additionalProperty))}: unknown field`);
  }
  if (keyword === "required") {
    const missing = String(params.missingProperty);
    const kind = parentSchema?.properties?.[missing]?.title;
    if (isNameKind(kind)) return new CoordinateError("bad_name", `${kind}: missing in ${at(missing)}`);
    if (missing === "data") return new CoordinateError("bad_data", `work spec: missing in ${at(missing)}`);
    return new CoordinateError(
      "bad_argument",
      `${kind === undefined ? "" : kind + ", "}${at(missing)}: missing`,
    );
  }
  const title = parentSchema?.title;
  if (isNameKind(title)) {
    return new CoordinateError(
      "bad_name",
      `${title}: expected a string, got a ${typeof first.data}, in ${at()}`,
    );
  }
  return new CoordinateError(
    "bad_argument",
    `${title === undefined ? "" : title + ", "}${at()}: ${first.message ?? "not valid"}`,
  );
}

const isNameKind = (title: string | undefined): boolean =>
  title !== undefined && Object.hasOwn(nameLimits, title);
