/**
 * Shapes of values as JSON Schema, each with the TypeScript type that it describes: the compiler checks that a shape has every
 * member of its type and no other. Wires check values against shapes; the engine checks ranges and rules.
 */
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";
import { checkName, nameLimits, type NameKind } from "./names.ts";

export interface Shape<T = unknown> {
  readonly type?: string | readonly string[];
  /** The name of the value in error messages. */
  readonly title?: string;
  readonly description?: string;
  readonly anyOf?: readonly Shape[];
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
  /** For the compiler only: never set. */
  readonly "~type"?: T;
}

/** A member that may be absent. */
export interface Maybe<T = unknown> {
  readonly maybe: Shape<T>;
}

/** The shapes of an object's members. */
export type Members<T> = {
  readonly [Key in keyof T]-?: object extends Pick<T, Key>
    ? Maybe<Exclude<T[Key], undefined>>
    : Shape<T[Key]>;
};
export type AnyMembers = Readonly<Record<string, Shape | Maybe>>;

const isMaybe = (member: Shape | Maybe): member is Maybe => "maybe" in member;

export const maybe = <T>(shape: Shape<T>): Maybe<T> => ({ maybe: shape });

export const text = (about: { title?: string; description?: string } = {}): Shape<string> => ({
  ...about,
  type: "string",
});
export const number = (about: { title?: string; description?: string } = {}): Shape<number> => ({
  ...about,
  type: "number",
});
export const integer: Shape<number> = { type: "integer" };
export const boolean = (description?: string): Shape<boolean> => ({
  ...(description !== undefined && { description }),
  type: "boolean",
});
export const nothing: Shape<void> = { type: "null" };

export const oneOf = <T extends string>(values: readonly T[]): Shape<T> => ({
  type: "string",
  enum: [...values],
});
export const nullable = <T>(shape: Shape<T>): Shape<T | null> => ({ anyOf: [shape, { type: "null" }] });
export const either = <A, B>(a: Shape<A>, b: Shape<B>, description?: string): Shape<A | B> => ({
  ...(description !== undefined && { description }),
  anyOf: [a, b],
});
export const list = <T>(items: Shape<T>): Shape<T[]> => ({ type: "array", items });

/** An object in an answer: later versions may add members. */
export const object = <T>(members: Members<T>): Shape<T> => objectOf(members);

/** An object in a request: unknown members are refused. */
export const input = <T>(members: Members<T>): Shape<T> => closed(objectOf(members));

export const closed = (shape: Shape): Shape<never> => ({
  ...(shape as Shape<never>),
  additionalProperties: false,
});

/** As `object`, for members whose type the compiler does not know. */
export function objectOf(members: AnyMembers): Shape<never> {
  const entries = Object.entries(members);
  const required = entries.filter(([, member]) => !isMaybe(member)).map(([name]) => name);
  return {
    type: "object",
    properties: Object.fromEntries(
      entries.map(([name, member]) => [name, isMaybe(member) ? member.maybe : member]),
    ),
    ...(required.length > 0 && { required }),
  };
}

/** Whether an object of these members may be left out altogether. */
export const allOptional = (members: AnyMembers): boolean => Object.values(members).every(isMaybe);

const kindOf = (value: unknown): string => {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
};

const fits = ({ type, anyOf }: Shape, kind: string): boolean => {
  if (anyOf !== undefined) return anyOf.some((one) => fits(one, kind));
  const wanted = type === "integer" ? "number" : type;
  return wanted === undefined || wanted === kind;
};

const nouns: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  integer: "an integer",
  boolean: "a boolean",
  array: "a list",
  object: "an object",
  null: "null",
};

const described = ({ type, anyOf }: Shape): string =>
  anyOf === undefined ? (nouns[String(type)] ?? "another value") : anyOf.map(described).join(" or ");

/**
 * Checks the types of a value and of its members, as deep as the shape goes. A wire without schemas must do this before the engine
 * reads from a value. Throws `bad_name` or `bad_argument`. The engine checks for missing and unknown members.
 */
export function checkShape(shape: Shape, value: unknown, at: string): void {
  const kind = kindOf(value);
  if (!fits(shape, kind)) {
    const title = titleOf(shape);
    if (title !== undefined) checkName(title, value);
    throw new CoordinateError(
      "bad_argument",
      `${at}: expected ${described(shape)}, got ${describeValue(value)}`,
    );
  }
  const { anyOf, items, properties } = shape;
  const meant = anyOf?.find((one) => fits(one, kind));
  if (meant !== undefined) checkShape(meant, value, at);
  else if (kind === "array" && items !== undefined)
    for (const item of value as unknown[]) checkShape(items, item, at);
  else if (kind === "object" && properties !== undefined)
    for (const [name, member] of Object.entries(value as Record<string, unknown>)) {
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (known !== undefined && member !== undefined) checkShape(known, member, name);
    }
}

/** The kind of name that a shape, or one of its alternatives, describes. */
function titleOf({ title, anyOf }: Shape): NameKind | undefined {
  if (title !== undefined) return Object.hasOwn(nameLimits, title) ? (title as NameKind) : undefined;
  return anyOf?.map(titleOf).find((one) => one !== undefined);
}
