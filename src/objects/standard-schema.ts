/**
 * Checks data with a schema of zod, valibot, arktype or any other library that follows the Standard Schema (standardschema.dev).
 * No such library is needed, and none is loaded: a schema brings its own check.
 */
import { CoordinateError } from "../core/index.ts";

/** The part of a Standard Schema that is used here. */
export interface StandardSchema<Value = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<Value> | Promise<Checked<Value>>;
    readonly types?: { readonly input: unknown; readonly output: Value } | undefined;
  };
}

type Checked<Value> =
  { readonly value: Value; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Validates a value and returns the output of the schema. Throws `bad_data`, naming the field, for an invalid value. */
export async function checkedBy<Value>(
  schema: StandardSchema<Value>,
  value: unknown,
  what: string,
): Promise<Value> {
  const checked = await schema["~standard"].validate(value);
  if (checked.issues === undefined) return checked.value;
  throw new CoordinateError("bad_data", `${what}: ${checked.issues.map(sentence).join("; ")}`);
}

function sentence({ path = [], message }: Issue): string {
  const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length === 0 ? message : `${keys.join(".")}: ${message}`;
}
