/**
 * Builds the arguments of a command from its work spec and a unit. No shell is involved: an argument with a placeholder stays one
 * argument, whatever value the unit has.
 *
 *   {name}        the name of the unit         {spec}     the name of the work spec
 *   {data.a.b}    a value of the unit's data   {attempt}  the number of the attempt
 *   {{word}}      the text {word} itself. Other braces, as in JSON or awk, are not changed
 *
 * The data of units is not trusted. Values that the program would misread are refused:
 *   - an argument that begins with "-" only after its placeholder is filled in would be read as an option. It is allowed after an
 *     argument "--", which tells most programs that no options follow;
 *   - a NUL would end the argument early, and bytes that are not UTF-8 cannot be passed to a program.
 */
import {
  CoordinateError,
  Float,
  nameFromBytes,
  Uuid,
  type DataObject,
  type DataValue,
} from "../../core/index.ts";

export interface CommandSpec {
  /** The program and the templates of its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | null;
  readonly timeoutMs: number | null;
}

/** The values of placeholders. */
export interface CommandUnit {
  readonly name: string;
  readonly spec: string;
  readonly attempt: number;
  readonly data: DataObject;
}

/** Reads the keys of a work spec. Throws `bad_work_spec` with the name of the key. */
export function readCommandSpec(data: DataObject): CommandSpec {
  const { command, env = null, cwd = null, timeout = null } = data;
  if (!Array.isArray(command) || command.length === 0)
    throw bad("command: expected a list of strings, the program first");
  const texts = command.map((argument, i) => {
    const text = argument instanceof Uint8Array ? nameFromBytes(argument) : argument;
    if (typeof text !== "string" || text.includes("\0"))
      throw bad(`command[${i}]: expected a string without NUL`);
    return text;
  });
  const [program = "", ...rest] = texts;
  if (program === "") throw bad("command[0]: expected the name of a program");
  if (placeholders(program).length > 0)
    throw bad("command[0]: the program cannot be a placeholder; a unit would choose what runs");
  for (const argument of rest) for (const place of placeholders(argument)) checkPlaceholder(place);
  if (cwd !== null && typeof cwd !== "string") throw bad("cwd: expected a string");
  if (timeout !== null && !(typeof timeout === "number" && timeout > 0))
    throw bad("timeout: expected a number of seconds above 0");
  return {
    command: [program.replace(pattern, (all) => all.slice(1, -1)), ...rest],
    env: readEnvironment(env),
    cwd,
    timeoutMs: timeout === null ? null : timeout * 1000,
  };
}

/** Returns the arguments after the program. Throws `bad_argument` with the argument when a value is missing or cannot be passed. */
export function fillArguments({ command: [, ...templates] }: CommandSpec, unit: CommandUnit): string[] {
  const end = templates.indexOf("--");
  return templates.map((template, i) => {
    const filled = template.replace(pattern, (all: string, place: string | undefined) => {
      return place === undefined ? all.slice(1, -1) : valueText(place, unit);
    });
    const where = `command[${i + 1}] (${template})`;
    if (filled.includes("\0")) throw refused(`${where} would contain a NUL`);
    if (!isText(filled)) throw refused(`${where} would contain bytes that are not UTF-8`);
    const optionBySurprise = filled.startsWith("-") && !template.startsWith("-");
    if (optionBySurprise && !(end >= 0 && end < i))
      throw refused(`${where} would begin with "-" and be taken for an option; put "--" before it`);
    return filled;
  });
}

/** Whether the text is valid Unicode. In names, a lone surrogate stands for a byte that is not UTF-8; it cannot be passed to a program. */
export const isText = (text: string): boolean => !/\p{Surrogate}/u.test(text);

const pattern = /\{\{(?:data\.[^{}]+|[A-Za-z_][\w.]*)\}\}|\{(data\.[^{}]+|[A-Za-z_][\w.]*)\}/g;

function placeholders(template: string): string[] {
  return [...template.matchAll(pattern)].flatMap(([, place]) => place ?? []);
}

function checkPlaceholder(place: string): void {
  const known = ["name", "spec", "attempt", "data"].includes(place) || /^data\..+/.test(place);
  if (!known)
    throw bad(
      `command: expected {name}, {spec}, {attempt}, {data} or {data.key}, got {${place}}; write {{${place}}} for the text {${place}}`,
    );
}

function valueText(place: string, { name, spec, attempt, data }: CommandUnit): string {
  if (place === "name") return name;
  if (place === "spec") return spec;
  if (place === "attempt") return String(attempt);
  let value: DataValue | undefined = data;
  for (const key of place.split(".").slice(1)) value = member(value, key);
  const text = value === undefined || value === null ? undefined : toText(value);
  if (text === undefined) throw refused(`{${place}}: missing in the data of the unit`);
  return text;
}

function member(value: DataValue | undefined, key: string): DataValue | undefined {
  if (Array.isArray(value)) return value[Number(key)];
  const isObject = typeof value === "object" && value !== null && !(value instanceof Uint8Array);
  return isObject && Object.hasOwn(value, key) ? (value as DataObject)[key] : undefined;
}

function toText(value: DataValue): string {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return nameFromBytes(value);
  if (value instanceof Uuid || value instanceof Float || typeof value === "bigint") return String(value);
  return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner));
}

function readEnvironment(env: DataValue): Record<string, string> {
  if (env === null) return {};
  if (typeof env !== "object" || Array.isArray(env) || env instanceof Uint8Array)
    throw bad("env: expected an object of strings");
  const entries = Object.entries(env as DataObject).map(([name, value]): [string, string] => {
    if (typeof value !== "string" || /[\0=]/.test(name) || value.includes("\0"))
      throw bad(`env.${name}: expected a string without NUL`);
    return [name, value];
  });
  return Object.fromEntries(entries);
}

const bad = (text: string): CoordinateError => new CoordinateError("bad_work_spec", text);
const refused = (text: string): CoordinateError => new CoordinateError("bad_argument", text);
