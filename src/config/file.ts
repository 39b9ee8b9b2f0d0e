/** A configuration file: what it says of each setting. */
import { ConfigError } from "./config-error.ts";
import { didYouMean, nearest } from "./did-you-mean.ts";
import { isMapping, readDocument, setOwn, type Path, type YamlDocument } from "./document.ts";
import type { Environment } from "./find-file.ts";
import { readValue, sectionNames, settingsOf, wantedBy, type SectionName, type Setting } from "./settings.ts";

/** One setting as somebody gave it. */
export interface Given {
  value: string | readonly string[] | number | boolean;
  /** `coordinate.yaml:3`, `COORDINATE_TOKEN` or `--token`. */
  from: string;
}

export type GivenSettings = Map<`${SectionName}.${string}`, Given>;

export interface FileSettings {
  given: GivenSettings;
  /** Blocks that are no settings of this program, but of the programs it runs: handed on with flows. */
  application: Record<string, unknown>;
  wrong: string[];
  warnings: string[];
}

/** `logLevel`, `log-level` and `log_level` are one name. */
const plain = (name: string): string => name.replaceAll(/[-_]/g, "").toLowerCase();

export interface Known {
  section: SectionName;
  key: string;
  setting: Setting;
}

const byName = new Map<string, Known>();
for (const section of sectionNames)
  for (const [key, setting] of Object.entries(settingsOf(section))) {
    byName.set(`${section}.${plain(key)}`, { section, key, setting });
    for (const alias of setting.aliases ?? [])
      byName.set(`${section}.${plain(alias)}`, { section, key, setting });
  }

export const findSetting = (section: SectionName, name: string): Known | undefined =>
  byName.get(`${section}.${plain(name)}`);

/** Blocks of the Python programs: their settings are those of these sections. */
const pythonBlock = "coordinate";
/** Keys of that block that an old file may have and that have no effect, each with what to use instead, if anything. */
const pythonOnly: Readonly<Record<string, string>> = {
  server: "say daemon.cborrpc: HOST:PORT for host and port, daemon.http for httpd",
  job_queue: "say daemon.backend for where work is kept, and retention in a work spec for how long",
  addr_family: "",
  retries: "",
  base_retry_seconds: "",
  worker: "",
  profile: "",
  enough_memory: "give coordinate worker --gb to state the memory of a worker",
  debug_worker: "give -v to a worker",
};

/** Reads a file of settings. What is wrong is collected, with file and line; a file that cannot be read throws. */
export function readFileSettings(file: string, env: Environment): FileSettings {
  return new FileReading(readDocument(file, { env })).read();
}

class FileReading {
  readonly #document: YamlDocument;
  readonly #read: FileSettings = { given: new Map(), application: {}, wrong: [], warnings: [] };

  constructor(document: YamlDocument) {
    this.#document = document;
  }

  read(): FileSettings {
    const { value, file } = this.#document;
    if (value === null) return this.#read;
    if (!isMapping(value)) throw new ConfigError(`${file}: expected settings and their values`);
    for (const [name, inside] of Object.entries(value)) this.#top(name, inside);
    return this.#read;
  }

  #top(name: string, value: unknown): void {
    const section = sectionNames.find((one) => one === name);
    if (section !== undefined && (isMapping(value) || value === null)) {
      this.#section(section, [name], value ?? {});
      return;
    }
    if (name === pythonBlock && isMapping(value)) {
      this.#python(value);
      return;
    }
    // a file of the daemon's settings alone, or of the client's, needs no sections
    const known = findSetting("daemon", name) ?? findSetting("client", name);
    // no setting is a mapping: a block of that name is somebody else's
    if (known !== undefined && !isMapping(value)) this.#setting(known, [name], value);
    else if (section !== undefined) this.#wrong([name], "expected settings and their values", value);
    else if (isMapping(value) && nearest(name, [...sectionNames, pythonBlock]) === null)
      setOwn(this.#read.application, name, value);
    else {
      const names = [
        ...sectionNames,
        pythonBlock,
        ...Object.keys(settingsOf("daemon")),
        ...Object.keys(settingsOf("client")),
      ];
      const elsewhere = sectionNames.find((one) => findSetting(one, name) !== undefined);
      const hint = elsewhere === undefined ? didYouMean(name, names) : `; it belongs below ${elsewhere}:`;
      this.#read.wrong.push(`${this.#document.where([name])}: ${name}: there is no such setting${hint}`);
    }
  }

  #section(section: SectionName, at: Path, values: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(values)) {
      const known = findSetting(section, name);
      const there = [...at, name];
      if (known !== undefined) this.#setting(known, there, value);
      else {
        const hint = didYouMean(name, Object.keys(settingsOf(section)));
        this.#read.wrong.push(
          `${this.#document.where(there)}: ${there.join(".")}: there is no such setting${hint}`,
        );
      }
    }
  }

  /** The block of the Python programs: the client's and the worker's settings side by side. */
  #python(values: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(values)) {
      const at = [pythonBlock, name];
      const known = findSetting("client", name) ?? findSetting("worker", name);
      if (name === "fork_worker" && isMapping(value)) this.#section("worker", at, value);
      else if (known?.key === "addresses") this.#setting(known, at, pythonAddresses(value), value);
      else if (known !== undefined) this.#setting(known, at, value);
      else if (Object.hasOwn(pythonOnly, name)) {
        const instead = pythonOnly[name] ?? "";
        this.#read.warnings.push(
          `${this.#document.where(at)}: ${at.join(".")}: has no effect here${instead === "" ? "" : `; ${instead}`}`,
        );
      } else {
        const names = [
          "fork_worker",
          ...Object.keys(settingsOf("client")),
          ...Object.keys(settingsOf("worker")),
        ];
        this.#read.wrong.push(
          `${this.#document.where(at)}: ${at.join(".")}: there is no such setting${didYouMean(name, names)}`,
        );
      }
    }
  }

  /** `given` is what stands in the file, where that was read as something else. */
  #setting({ section, key, setting }: Known, at: Path, value: unknown, given = value): void {
    // a key without a value says nothing
    if (value === null) return;
    const read = readValue(setting, value);
    if (read === null)
      this.#wrong(at, `expected ${wantedBy(setting)}`, setting.secret === true ? "***" : given);
    else this.#read.given.set(`${section}.${key}`, { value: read, from: this.#document.where(at) });
  }

  #wrong(at: Path, expected: string, value: unknown): void {
    const where = this.#document.where(at);
    this.#read.wrong.push(`${where}: ${at.join(".")}: ${expected}, got ${shown(value)}`);
  }
}

/** `host:port` and `[host, port]`, as the Python client took them: these are addresses of CBOR-RPC. */
function pythonAddresses(value: unknown): unknown {
  if (Array.isArray(value) && value.length === 2 && typeof value[1] === "number")
    return [`cborrpc://${String(value[0])}:${value[1]}`];
  const items: unknown[] = Array.isArray(value) ? value : [value];
  return items.map((item) => {
    if (Array.isArray(item)) return (pythonAddresses(item) as unknown[])[0];
    return typeof item === "string" && /^[^/:]+:\d+$/.test(item) ? `cborrpc://${item}` : item;
  });
}

export function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (isMapping(value)) return "a mapping";
  const text = typeof value === "bigint" ? String(value) : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
