/** The functions that a job can run: an export of a module, or an inline function. */
import { CoordinateError } from "../core/index.ts";
import type { ActionContent } from "./action.ts";
import { versionOfModule } from "./code-version.ts";
import { inlineFunction } from "./self-contained.ts";

/**
 * An export of a module that the worker can load: a file by its path or URL (relative paths are resolved against the roots of the
 * worker), or a package. Carries the types of the function, where they are known.
 */
export interface ModuleFunction<Args extends readonly unknown[] = readonly unknown[], Result = unknown> {
  readonly module: string;
  /** "default" when absent. */
  readonly export?: string;
  /** Never set: only carries the types. */
  readonly signature?: (...args: Args) => Result;
}

/** Any function that a job can run. */
export type AnyJobFunction = Pick<ModuleFunction, "module" | "export"> | ((...args: never[]) => unknown);

/** A reference to a function of the calling module: `reference(import.meta.url, resize)`. The module must export it under its own name. */
export function reference<Args extends readonly unknown[], Result>(
  module: string | URL,
  fn: (...args: Args) => Result,
): ModuleFunction<Args, Result> {
  if (fn.name === "" || fn.name === "default" || fn.name.startsWith("bound "))
    throw new CoordinateError("bad_argument", "reference: the function has no name; use { module, export }");
  return { module: String(module), export: fn.name };
}

/**
 * Throws `bad_argument`, or `not_supported` where inline functions are not allowed. For the rules of inline
 * functions see `inlineFunction`.
 */
export function contentOf(fn: unknown, inlineAllowed: boolean): ActionContent {
  if (typeof fn === "function") {
    if (!inlineAllowed)
      throw new CoordinateError(
        "not_supported",
        "inline functions: use { module, export }, or open the jobs with inline: true",
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
  if (module.includes("\0")) throw new CoordinateError("bad_argument", "module: expected a path without NUL");
  if (/^(node|data|https?):/.test(module))
    throw new CoordinateError(
      "bad_argument",
      `module: expected a file or a package, got ${module.slice(0, 40)}`,
    );
  if (typeof methodname !== "string" || methodname === "")
    throw new CoordinateError("bad_argument", "export: expected the name of an export");
  return { kind: "module", module, methodname, code: "", version: versionOfModule(module) };
}
