/** Reads the settings of a configuration file. */
import { ConfigError, type Mistake } from "./config-error.ts";
import { didYouMean, nearest } from "./did-you-mean.ts";
import { isMapping, readDocument, setOwn, type Path, type YamlDocument } from "./document.ts";
import type { Environment } from "./find-file.ts";
import { readValue, sectionNames, settingsOf, wantedBy, type SectionName, type Setting } from "./settings.ts";

/** The value of a setting and its source. */
interface Given {
  value: string | readonly string[] | number | boolean;
  /** `coordinate.yaml:3`, `COORDINATE_TOKEN` or `--token`. */
  from: string;
}

export type GivenSettings = Map<`${SectionName}.${string}`, Given>;

export interface FileSettings {
  given: GivenSettings;
  /** Blocks for the programs that do the work: passed on with flows. */
  application: Record<string, unknown>;
  wrong: Mistake[];
  warnings: string[];
}

/** `logLevel`, `log-level` and `log_level` are the same name. */
const plain = (name: string): string => name.replaceAll(/[-_]/g, "").toLowerCase();

interface Known {
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

const findSetting = (section: SectionName, name: string): Known | undefined =>
  byName.get(`${section}.${plain(name)}`);

/** The block of the Python programs; its settings belong to the sections client and worker. */
const pythonBlock = "coordinate";
/** Keys of that block that old files may have and that have no effect, each with its replacement, if any. */
const pythonOnly: Readonly<Record<string, string>> = {
  server: "use daemon.cborrpc: HOST:PORT for host and port, daemon.http for httpd",
  job_queue: "use daemon.backend for the store, and retention in a work spec for how long units are kept",
  addr_family: "",
  retries: "",
  base_retry_seconds: "",
  worker: "",
  profile: "",
  enough_memory: "use coordinate worker --gb for the memory of a worker",
  debug_worker: "use coordinate worker -v",
};

/** Reads a file of settings. Collects mistakes with file and line; throws when the file cannot be read. */
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
    if (!isMapping(value)) throw new ConfigError(`${file}: expected a mapping of settings`);
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
    // the settings of the daemon and the client may also be at the top level, without a section
    const known = findSetting("daemon", name) ?? findSetting("client", name);
    // no setting is a mapping: a mapping with the name of a setting is a block of the application
    if (known !== undefined && !isMapping(value)) this.#setting(known, [name], value);
    else if (section !== undefined) this.#wrong([name], "expected a mapping of settings", value);
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
      const hint =
        elsewhere === undefined ? didYouMean(name, names) : `; it belongs to the section ${elsewhere}:`;
      this.#unknown([name], hint);
    }
  }

  #section(section: SectionName, at: Path, values: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(values)) {
      const known = findSetting(section, name);
      const there = [...at, name];
      if (known !== undefined) this.#setting(known, there, value);
      else this.#unknown(there, didYouMean(name, Object.keys(settingsOf(section))));
    }
  }

  /** Reads the block of the Python programs, which mixes settings of the client and the worker. */
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
        this.#unknown(at, didYouMean(name, names));
      }
    }
  }

  /** `given` is the value in the file, when it was converted to `value`. */
  #setting({ section, key, setting }: Known, at: Path, value: unknown, given = value): void {
    // a key without a value sets nothing
    if (value === null) return;
    const read = readValue(setting, value);
    if (read === null)
      this.#wrong(at, `expected ${wantedBy(setting)}`, setting.secret === true ? "***" : given);
    else this.#read.given.set(`${section}.${key}`, { value: read, from: this.#document.where(at) });
  }

  #unknown(at: Path, hint: string): void {
    this.#read.wrong.push({
      unknown: `${this.#document.where(at)}: ${at.join(".")}: no such setting${hint}`,
    });
  }

  #wrong(at: Path, expected: string, value: unknown): void {
    const where = this.#document.where(at);
    this.#read.wrong.push(`${where}: ${at.join(".")}: ${expected}, got ${shown(value)}`);
  }
}

/** Converts `host:port` and `[host, port]`, the address forms of the Python client, to addresses of CBOR-RPC. */
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
