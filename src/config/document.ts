/**
 * YAML (and so JSON) files written by people: configuration, flows, work specs.
 *
 * A document is plain values. It knows the file and line of every value, so that a check can say where a mistake is.
 * `!include FILE` (or `!include_yaml`) inserts another document, `!env NAME` or `!env NAME:default` a variable of the
 * environment. Merge keys (`<<`) work. No tag runs code, and any other tag is an error. Limits stop small files that expand to
 * large values: growing aliases, recursive includes, endless files.
 */
import { readFileSync, realpathSync, statSync } from "node:fs";
import path from "node:path";
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Document,
  type ScalarTag,
  type YAMLMap,
} from "yaml";
import { ConfigError } from "./config-error.ts";

export interface Location {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
}

export type Path = readonly (string | number)[];

export interface DocumentOptions {
  env?: Readonly<Record<string, string | undefined>>;
  limits?: Partial<DocumentLimits>;
}

export interface DocumentLimits {
  /** The total size of all files. */
  bytes: number;
  files: number;
  /** The number of values of all kinds; an alias counts as all the values that it stands for, each time. */
  values: number;
  /** The nesting depth, across includes. */
  depth: number;
}

export const documentLimits: DocumentLimits = {
  bytes: 16 * 1024 * 1024,
  files: 100,
  values: 1_000_000,
  depth: 100,
};

/** A parsed document. Aliases share their values: callers must not modify them. */
export class YamlDocument {
  readonly file: string;
  readonly value: unknown;
  readonly #locations: ReadonlyMap<string, Location>;
  readonly #fromEnvironment: ReadonlySet<string>;

  constructor(
    file: string,
    value: unknown,
    locations: ReadonlyMap<string, Location>,
    fromEnvironment: ReadonlySet<string>,
  ) {
    this.file = file;
    this.value = value;
    this.#locations = locations;
    this.#fromEnvironment = fromEnvironment;
  }

  /** The location of a value, or of the nearest value around it. */
  locate(at: Path): Location {
    for (let length = at.length; length >= 0; length--) {
      const location = this.#locations.get(pathText(at.slice(0, length)));
      if (location !== undefined) return location;
    }
    return { file: this.file, line: 1 };
  }

  /** `flow.yaml:12` */
  where(at: Path): string {
    const { file, line } = this.locate(at);
    return `${file}:${line}`;
  }

  /** Whether the value comes from the environment. Such a value is text, also where a number is expected. */
  isFromEnvironment(at: Path): boolean {
    return this.#fromEnvironment.has(pathText(at));
  }
}

/** Reads a file with all its includes. Throws a `ConfigError` that names file and line. */
export function readDocument(file: string, options: DocumentOptions = {}): YamlDocument {
  return new Reading(options).whole(file, null);
}

/** Parses text from another source; its includes are relative to the current directory. */
export function parseDocumentText(text: string, file: string, options: DocumentOptions = {}): YamlDocument {
  return new Reading(options).whole(file, text);
}

const pathText = (at: Path): string => at.join("\u0000");

class Include {
  readonly file: string;
  constructor(file: string) {
    this.file = file;
  }
}

class Variable {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const tags: ScalarTag[] = [
  { tag: "!include", resolve: (text) => new Include(text) },
  { tag: "!include_yaml", resolve: (text) => new Include(text) },
  { tag: "!env", resolve: (text) => new Variable(text) },
];

/** A file that is being parsed. */
interface Source {
  readonly file: string;
  readonly lines: LineCounter;
  readonly anchors: Map<string, { value: unknown; values: number }>;
}

class Reading {
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #limits: DocumentLimits;
  readonly #locations = new Map<string, Location>();
  readonly #fromEnvironment = new Set<string>();
  /** The files that are being read, by their real paths. */
  readonly #open: string[] = [];
  #bytes = 0;
  #files = 0;
  #values = 0;

  constructor({ env = {}, limits = {} }: DocumentOptions) {
    this.#env = env;
    this.#limits = { ...documentLimits, ...limits };
  }

  whole(file: string, text: string | null): YamlDocument {
    const value = text === null ? this.#file(file, [], 0, null) : this.#text(text, file, [], 0);
    return new YamlDocument(file, value, this.#locations, this.#fromEnvironment);
  }

  #file(file: string, at: Path, depth: number, from: string | null): unknown {
    const prefix = from === null ? "" : `${from}: !include `;
    const real = this.#check(file, prefix);
    this.#open.push(real);
    try {
      return this.#text(readFileSync(file, "utf8"), file, at, depth);
    } finally {
      this.#open.pop();
    }
  }

  /** The real path of a file; throws when the file may not be read. */
  #check(file: string, prefix: string): string {
    let real: string;
    let size: number;
    try {
      const stat = statSync(file);
      // a pipe or a device might never end
      if (!stat.isFile()) throw new ConfigError(`${prefix}${file}: not a regular file`);
      real = realpathSync(file);
      size = stat.size;
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      throw new ConfigError(`${prefix}${file}: ${reasonOf(error)}`);
    }
    if (this.#open.includes(real)) {
      const circle = [...this.#open.slice(this.#open.indexOf(real)), real].map((one) => path.basename(one));
      throw new ConfigError(`${prefix}${file}: includes itself: ${circle.join(" -> ")}`);
    }
    this.#files += 1;
    this.#bytes += size;
    if (this.#files > this.#limits.files)
      throw new ConfigError(`${prefix}${file}: includes more than ${this.#limits.files} files`);
    if (this.#bytes > this.#limits.bytes)
      throw new ConfigError(`${prefix}${file}: more than ${this.#limits.bytes} bytes to read`);
    return real;
  }

  #text(text: string, file: string, at: Path, depth: number): unknown {
    if (text.length > this.#limits.bytes)
      throw new ConfigError(`${file}: more than ${this.#limits.bytes} bytes to read`);
    const lines = new LineCounter();
    let document: Document.Parsed;
    try {
      document = parseDocument(text.replace(/^\ufeff/, ""), {
        lineCounter: lines,
        prettyErrors: false,
        customTags: tags,
        intAsBigInt: true,
        // checked below: the library compares every pair of keys
        uniqueKeys: false,
        // reports a second document in the file as an error, and prints nothing
        logLevel: "error",
      });
    } catch (error) {
      // ten thousands of nested brackets
      if (error instanceof RangeError) throw new ConfigError(`${file}: nested too deep`);
      throw error;
    }
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) {
      const unknownTag = /^Unresolved tag: (.*)$/.exec(problem.message)?.[1];
      const message =
        problem.code === "RESOURCE_EXHAUSTION"
          ? "nested too deep"
          : unknownTag === undefined
            ? problem.message
            : `unknown tag ${unknownTag}; expected !include FILE, !include_yaml FILE or !env NAME`;
      throw new ConfigError(`${file}:${lines.linePos(problem.pos[0]).line}: ${message}`);
    }
    return this.#value(document.contents, at, depth, { file, lines, anchors: new Map() });
  }

  /** The value of a node. Counts values as they are created; an alias counts as all the values that it stands for. */
  #value(node: unknown, at: Path, depth: number, source: Source): unknown {
    const line = lineOf(node, source);
    const where = `${source.file}:${line}`;
    if (depth > this.#limits.depth) throw new ConfigError(`${where}: nested too deep`);
    this.#count(1, where);
    const key = pathText(at);
    if (!this.#locations.has(key)) this.#locations.set(key, { file: source.file, line });
    if (isAlias(node)) {
      const anchor = source.anchors.get(node.source);
      if (anchor === undefined) throw new ConfigError(`${where}: *${node.source}: no such anchor before it`);
      this.#count(anchor.values, where);
      return anchor.value;
    }
    const before = this.#values;
    const value = this.#content(node, at, depth, source, where);
    const name = isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined;
    if (name !== undefined) source.anchors.set(name, { value, values: this.#values - before });
    return value;
  }

  #content(node: unknown, at: Path, depth: number, source: Source, where: string): unknown {
    if (isMap(node)) return this.#map(node, at, depth, source, where);
    if (isSeq(node)) return node.items.map((item, i) => this.#value(item, [...at, i], depth + 1, source));
    const value: unknown = isScalar(node) ? node.value : null;
    if (value instanceof Include) {
      const file = path.isAbsolute(value.file)
        ? value.file
        : path.join(path.dirname(source.file), value.file);
      return this.#file(file, at, depth + 1, where);
    }
    if (value instanceof Variable) {
      this.#fromEnvironment.add(pathText(at));
      return this.#variable(value.text, where);
    }
    if (typeof value === "bigint") {
      const number = Number(value);
      return Number.isSafeInteger(number) ? number : value;
    }
    return value ?? null;
  }

  #map(map: YAMLMap, at: Path, depth: number, source: Source, where: string): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    const merged: Record<string, unknown>[] = [];
    for (const { key: keyNode, value: valueNode } of map.items) {
      const there = `${source.file}:${lineOf(keyNode, source)}`;
      const key = keyText(keyNode, there);
      const inside = [...at, key];
      // report a mistake in a value at the line of its key
      this.#locations.set(pathText(inside), { file: source.file, line: lineOf(keyNode, source) });
      const value = this.#value(valueNode, inside, depth + 1, source);
      if (key === "<<" && isScalar(keyNode) && keyNode.type === "PLAIN") {
        merged.push(...mergedMaps(value, there));
        continue;
      }
      if (Object.hasOwn(object, key)) throw new ConfigError(`${there}: ${key} is given twice`);
      setOwn(object, key, value);
    }
    for (const other of merged)
      for (const [key, value] of Object.entries(other)) {
        this.#count(1, where);
        if (!Object.hasOwn(object, key)) setOwn(object, key, value);
      }
    return object;
  }

  #variable(text: string, where: string): string {
    const [, name = "", , otherwise] = /^([A-Za-z_][A-Za-z0-9_]*)(:(.*))?$/s.exec(text.trim()) ?? [];
    if (name === "") throw new ConfigError(`${where}: !env ${text}: expected NAME or NAME:DEFAULT`);
    const value = this.#env[name] ?? otherwise;
    if (value === undefined)
      throw new ConfigError(`${where}: !env ${name}: this environment variable is not set`);
    return value;
  }

  #count(values: number, where: string): void {
    this.#values += values;
    if (this.#values > this.#limits.values)
      throw new ConfigError(
        `${where}: more than ${this.#limits.values} values; check for aliases that expand to other aliases`,
      );
  }
}

function lineOf(node: unknown, { lines }: Source): number {
  const range = isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range : undefined;
  return Math.max(1, lines.linePos(range?.[0] ?? 0).line);
}

function keyText(node: unknown, where: string): string {
  if (!isScalar(node)) throw new ConfigError(`${where}: a key must be a string`);
  const { value } = node;
  if (value instanceof Include || value instanceof Variable)
    throw new ConfigError(`${where}: a key cannot use !include or !env`);
  if (typeof value === "string") return value;
  if (typeof value === "bigint" || typeof value === "number" || typeof value === "boolean")
    return String(value);
  return "";
}

function mergedMaps(value: unknown, where: string): Record<string, unknown>[] {
  const maps: unknown[] = Array.isArray(value) ? value : [value];
  return maps.map((map) => {
    if (!isMapping(map)) throw new ConfigError(`${where}: <<: expected a mapping, or a list of them`);
    return map;
  });
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Sets a property, also `__proto__`, which is a key like any other. */
export function setOwn(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

/** Why a file could not be read, without its path and the system call. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? String(error.code) : "";
  const known: Record<string, string> = {
    ENOENT: "no such file",
    EACCES: "permission denied",
    EPERM: "operation not permitted",
    EISDIR: "is a directory",
    ENOTDIR: "part of the path is not a directory",
    ENAMETOOLONG: "the name is too long",
    ELOOP: "too many symbolic links",
    ENOSPC: "no space left on the disk",
    EROFS: "read-only file system",
  };
  return known[code] ?? error.message;
}
