/**
 * The first hour of a new user: the published package in an empty folder. The output is compared with what the documentation promises.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

const root = path.join(import.meta.dirname, "..", "..");
const place = mkdtempSync(path.join(tmpdir(), "coordinate-first-hour-"));
const folder = path.join(place, "empty");
const long = { timeout: 120_000 };
let installed = { code: 1, out: "" };
let tarball = "";

interface Ran {
  code: number;
  out: string;
}

function run(program: string, args: readonly string[], cwd = folder): Promise<Ran> {
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: process.env.HOME ?? "",
    XDG_DATA_HOME: path.join(place, "data"),
  };
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, timeout: 240_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out: `${stdout}${stderr}` }),
    );
  });
}

/** The first line that a process prints. */
const firstLine = ({ stdout }: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    if (stdout === null) throw new Error("unreachable");
    createInterface({ input: stdout })
      .once("line", resolve)
      .once("close", () => reject(new Error("it said nothing")));
  });

const coordinate = (...words: string[]): Promise<Ran> =>
  run(process.execPath, [
    path.join(folder, "node_modules", "coordinate", "dist", "cli", "main.js"),
    ...words,
  ]);

/** Compiles a program in the folder against the types of the package. */
const compile = (file: string, options = ["--noEmit", "--module", "nodenext"], cwd = folder): Promise<Ran> =>
  run(
    process.execPath,
    [
      path.join(root, "node_modules", "typescript", "bin", "tsc"),
      ...["--strict", "--skipLibCheck", "--target", "es2022", ...options],
      ...["--types", "node", "--typeRoots", path.join(root, "node_modules", "@types")],
      file,
    ],
    cwd,
  );

/** Makes the tarball from a copy of the sources: `npm pack` builds, and must not change the build that other tests use. */
async function pack(): Promise<string> {
  const copy = path.join(place, "copy");
  mkdirSync(copy);
  const { files } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { files: string[] };
  const shipped = files.map((one) => one.replace(/[/\\]?\*.*$/, "")).filter((one) => !/^!|^dist/.test(one));
  const sources = [
    "src",
    "scripts",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "tsconfig.build.json",
    "README.md",
    "LICENSE",
  ];
  for (const one of new Set([...sources, ...shipped]))
    if (existsSync(path.join(root, one)))
      cpSync(path.join(root, one), path.join(copy, one), { recursive: true });
  // types are checked elsewhere; without type checks the build takes half as long
  const config = path.join(copy, "tsconfig.build.json");
  writeFileSync(
    config,
    readFileSync(config, "utf8").replace('"noEmit": false,', '"noEmit": false, "noCheck": true,'),
  );
  symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"));
  const { code, out } = await run("npm", ["pack", "--silent", "--pack-destination", place], copy);
  const name = out
    .trim()
    .split("\n")
    .findLast((line) => line.endsWith(".tgz"));
  if (code !== 0 || name === undefined) throw new Error(`npm pack failed: ${out}`);
  return path.join(place, name);
}

beforeAll(async () => {
  mkdirSync(folder);
  tarball = await pack();
  installed = await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", tarball]);
  if (installed.code !== 0) throw new Error(`npm install failed: ${installed.out}`);
}, 600_000);

afterAll(() => rmSync(place, { recursive: true, force: true }));

/** The first program of the README. */
const hello = /^```ts\n(.*?)^```$/ms.exec(readFileSync(path.join(root, "README.md"), "utf8"))?.[1] ?? "";

describe("the package in an empty folder", () => {
  test("installs without a warning of an engine or of something deprecated, and has its documentation", () => {
    expect(installed.out).not.toMatch(/EBADENGINE|deprecated/);
    const has = (name: string): boolean => existsSync(path.join(folder, "node_modules", "coordinate", name));
    expect(
      [
        ...["README.md", "LICENSE", "CHANGELOG.md", "docs/README.md", "docs/mistakes.md"],
        // pip installs the Python package from here
        ...["python/pyproject.toml", "python/README.md", "python/LICENSE"],
      ].filter((one) => !has(one)),
    ).toEqual([]);
  });

  test("says where its documentation is", long, async () => {
    const { out } = await coordinate("help");
    const said = /^Documentation: (.*)$/m.exec(out)?.[1] ?? "";
    expect(readFileSync(said, "utf8")).toMatch(/^# Documentation/);
  });

  test("the steps of the Dockerfile, in folders: install, start, healthy", { timeout: 300_000 }, async () => {
    const dockerfile = readFileSync(
      path.join(folder, "node_modules", "coordinate", "deploy", "Dockerfile"),
      "utf8",
    );
    const step = (pattern: RegExp): string => pattern.exec(dockerfile)?.[1] ?? "no such step";
    const image = path.join(place, "image");
    const state = path.join(place, "state");
    mkdirSync(image);
    cpSync(tarball, path.join(place, "copied.tgz"));
    const install = step(/^RUN (npm install .*)$/m)
      .replaceAll("/tmp/coordinate.tgz", path.join(place, "copied.tgz"))
      .replaceAll("/app", image);
    expect(
      (
        await run("sh", [
          "-ec",
          `${install} --prefer-offline`.replace(/( && .*)( --prefer-offline)$/, "$2$1"),
        ])
      ).out,
    ).not.toMatch(/error/i);
    const bin = path.join(image, "node_modules", ".bin");
    const command = JSON.parse(step(/^CMD (\[.*\])$/m)) as string[];
    const [program = "", ...words] = command.map((word) => word.replace("/var/lib/coordinate", state));
    const daemon = spawn(path.join(bin, program), [...words, "--http", "127.0.0.1:0"], {
      env: { ...process.env, NODE_ENV: "production" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void daemon.kill("SIGKILL"));
    const url = /coordinated serves (\S+?)\/?$/.exec(await firstLine(daemon))?.[1] ?? "";
    const [node = "", ...check] = JSON.parse(step(/^ {2}CMD (\[.*\])$/m)) as string[];
    const asked = check.map((word) => word.replace("http://127.0.0.1:5980", url));
    expect(await run(node, asked)).toEqual({ code: 0, out: "" });
    const ended = once(daemon, "exit");
    daemon.kill("SIGTERM");
    expect((await ended)[0]).toBe(0);
    expect((await run(node, asked)).code).toBe(1);
  });

  test("hello world is eight lines", long, async () => {
    expect(hello.trim().split("\n").length).toBeLessThanOrEqual(8);
    writeFileSync(path.join(folder, "hello.mjs"), hello);
    expect(await run(process.execPath, ["hello.mjs"])).toEqual({ code: 0, out: "Hello, world!\n" });
  });

  test(
    "a misspelt key and wrong data do not compile, and the compiler says which key was meant",
    long,
    async () => {
      writeFileSync(
        path.join(folder, "typed.mts"),
        `import { connect, defineSpec } from "coordinate";
const mail = defineSpec<{ to: string }>({ name: "mail", max_retires: 3 });
const coordinate = await connect("memory:");
const mails = await coordinate.namespace().setWorkSpec(mail);
await mails.addWorkUnit("anna", { to: 5 });
`,
      );
      const { code, out } = await compile("typed.mts");
      expect(code).not.toBe(0);
      expect(out).toMatch(
        /typed\.mts\(2,.*'max_retires' does not exist in type 'WorkSpecKeys<DataObject>'\. Did you mean to write 'max_retries'\?/,
      );
      expect(out).toMatch(/typed\.mts\(5,.*Type 'number' is not assignable to type 'string'/);
      expect(out.match(/error TS/g)).toHaveLength(2);
    },
  );

  test.each(["nodenext", "commonjs"])("TypeScript in a CommonJS project: module %s", long, async (module) => {
    const project = path.join(place, `typescript-${module}`);
    mkdirSync(project);
    writeFileSync(path.join(project, "package.json"), '{ "name": "common" }');
    symlinkSync(path.join(folder, "node_modules"), path.join(project, "node_modules"));
    const [imports, program] = [hello.split("\n").slice(0, 2), hello.split("\n").slice(2)];
    writeFileSync(
      path.join(project, "hello.ts"),
      `${imports.join("\n")}\nasync function main() {\n${program.join("\n")}}\nvoid main();\n`,
    );
    expect(await compile("hello.ts", ["--module", module], project)).toEqual({ code: 0, out: "" });
    const ran = await run(process.execPath, ["hello.js"], project);
    expect(ran).toEqual({ code: 0, out: "Hello, world!\n" });
  });

  test("typed from the work spec to the result, without a cast", long, async () => {
    const program = (wrong: string): string => `import { connect, defineSpec } from "coordinate";
import { defineTask, Worker } from "coordinate/worker";
const mail = defineSpec<{ to: string }, { sentTo: string }>({ name: "mail", max_retries: 3 });
const coordinate = await connect("memory:");
const namespace = coordinate.namespace();
const mails = await namespace.setWorkSpec(mail);
const send = defineTask(mail, (unit) => ({ sentTo: unit.data.to${wrong} }));
const worker = new Worker(namespace, { tasks: [send] });
const running = worker.run();
const unit = await mails.addWorkUnit("anna", { to: "anna@example.org" });
const { sentTo } = await unit.result();
console.log(sentTo.toUpperCase());
await worker.stop();
await running;
await coordinate.close();
`;
    writeFileSync(path.join(folder, "right.mts"), program(""));
    writeFileSync(path.join(folder, "wrong.mts"), program(".length"));
    expect(await compile("right.mts")).toEqual({ code: 0, out: "" });
    const wrong = await compile("wrong.mts");
    expect(wrong.out).toMatch(/wrong\.mts\(7,[^]*Type 'number' is not assignable to type 'string'/);
    expect(wrong.code).not.toBe(0);
    writeFileSync(
      path.join(folder, "right.mjs"),
      program("").replace("<{ to: string }, { sentTo: string }>", ""),
    );
    expect(await run(process.execPath, ["right.mjs"])).toEqual({ code: 0, out: "ANNA@EXAMPLE.ORG\n" });
  });

  test(
    "a task that throws is tried again after its back-off, and a unit that is exhausted says why",
    long,
    async () => {
      writeFileSync(
        path.join(folder, "throws.mjs"),
        `import { connect } from "coordinate";
import { Worker } from "coordinate/worker";
const coordinate = await connect("memory:");
const namespace = coordinate.namespace();
const backoff = { kind: "linear", delay: 0.01 };
const mail = await namespace.setWorkSpec({ name: "mail", retry: { attempts: 3, backoff } });
const tasks = { mail: ({ data }) => { throw new Error("no answer from " + data.to); } };
const worker = new Worker(namespace, { tasks });
worker.on("retried", ({ unit, number, delayMs, triesLeft, error }) =>
  console.log(unit, number, error.message, "again in", delayMs, "ms,", triesLeft, "left"));
worker.on("failed", ({ unit, number, error }) => console.log(unit, number, error.message, "failed"));
const running = worker.run();
const unit = await mail.addWorkUnit("anna", { to: "anna@example.org" });
await unit.result().catch(({ message }) => console.log(message));
console.log(unit.reason, unit.data.tries, unit.data.last_error.split("\\n")[0]);
console.log((await unit.attempts()).map(({ status }) => status).join(" "));
await worker.stop();
await running;
await coordinate.close();
`,
      );
      const { code, out } = await run(process.execPath, ["throws.mjs"]);
      const [printed, logged] = [
        out.split("\n").filter((line) => !line.startsWith("warn:")),
        out.split("\n").filter((line) => line.startsWith("warn:")),
      ];
      expect(printed.join("\n")).toBe(`anna 1 no answer from anna@example.org again in 10 ms, 2 left
anna 2 no answer from anna@example.org again in 20 ms, 1 left
anna 3 no answer from anna@example.org failed
work unit anna of mail failed: too many retries, after 3 tries; the last error was Error: no answer from anna@example.org
exhausted 3 Error: no answer from anna@example.org
retryable retryable failed
`);
      expect(logged.map((line) => line.slice(0, line.indexOf("{")))).toEqual([
        "warn: a work unit failed; it will be tried again in 0.01 s, 2 more times at most ",
        "warn: a work unit failed; it will be tried again in 0.02 s, 1 more time at most ",
        "warn: a work unit failed; it will not be tried again ",
      ]);
      expect(logged[0]).toMatch(
        /"workSpec":"mail","unit":"anna","attempt":1,"error":"no answer from anna@example.org"/,
      );
      expect(code).toBe(0);
    },
  );

  test.each(["--http", "--cborrpc"])(
    "a port of %s that is in use is one line with what to do",
    long,
    async (option) => {
      const other = createServer().listen(0, "127.0.0.1");
      await once(other, "listening");
      onTestFinished(() => void other.close());
      const { port } = other.address() as AddressInfo;
      const interfaces = { "--http": "127.0.0.1:0", [option]: `127.0.0.1:${port}` };
      const { code, out } = await coordinate(
        "serve",
        "--backend",
        "memory:",
        ...Object.entries(interfaces).flat(),
      );
      expect(out.trim().split("\n")).toEqual([
        expect.stringMatching(
          `^${option} 127.0.0.1:${port}: another process uses this address; stop it, or choose another address`,
        ),
      ]);
      expect(code).toBe(69);
    },
  );

  test.each([
    [
      ["summary", "--address", "http://127.0.0.1:1"],
      1,
      /is a daemon running at http:\/\/127\.0\.0\.1:1\? coordinate serve starts one/,
    ],
    [
      ["serve", "--http", "0.0.0.0:0"],
      78,
      /^--http 0\.0\.0\.0:0 is reachable from other machines: this needs tokens/,
    ],
    [
      ["serve", "--cborrpc", "0.0.0.0:0"],
      78,
      /^--cborrpc 0\.0\.0\.0:0 is reachable from other machines: this needs --cborrpc-tls/,
    ],
    [["serve", "--htpp", "x"], 78, /^--htpp: no such option; did you mean --http\?/],
    [
      ["serve", "--backend", "sqlite:hello.mjs", "--http", "127.0.0.1:0"],
      69,
      /^--backend sqlite:hello\.mjs: is not an SQLite database/,
    ],
    [
      ["serve", "--backend", "memory:", "--tls-cert", "hello.mjs", "--tls-key", "hello.mjs"],
      78,
      /^--tls-cert hello\.mjs: not a certificate in PEM format/,
    ],
    [["serve", "--data-dir", "/proc/nowhere", "--http", "127.0.0.1:0"], 69, /^--data-dir \/proc\/nowhere: /],
    [["sumary"], 2, /no such command sumary; did you mean summary\?/],
    [["worker"], 2, /to run a worker, use --tasks FILE, --runtime LIST or --jobs/],
  ])("coordinate %j ends with %i and says why", long, async (words, code, said) => {
    const ran = await coordinate(...words);
    expect(ran.out).toMatch(said);
    expect(ran.out).not.toMatch(/^ {4}at /m);
    expect(ran.code).toBe(code);
  });

  test(
    "two applications in one namespace take each their own, and nothing fails for want of a task",
    long,
    async () => {
      writeFileSync(
        path.join(folder, "two.mjs"),
        `import { connect } from "coordinate";
import { Worker } from "coordinate/worker";
const coordinate = await connect("memory:");
const ns = coordinate.namespace("shared");
const [mail, image, later] = await ns.setWorkSpecs([{ name: "mail" }, { name: "image" }, { name: "later" }]);
const workers = ["mail", "image"].map((name) => new Worker(ns, { tasks: { [name]: () => ({ by: name }) } }));
const running = workers.map((worker) => worker.run());
const names = Array.from({ length: 20 }, (_, i) => "u" + i);
for (const spec of [mail, image, later]) await spec.addWorkUnits(names.map((name) => [name]));
for (const [spec, by] of [[mail, "mail"], [image, "image"]])
  for (const unit of await spec.wait(names)) if ((await unit.result()).by !== by) throw new Error(unit.name);
console.log(await later.counts());
await Promise.all(workers.map((worker) => worker.stop()));
await Promise.all(running);
await coordinate.close();
`,
      );
      const { code, out } = await run(process.execPath, ["two.mjs"]);
      expect(out).toMatch(/available: 20,[^}]*failed: 0/s);
      expect(code).toBe(0);
    },
  );

  test(
    "a file of tasks in either kind of module, in TypeScript where Node runs it, else what to do in a line",
    long,
    async () => {
      const project = path.join(place, "project");
      mkdirSync(project);
      writeFileSync(path.join(project, "package.json"), '{ "name": "no-type" }');
      symlinkSync(path.join(folder, "node_modules"), path.join(project, "node_modules"));
      const store = ["--backend", `sqlite:${path.join(project, "s.sqlite")}`];
      writeFileSync(path.join(project, "spec.yaml"), "name: shout\n");
      const files = {
        "tasks.js": "export const shout = () => ({ by: 'module' });",
        "common.js": "exports.shout = () => ({ by: 'CommonJS' });",
        "tasks.ts": "export const shout = (): { by: string } => ({ by: 'TypeScript' });",
      };
      const runsTypeScript = "typescript" in process.features && Boolean(process.features.typescript);
      for (const [name, text] of Object.entries(files)) {
        writeFileSync(path.join(project, name), text);
        writeFileSync(path.join(project, "units.txt"), `${name}\n`);
        const [spec, units] = [path.join(project, "spec.yaml"), path.join(project, "units.txt")];
        const loaded = await coordinate("load", "-w", spec, "-u", units, "--no-journal", ...store);
        expect(loaded.code).toBe(0);
        const ran = await coordinate("run_one", "--tasks", path.join(project, name), ...store);
        if (name === "tasks.ts" && !runsTypeScript) {
          expect(ran.out.trim().split("\n")).toEqual([
            expect.stringMatching(
              /tasks\.ts: Node 2\S+ does not run TypeScript; use Node 22\.18 or later, or .*tsx/,
            ),
          ]);
          expect(ran.code).toBe(1);
        } else expect(ran.code).toBe(0);
      }
      const missing = await coordinate("worker", "--tasks", "nowhere.js", ...store);
      expect(missing.out.trim().split("\n")).toEqual([
        expect.stringMatching(/nowhere\.js: there is no such file/),
      ]);
      const required = `const { connect } = require("coordinate");
connect("memory:").then(async (coordinate) => { console.log(await coordinate.namespace("x").workSpecs?.() ?? [], "works"); await coordinate.close(); });
`;
      writeFileSync(path.join(project, "required.cjs"), required);
      expect((await run(process.execPath, ["required.cjs"], project)).out).toMatch(/works/);
    },
  );

  test("four slow units run at once", long, async () => {
    writeFileSync(
      path.join(folder, "slow.mjs"),
      `import { connect } from "coordinate";
import { Worker } from "coordinate/worker";
const coordinate = await connect("memory:");
const slow = await coordinate.namespace().setWorkSpec({ name: "slow" });
let here = 0, all;
const four = new Promise((resolve) => (all = resolve));
// each waits until all four have begun
const worker = new Worker(coordinate.namespace(), { concurrency: 4, tasks: { slow: async () => { if (++here === 4) all(); await four; } } });
const running = worker.run();
const names = ["a", "b", "c", "d"];
await slow.addWorkUnits(names.map((name) => [name]));
await slow.wait(names, { waitMs: 60_000 });
console.log("all at once");
await worker.stop();
await running;
await coordinate.close();
`,
    );
    expect(await run(process.execPath, ["slow.mjs"])).toEqual({ code: 0, out: "all at once\n" });
  });

  test("the tutorial does what it says", { timeout: 300_000 }, async () => {
    const page = readFileSync(path.join(root, "docs", "tutorial.md"), "utf8");
    const block = (label: string): string => {
      const found = new RegExp(`<!-- ${label} -->\\s*\`\`\`\\w+\\n(.*?)\`\`\``, "s").exec(page)?.[1];
      if (found === undefined) throw new Error(`the tutorial has no ${label}`);
      return found;
    };
    const bin = path.join(folder, "node_modules", "coordinate", "dist", "cli", "main.js");
    const daemon = spawn(
      process.execPath,
      [bin, "serve", "--data-dir", ".tutorial", "--http", "127.0.0.1:0"],
      {
        cwd: folder,
        stdio: ["ignore", "pipe", "ignore"],
      },
    );
    const started: ChildProcess[] = [daemon];
    onTestFinished(() => {
      for (const child of started) child.kill("SIGKILL");
    });
    const url = /coordinated serves (\S+?)\/?$/.exec(await firstLine(daemon))?.[1] ?? "";
    expect(url).toMatch(/^http:/);
    for (const name of ["add.mjs", "worker.mjs", "result.mjs"])
      writeFileSync(path.join(folder, name), block(`file: ${name}`).replace("http://127.0.0.1:5980", url));
    const there = ["--address", url, "--namespace", "shop"];

    expect((await run(process.execPath, ["add.mjs"])).out).toMatch(/available: 3/);
    const waits =
      /^Work is waiting and no worker is active: 3 units of order\.$/m.exec(page)?.[0] ?? "no such line";
    expect((await coordinate("explain", ...there)).out).toContain(waits);

    const worker = spawn(process.execPath, ["worker.mjs"], {
      cwd: folder,
      stdio: ["ignore", "pipe", "ignore"],
    });
    started.push(worker);
    expect(await firstLine(worker)).toBe("the worker runs");
    expect(await run(process.execPath, ["result.mjs"])).toEqual({
      code: 0,
      out: block("output: result.mjs"),
    });

    expect((await coordinate("summary", ...there)).out).toMatch(/order/);
    expect((await coordinate("work_unit", "order", "1003", ...there)).out).toMatch(
      /order 1003 has a total of -1/,
    );
    writeFileSync(
      path.join(folder, "correction.jsonl"),
      `${/^echo '(.*)' > correction.jsonl$/m.exec(page)?.[1] ?? ""}\n`,
    );
    const added = await coordinate("addwork", "-W", "order", "-u", "correction.jsonl", ...there);
    expect(added.code).toBe(0);
    writeFileSync(
      path.join(folder, "corrected.mjs"),
      `import { connect } from "coordinate";
const coordinate = await connect("${url}");
const unit = await coordinate.namespace("shop").workSpec("order").workUnit("1003");
console.log((await unit.result({ waitMs: 60_000 })).charged);
await coordinate.close();
`,
    );
    expect(await run(process.execPath, ["corrected.mjs"])).toEqual({ code: 0, out: "1\n" });
    const dashboard = await fetch(url, { headers: { accept: "text/html" } });
    expect(await dashboard.text()).toMatch(/<title>/);
    const ended = new Promise((resolve) => worker.once("exit", resolve));
    worker.kill("SIGTERM");
    expect(await ended).toBe(0);
  });

  test("work from a file, without a daemon: load, explain, run, look", long, async () => {
    const store = ["--backend", "sqlite:work.sqlite"];
    writeFileSync(
      path.join(folder, "spec.yaml"),
      "name: shout\nruntime: command\ncommand: [echo, '{name}']\n",
    );
    writeFileSync(path.join(folder, "units.txt"), "anna\nbert\n");
    expect(
      await coordinate("load", "-w", "spec.yaml", "-u", "units.txt", "--no-journal", ...store),
    ).toMatchObject({ code: 0 });
    expect((await coordinate("explain", ...store)).out).toMatch(
      /^Work is waiting and no worker is active: 2 units of shout\.\n/,
    );
    const one = ["run_one", "--runtime", "command", "--limit-count", "2", ...store];
    expect(await coordinate(...one)).toMatchObject({ code: 0 });
    expect(await coordinate("run_one", "--runtime", "command", ...store)).toEqual({
      code: 2,
      out: "There was no work for this worker; coordinate explain shows why.\n",
    });
    expect((await coordinate("summary", ...store)).out).toMatch(/shout +0 +0 +0 +0 +0 +2 +2/);
  });
});
