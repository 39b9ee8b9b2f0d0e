/**
 * Loads the function of an action. Functions of modules are loaded only from files below the roots of the worker. Inline
 * functions are compiled after their hash was checked. Both are cached for later jobs.
 */
import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { constants, runInThisContext } from "node:vm";
import { verifyAction, type Action } from "../action.ts";
import { versionOfFile } from "../code-version.ts";

type JobFunction = (...args: unknown[]) => unknown;

export interface Loaded {
  readonly fn: JobFunction;
  /** The version of the module's code that runs here; "" for an inline function. */
  readonly version: string;
}

/** Thrown for a function that cannot be loaded. The message is for the person who scheduled the job; the stack is not shown. */
export class LoadError extends Error {
  override readonly name = "LoadError";
}

/** The maximum number of cached functions. The oldest is dropped, and loaded again when it is needed. */
const maxKept = 500;

export class Loader {
  readonly #roots: readonly string[];
  readonly #inline: boolean;
  /** The cache, by the key of the action. */
  readonly #loaded = new Map<string, Loaded>();
  /** The version of each file when it was first loaded: Node loads a module only once. */
  readonly #versions = new Map<string, string>();

  constructor(options: { roots: readonly string[]; inline: boolean }) {
    this.#roots = options.roots.map((root) => realpathSync(path.resolve(root)));
    this.#inline = options.inline;
  }

  /** Throws a `LoadError`, or what the module throws when it is loaded. */
  async load(action: Action): Promise<Loaded> {
    // the content of a key never changes, and it was verified when it was loaded
    const known = this.#loaded.get(action.key);
    if (known !== undefined) return known;
    verifyAction(action);
    const loaded = action.kind === "inline" ? this.#compile(action) : await this.#import(action);
    this.#loaded.set(action.key, loaded);
    const [oldest] = this.#loaded.keys();
    if (this.#loaded.size > maxKept && oldest !== undefined) this.#loaded.delete(oldest);
    return loaded;
  }

  #compile({ key, code, methodname }: Action): Loaded {
    if (!this.#inline) throw new LoadError("this worker does not run inline functions");
    const fn: unknown = runInThisContext(`(${code}\n)`, {
      filename: `inline:${methodname}#${key.slice(0, 12)}`,
      // import() inside the function works as in any module; Node's permissions decide what it may load
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    if (typeof fn !== "function") throw new LoadError(`action ${key} is not a function`);
    return { fn: fn as JobFunction, version: "" };
  }

  async #import({ module, methodname }: Action): Promise<Loaded> {
    const file = this.#find(module);
    const version = this.#versions.get(file) ?? versionOfFile(file);
    this.#versions.set(file, version);
    const exported = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
    const found = Object.hasOwn(exported, methodname) ? exported[methodname] : undefined;
    if (typeof found === "function") return { fn: found as JobFunction, version };
    const functions = Object.keys(exported).filter((name) => typeof exported[name] === "function");
    const have = functions.length === 0 ? "no functions" : functions.join(", ");
    throw new LoadError(
      found === undefined
        ? `module ${module} has no export ${methodname}; it exports ${have}`
        : `export ${methodname} of module ${module} is not a function`,
    );
  }

  /** The file of a module. With symbolic links resolved, it must be below one of the roots. */
  #find(module: string): string {
    let outside = false;
    for (const root of this.#roots) {
      const file = resolveIn(root, module);
      if (file === null) continue;
      const real = realpathSync(file);
      if (this.#roots.some((one) => isBelow(one, real))) return real;
      outside = true;
    }
    const where = `the folders that this worker loads from (${this.#roots.join(", ")})`;
    if (outside) throw new LoadError(`module ${module} is outside ${where}`);
    // without ./ it is the name of a package
    const isFile = this.#roots.some((root) => existing(path.resolve(root, module)) !== null);
    throw new LoadError(`no module ${module} in ${where}${isFile ? `; did you mean ./${module}?` : ""}`);
  }
}

/** A file, or the file of a package as resolved from the root; null when there is none. */
function resolveIn(root: string, module: string): string | null {
  if (module.startsWith("file:")) return existing(fileURLToPath(module));
  if (/^\.{0,2}\//.test(module)) return existing(path.resolve(root, module));
  try {
    const found = createRequire(path.join(root, "noname.js")).resolve(module);
    return path.isAbsolute(found) ? found : null;
  } catch {
    return null; // no such package in this root; the caller throws when no root has it
  }
}

const existing = (file: string): string | null => (existsSync(file) ? file : null);

const isBelow = (root: string, file: string): boolean => {
  const relative = path.relative(root, file);
  return relative !== "" && !relative.startsWith("..") && !path.isAbsolute(relative);
};
