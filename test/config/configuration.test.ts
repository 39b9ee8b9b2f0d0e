import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { parse } from "yaml";
import { afterAll, describe, expect, test } from "vitest";
import {
  ConfigError,
  configurationSchema,
  defaultConfiguration,
  difference,
  dumpConfiguration,
  help,
  isSecretKey,
  jobConfiguration,
  nearest,
  overlay,
  readConfiguration,
  readConfig,
  type Configuration,
  type ConfigurationRequest,
} from "../../src/config/index.ts";

// loaded with require: in the CommonJS module the types export the class in another place than the code
const Ajv = createRequire(import.meta.url)("ajv") as new () => {
  compile(schema: object): (value: unknown) => boolean;
};

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-configuration-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
let made = 0;

function file(text: string): string {
  const full = path.join(directory, `${made++}.yaml`);
  writeFileSync(full, text);
  return full;
}

const read = (text: string, request: Partial<ConfigurationRequest> = {}): Configuration =>
  readConfiguration({ env: {}, file: file(text), ...request });

const wrong = (text: string, request: Partial<ConfigurationRequest> = {}): string => {
  try {
    read(text, request);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return "";
};

describe("where settings come from", () => {
  test("defaults, under the file, under the environment, under flags; and each knows its source", () => {
    const name = file(
      "client:\n  namespace: of the file\n  token: t1\nworker:\n  num_workers: 3\n  poll_interval: 0.5\n",
    );
    const configuration = readConfiguration({
      env: { COORDINATE_NAMESPACE: "of the environment", COORDINATE_NUM_WORKERS: "4" },
      file: name,
      flags: { client: { namespace: "of a flag" } },
    });
    expect(configuration.client).toMatchObject({
      namespace: "of a flag",
      token: "t1",
      addresses: ["http://127.0.0.1:5980"],
    });
    expect(configuration.worker).toMatchObject({ num_workers: 4, poll_interval: 0.5, child_lifetime: 10 });
    expect(Object.fromEntries(configuration.sources)).toEqual({
      "client.namespace": "--namespace",
      "client.token": `${name}:3`,
      "worker.num_workers": "COORDINATE_NUM_WORKERS",
      "worker.poll_interval": `${name}:6`,
    });
  });

  test("the settings of the Python worker, with their names and defaults", () => {
    expect(defaultConfiguration().worker).toEqual({
      worker_job_fetch: 1,
      default_lifetime: 900,
      num_workers: 0,
      num_workers_per_core: 1,
      poll_interval: 1,
      spawn_interval: 0.1,
      heartbeat_interval: 15,
      child_lifetime: 10,
      stop_jobs_early: 15,
      available_gb: 0,
    });
    expect(defaultConfiguration().jobs).toEqual({ workers_nr_min: 1, workers_nr_max: 0 });
  });

  test("the file is the one that is named, else the one of the variable, else ./coordinate.yaml, else the user's", () => {
    const home = path.join(directory, "home");
    const here = path.join(directory, "here");
    mkdirSync(path.join(home, ".config", "coordinate"), { recursive: true });
    mkdirSync(here);
    const namespaceOf = (request: Partial<ConfigurationRequest>): string =>
      readConfiguration({ env: { HOME: home }, directory: here, ...request }).client.namespace;
    expect(namespaceOf({})).toBe("");
    writeFileSync(path.join(home, ".config", "coordinate", "coordinate.yaml"), "namespace: user\n");
    expect(namespaceOf({})).toBe("user");
    writeFileSync(path.join(here, "coordinate.yaml"), "namespace: here\n");
    expect(namespaceOf({})).toBe("here");
    const env = { HOME: home, COORDINATE_CONFIG: file("namespace: variable\n") };
    expect(namespaceOf({ env })).toBe("variable");
    expect(namespaceOf({ env, file: file("namespace: named\n") })).toBe("named");
    expect(() => namespaceOf({ file: path.join(directory, "nothing") })).toThrow("no such file");
  });

  test("several addresses, by all their names", () => {
    expect(read("client:\n  address: http://a:1\n").client.addresses).toEqual(["http://a:1"]);
    expect(read("addresses: [http://a:1, http://b:2]\n").client.addresses).toEqual([
      "http://a:1",
      "http://b:2",
    ]);
    const of = (env: Record<string, string>): readonly string[] =>
      readConfiguration({ env, directory }).client.addresses;
    expect(of({ COORDINATE_ADDRESS: "http://a:1,http://b:2" })).toEqual(["http://a:1", "http://b:2"]);
    expect(of({ COORDINATE_URL: "http://c:1" })).toEqual(["http://c:1"]);
    expect(of({ COORDINATE_URL: "http://c:1", COORDINATE_ADDRESSES: "http://d:1" })).toEqual(["http://d:1"]);
  });

  test("a file of the Python programs", () => {
    const { client, worker, application, warnings } = read(`
yakonfig: {}
logging: {root: {level: INFO}}
coordinate:
  addresses: ["h:5932", [g, 5933], "http://x:5980"]
  namespace: old
  worker_job_fetch: 7
  server: {port: 5932}
  fork_worker: {num_workers: 2, stop_jobs_early: 20}
`);
    expect(client).toMatchObject({
      addresses: ["cborrpc://h:5932", "cborrpc://g:5933", "http://x:5980"],
      namespace: "old",
    });
    expect(worker).toMatchObject({ worker_job_fetch: 7, num_workers: 2, stop_jobs_early: 20 });
    expect(application).toEqual({ yakonfig: {}, logging: { root: { level: "INFO" } } });
    expect(warnings).toEqual([
      expect.stringMatching(/:8: coordinate\.server: has no effect here; use daemon.cborrpc/),
    ]);
  });
});

describe("mistakes", () => {
  test("all at once, with file and line, and what was meant", () => {
    const lines = wrong(
      "daemon:\n  sweepMss: 5\n  graceMs: soon\n  clock: manul\nclient:\n  tokn: x\nworkr:\n  a: 1\nnum_workers: 3\n",
      { env: { COORDINATE_NUM_WORKERS: "many" } },
    ).split("\n");
    expect(lines.map((line) => line.replace(/^.*\/\d+\.yaml/, "F"))).toEqual([
      "F:2: daemon.sweepMss: no such setting; did you mean sweepMs?",
      'F:3: daemon.graceMs: expected an integer of 0 or more, got "soon"',
      'F:4: daemon.clock: expected one of system, manual, got "manul"',
      "F:6: client.tokn: no such setting; did you mean token?",
      "F:7: workr: no such setting; did you mean worker?",
      "F:9: num_workers: no such setting; it belongs to the section worker:",
      'COORDINATE_NUM_WORKERS: expected an integer of 0 or more, got "many"',
    ]);
  });

  test.each([
    ["- a", "expected a mapping of settings"],
    ["client: 3", "expected a mapping of settings, got 3"],
    ["client: {namespace: [a]}", "expected text, got a list"],
    ["worker: {poll_interval: -1}", "expected a number of 0 or more, got -1"],
    ["daemon: {page: maybe}", "expected true or false"],
    ["a: [", "yaml:"],
    ["client: {token: [s3cret]}", 'got "***"'],
  ])("%s", (text, message) => {
    expect(wrong(text)).toContain(message);
    expect(wrong(text)).not.toContain("s3cret");
  });

  test("variables that are no settings: a mistake for the daemon, odd for others", () => {
    const env = { COORDINATE_NAMESPAC: "x", COORDINATE_HISTORY: "fine" };
    expect(readConfiguration({ env, directory }).warnings).toEqual([
      "COORDINATE_NAMESPAC: no such setting; did you mean COORDINATE_NAMESPACE?",
    ]);
    expect(() => readConfig([], env)).toThrow("COORDINATE_NAMESPAC");
  });

  test("an empty file, an empty section and a key without a value say nothing", () => {
    for (const text of ["", "# nothing\n", "client:\n", "client:\n  namespace:\n"])
      expect(read(text).client).toEqual(defaultConfiguration().client);
  });

  test.each([
    ["weigth", "weight"],
    ["wieght", "weight"],
    ["max_runing", "max_running"],
    ["min_bg", "min_gb"],
    ["url", null],
    ["x", null],
  ])("%s is near %s", (given, meant) => {
    expect(nearest(given, ["weight", "max_running", "min_gb", "then", "name", "task"])).toBe(meant);
  });
});

describe("showing it", () => {
  test("the help of the daemon fits a window of 80 columns", () => {
    // the data directory is as long as the home directory
    const lines = help()
      .split("\n")
      .filter((line) => !line.includes("[/"));
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
    expect(help()).not.toContain("[]");
  });

  const text =
    "client: {token: s3cret, namespace: shop}\ndb: {host: h, password: hunter2, url: 'postgres://u:pw@h/d'}\n";

  test("effective is what differs, default what nobody said, full everything; none shows a secret", () => {
    const configuration = read(text);
    expect(parse(dumpConfiguration(configuration, "effective"))).toEqual({
      client: { namespace: "shop", token: "***" },
      db: { host: "h", password: "***", url: "postgres://u:***@h/d" },
    });
    expect(parse(dumpConfiguration(configuration, "default"))).toMatchObject({
      client: { namespace: "", token: "" },
    });
    const full = parse(dumpConfiguration(configuration, "full")) as Record<string, unknown>;
    expect(Object.keys(full)).toEqual(["daemon", "client", "worker", "jobs", "db"]);
    for (const what of ["default", "effective", "full"] as const) {
      const dumped = dumpConfiguration(configuration, what);
      expect(dumped).not.toMatch(/s3cret|hunter2|:pw@/);
      // the dump is a valid configuration file
      expect(readConfiguration({ env: {}, file: file(dumped) }).client.namespace).toBe(
        what === "default" ? "" : "shop",
      );
    }
    expect(dumpConfiguration(defaultConfiguration(), "effective")).toBe("{}\n");
  });

  test("the daemon's --dump-config takes one of the three words, or none", () => {
    const dump = (...argv: string[]): string => {
      const line = readConfig(argv, {});
      return line.kind === "print" ? line.text : "";
    };
    expect(parse(dump("--dump-config", "effective", "--sweep-ms", "77"))).toEqual({
      daemon: { sweepMs: 77 },
    });
    expect(parse(dump("--dump-config=default", "--sweep-ms", "77"))).toMatchObject({
      daemon: { sweepMs: 1000 },
    });
    expect(parse(dump("--sweep-ms", "77", "--dump-config"))).toMatchObject({
      daemon: { sweepMs: 77, graceMs: 10_000 },
    });
    expect(() => dump("--dump-config", "everything")).toThrow("expected one of default, effective, full");
  });

  test("what jobs are given has no secrets, and says what was left out", () => {
    const { config, left } = jobConfiguration(read(text));
    expect(config).toMatchObject({
      coordinate: { namespace: "shop", fork_worker: { child_lifetime: 10 } },
      db: { host: "h" },
    });
    expect(JSON.stringify(config)).not.toMatch(/s3cret|hunter2|pw@/);
    expect(left).toEqual(["db.password", "db.url"]);
  });

  test("a secret that is named is given to jobs, and a name that is none is refused", () => {
    const { config, left } = jobConfiguration(read(text), ["db.password"]);
    expect(config).toMatchObject({ db: { password: "hunter2" } });
    expect(left).toEqual(["db.url"]);
    expect(() => jobConfiguration(read(text), ["db.pasword"])).toThrow(
      "db.pasword: no such secret; expected one of db.password, db.url; did you mean db.password?",
    );
  });

  test.each([
    ["coordinate: {address: 'h:5932'}", { address: "h:5932", addresses: ["h:5932"] }],
    ["coordinate: {addresses: ['h:5932', [g, 5933]]}", { addresses: ["h:5932", "g:5933"] }],
    [
      "client: {addresses: ['http://h:5980', 'cborrpc://h:5932']}",
      { address: "h:5932", addresses: ["h:5932"] },
    ],
    ["client: {addresses: ['http://h:5980']}", { addresses: ["http://h:5980"] }],
  ])("of %s jobs are given addresses that the Python client resolves", (given, addresses) => {
    const { coordinate } = jobConfiguration(read(given)).config;
    const { address, addresses: all } = coordinate as { address?: string; addresses: string[] };
    expect({ ...(address !== undefined && { address }), addresses: all }).toEqual(addresses);
  });

  test.each([
    ["password", true],
    ["db_password", true],
    ["dbPassword", true],
    ["apiKey", true],
    ["api_key", true],
    ["access-token", true],
    ["token", true],
    ["secret", true],
    ["AWS_SECRET", true],
    ["tokenizer", false],
    ["keyboard", false],
    ["passage", false],
    ["secretary", false],
  ])("the key %s is secret: %s", (key, secret) => {
    expect(isSecretKey(key)).toBe(secret);
  });

  test("the schema in the package is the one of the table", () => {
    const place = path.join(import.meta.dirname, "../../schema/configuration.schema.json");
    const shipped = JSON.parse(readFileSync(place, "utf8")) as object;
    expect(shipped).toEqual(JSON.parse(JSON.stringify(configurationSchema())));
    const check = new Ajv().compile(shipped);
    expect(check(parse("client: {address: http://a:1}\nworker: {num_workers: 3}\napp: {x: 1}\n"))).toBe(true);
    expect(check(parse("worker: {num_workers: x}\n"))).toBe(false);
    expect(check(parse("worker: {num_wokers: 3}\n"))).toBe(false);
  });
});

describe("overlay", () => {
  test.each([
    [
      { db: { host: "h1", port: 1 }, tmp: "/t" },
      { db: { port: 2 }, tmp: null, x: 1 },
      { db: { host: "h1", port: 2 }, x: 1 },
    ],
    [{ a: [1, 2] }, { a: [3] }, { a: [3] }],
    [{ a: { b: 1 } }, { a: 5 }, { a: 5 }],
    [{ a: 5 }, { a: { b: 1 } }, { a: { b: 1 } }],
    [{ a: null }, { a: null }, { a: null }],
    [{ a: 1 }, { b: null }, { a: 1 }],
    [{ a: 1 }, {}, { a: 1 }],
  ])("%j under %j is %j", (base, over, result) => {
    expect(overlay(base, over)).toEqual(result);
  });

  test("what is laid over does not reach the prototype, and changes neither side", () => {
    const base = { a: { b: 1 } };
    const over = JSON.parse('{"__proto__": {"polluted": 1}, "a": {"c": 2}}') as Record<string, unknown>;
    const result = overlay(base, over) as Record<string, unknown>;
    expect(Object.keys(result)).toEqual(["a", "__proto__"]);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(base).toEqual({ a: { b: 1 } });
  });

  test("the difference, laid over the base, is the target", () => {
    const base = { a: 1, b: { c: 1, d: 2 }, e: [1] };
    const target = { a: 1, b: { c: 1, d: 3, f: 4 }, g: 1 };
    expect(difference(base, target)).toEqual({ b: { d: 3, f: 4 }, e: null, g: 1 });
    expect(overlay(base, difference(base, target))).toEqual(target);
  });
});
