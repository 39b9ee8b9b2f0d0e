/** What a job can be told to run: an export of a module, or a function as it is written. */
import { CoordinateError } from "../core/index.ts";
import type { ActionContent } from "./action.ts";
import { versionOfModule } from "./code-version.ts";
import { inlineFunction } from "./self-contained.ts";

/**
 * An export of a module that the worker can load: a file by its path or URL, relative paths counting from the roots of
 * the worker; or a package. The types of the function come along, where they are known.
 */
export interface ModuleFunction<Args extends readonly unknown[] = readonly unknown[], Result = unknown> {
  readonly module: string;
  /** "default" when absent. */
  readonly export?: string;
  /** Never there: carries the types. */
  readonly signature?: (...args: Args) => Result;
}

/** Any of them. */
export type AnyJobFunction = Pick<ModuleFunction, "module" | "export"> | ((...args: never[]) => unknown);

/**
 * Names a function of the module that calls this: `reference(import.meta.url, resize)`. It must be exported by its own name.
 */
export function reference<Args extends readonly unknown[], Result>(
  module: string | URL,
  fn: (...args: Args) => Result,
): ModuleFunction<Args, Result> {
  if (fn.name === "" || fn.name === "default" || fn.name.startsWith("bound "))
    throw new CoordinateError(
      "bad_argument",
      "reference: the function has no name of its own; say { module, export }",
    );
  return { module: String(module), export: fn.name };
}

/** Throws `bad_argument`; what an inline function must be like, see `inlineFunction`. */
export function contentOf(fn: unknown, inlineAllowed: boolean): ActionContent {
  if (typeof fn === "function") {
    if (!inlineAllowed)
      throw new CoordinateError(
        "not_supported",
        "functions as they are written: name a module, or open the jobs with inline: true",
      );
    return {
      kind: "inline",
      module: "",
      version: "",
      ...inlineFunction(fn as (...args: never[]) => unknown),
    };
  }
  if (typeof fn !== "object" || fn === null)
    throw new CoordinateError("bad_argument", `expected { module, export } or a function, got ${typeof fn}`);
  const { module, export: methodname = "default" } = fn as Partial<ModuleFunction>;
  if (typeof module !== "string" || module === "")
    throw new CoordinateError("bad_argument", "module: expected a path or a package");
  if (module.includes("\0")) throw new CoordinateError("bad_argument", "module: a path has no NUL");
  if (/^(node|data|https?):/.test(module))
    throw new CoordinateError("bad_argument", `module: ${module.slice(0, 40)}: expected a file or a package`);
  if (typeof methodname !== "string" || methodname === "")
    throw new CoordinateError("bad_argument", "export: expected the name of an export");
  return { kind: "module", module, methodname, code: "", version: versionOfModule(module) };
}
