/** `flow`, `load` and `config`, run with the built executable. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { encodeData } from "../../src/core/index.ts";
import { RestClient } from "../../src/rest/index.ts";
import { startProcess, type Started } from "../daemon/built.ts";
import { coordinate, type Ran, type RunOptions } from "./run.ts";

// processes are slow when many run at once
vi.setConfig({ testTimeout: 120_000 });
const place = mkdtempSync(path.join(tmpdir(), "coordinate-flow-"));
const root = path.join(import.meta.dirname, "../..");
let daemon: Started;
let spaces = 0;

beforeAll(async () => {
  daemon = await startProcess([
    "--backend",
    "memory:",
    "--data-dir",
    place,
    "--http",
    "127.0.0.1:0",
    "--log-level",
    "error",
  ]);
}, 180_000);
afterAll(async () => {
  daemon.child.kill();
  await daemon.ended;
  rmSync(place, { recursive: true, force: true });
});

function file(name: string, text: string): string {
  const full = path.join(place, name);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

/** Returns a function that runs commands in a new namespace. */
function space() {
  const ns = `ns${spaces++}`;
  return (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
    coordinate([...args], {
      ...options,
      env: { COORDINATE_ADDRESS: daemon.url, COORDINATE_NAMESPACE: ns, HOME: place, ...options.env },
    });
}

describe("flow", () => {
  test("sets the work specs of a file, says what it did, and shows what it would do", async () => {
    const run = space();
    const hello = path.join(root, "examples/flows/hello.yaml");
    const dry = await run(["flow", "--dry-run", hello]);
    expect(dry).toEqual({ code: 0, out: "+ hello\n+ greeting\n+ coordinate_test_spec\n", err: "" });
    expect((await run(["work_specs"])).out).toBe("");
    expect(await run(["flow", hello])).toEqual({
      code: 0,
      out: "3 work specs: 3 new, 0 changed, 0 unchanged\n",
      err: "",
    });
    expect((await run(["work_specs"])).out).toBe("coordinate_test_spec\ngreeting\nhello\n");
    expect((await run(["flow", hello])).out).toBe("3 work specs: 0 new, 0 changed, 3 unchanged\n");
  });

  test("the chained example, with its configuration and without its secret", async () => {
    const run = space();
    const config = path.join(root, "examples/flows/coordinate.yaml");
    const env = { NEWS_TOKEN: "s3cret" };
    const ran = await run(["flow", path.join(root, "examples/flows/chain.yaml"), "-c", config], { env });
    expect(ran.code).toBe(0);
    expect(ran.err).toBe(
      "not embedded because they look like secrets: http.api_token; --embed-secret NAME embeds one\n",
    );
    const spec = await run(["work_spec", "news.fetch", "--json"]);
    expect(JSON.parse(spec.out)).toMatchObject({
      then: "news.parse",
      config: {
        http: { timeout: 10, user_agent: "example" },
        coordinate: { fork_worker: { child_lifetime: 60 } },
      },
    });
    expect(spec.out).not.toContain("s3cret");
    expect(spec.out).not.toContain("proxy");
    const keep = ["-c", config, "--embed-secret", "http.api_token"];
    const kept = await run(["flow", path.join(root, "examples/flows/chain.yaml"), ...keep], { env });
    expect([kept.code, kept.err]).toEqual([0, ""]);
    expect((await run(["work_spec", "news.fetch", "--json"])).out).toContain("s3cret");
  });

  test("sets shared limits, and lists them as JSON", async () => {
    const run = space();
    const flow = file(
      "limits.yaml",
      "flows:\n  a: {min_gb: 1, limits: [api]}\nlimits:\n  api: {max_running: 1}\n",
    );
    expect((await run(["flow", flow, "--dry-run"])).out).toBe("+ a\n~ limit api\n");
    expect(JSON.parse((await run(["flow", flow, "--dry-run", "--json"])).out)).toMatchObject({
      limits: [{ name: "api", maxRunning: 1 }],
    });
    expect(JSON.parse((await run(["flow", flow, "--json"])).out)).toMatchObject({ limits: ["api"] });
    file("limits.yaml", "flows:\n  a: {min_gb: 1, limits: [api]}\nlimits:\n  api: {max_running: 2}\n");
    expect((await run(["flow", flow])).out).toBe("1 work spec: 0 new, 0 changed, 1 unchanged, 1 limit set\n");
  });

  test("run_params is a list or keywords, in a flow and in load, and nothing else", async () => {
    const run = space();
    const flow = file(
      "params.yaml",
      "flows:\n  a: {min_gb: 1, run_params: [1, two]}\n  b: {min_gb: 1, run_params: {x: 1}}\n",
    );
    expect(await run(["flow", flow])).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse((await run(["work_spec", "a", "--json"])).out)).toMatchObject({
      run_params: [1, "two"],
    });
    const spec = file("params-spec.yaml", "name: c\nrun_params: [1]\n");
    expect(await run(["load", "-w", spec, "--no-work"])).toMatchObject({ code: 0, err: "" });
    const wrong = file("params-wrong.yaml", "name: c\nrun_params: 5\n");
    expect(await run(["load", "-w", wrong, "--no-work"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("run_params: expected a list or an object, got 5") as string,
    });
  });

  test("shows a difference, resets what was set by hand unless told to keep it", async () => {
    const run = space();
    const flow = file("diff.yaml", "flows:\n  a: {min_gb: 1, config: {x: 1}}\n");
    await run(["flow", flow]);
    await run(["set", "a", "weight=3"]);
    file("diff.yaml", "flows:\n  a: {min_gb: 2, config: {x: 2, y: [1]}}\n");
    expect((await run(["flow", flow, "--dry-run"])).out).toBe(
      "~ a\n    min_gb: 1 -> 2\n    config.x: 1 -> 2\n    config.y: + [1]\n    weight: 3 -> 20 (was set by hand; use --keep-meta to keep it)\n",
    );
    expect((await run(["flow", flow, "--keep-meta"])).code).toBe(0);
    expect((await run(["work_specs", "--details"])).out).toMatch(/a +3 /);
    expect(JSON.parse((await run(["flow", flow, "--dry-run", "--json"])).out)).toMatchObject({
      specs: [
        {
          name: "a",
          kind: "same",
          resets: expect.arrayContaining([{ path: "weight", from: 3, to: 20 }]) as unknown,
        },
      ],
    });
    expect((await run(["flow", flow])).code).toBe(0);
    expect((await run(["work_specs", "--details"])).out).toMatch(/a +20 /);
  });

  test("prunes only when asked, and names what it deletes first", async () => {
    const run = space();
    const flow = file("prune.yaml", "flows:\n  a: {min_gb: 1}\n  b: {min_gb: 1}\n");
    await run(["flow", flow]);
    await run(["addwork", "b", "-u", "-"], { input: '"u"\n' });
    file("prune.yaml", "flows:\n  a: {min_gb: 1}\n");
    expect((await run(["flow", flow, "--dry-run"])).out).toBe(
      "= a\n- b: not in the file; kept with 1 unit\n",
    );
    expect((await run(["flow", flow])).code).toBe(0);
    const asked = await run(["flow", flow, "--prune"]);
    expect(asked).toMatchObject({ code: 1, out: "" });
    expect(asked.err).toBe(
      "- b: deleted with 1 unit\ncoordinate flow: nothing was changed; use --yes to delete these work specs without confirmation\n",
    );
    expect((await run(["work_specs"])).out).toBe("a\nb\n");
    expect((await run(["flow", flow, "--prune", "--yes"])).out).toBe(
      "1 work spec: 0 new, 0 changed, 1 unchanged, 1 deleted\n",
    );
    expect((await run(["work_specs"])).out).toBe("a\n");
  });

  test("--check and --schema need no daemon; standard input is a file too", async () => {
    const nowhere = { env: { COORDINATE_ADDRESS: "http://127.0.0.1:1" } };
    const flow = "flows:\n  a: {min_gb: 1, then: b}\n";
    expect(await coordinate(["flow", "--check", "-"], { ...nowhere, input: flow })).toEqual({
      code: 0,
      out: "1 work spec, no errors\n",
      err: "standard input:2: flows.a.then: b is not in this file\n",
    });
    const schema = await coordinate(["flow", "--schema"], nowhere);
    expect(JSON.parse(schema.out)).toEqual(
      JSON.parse(readFileSync(path.join(root, "schema/flow.schema.json"), "utf8")),
    );
  });

  test("mistakes: all of them, with file, line and key, and nothing is stored", async () => {
    const run = space();
    const flow = file(
      "wrong.yaml",
      "flows:\n  a:\n    min_gb: 1\n    weight: heavy\n    max_runing: 3\n  b: {min_gb: x}\n",
    );
    expect(await run(["flow", flow])).toEqual({
      code: 1,
      out: "",
      err: `coordinate flow: ${flow}:4: flows.a.weight: expected a number, got "heavy"\n  ${flow}:6: flows.b.min_gb: expected a number of 0 or more, got "x"\n`,
    });
    const chained = file("chained.yaml", "flows:\n  a: {min_gb: 1, max_runing: 3, then: c}\n");
    const ran = await run(["flow", chained]);
    expect(ran.err).toContain(`${chained}:2: flows.a.max_runing: not a known key; did you mean max_running?`);
    expect(ran.err).toContain("no such work spec c, neither in this file nor stored");
    expect(ran.code).toBe(1);
    expect((await run(["work_specs"])).out).toBe("");
  });

  test.each([
    ["a: [", /wrong\.yaml:\d+: /],
    ["flows: {a: !include nowhere.yaml}", /nowhere\.yaml: no such file/],
    ["flows: {a: !!python/object:os.system x}", /unknown tag/],
    ["flows: {a: !include wrong.yaml}", /includes itself/],
    [
      `a: &a [1,1,1,1,1,1,1,1,1,1]\n${"bcdefghi"
        .split("")
        .map((one, i) => `${one}: &${one} [${Array(10).fill(`*${"abcdefgh"[i]}`).join(",")}]\n`)
        .join("")}`,
      /more than 1000000 values/,
    ],
  ])("%.40j", async (text, message) => {
    const ran = await space()(["flow", file("wrong.yaml", text)]);
    expect(ran.code).toBe(1);
    expect(ran.err).toMatch(message);
    expect(ran.err).not.toContain("    at ");
  });

  test("a file that is not there, and none", async () => {
    expect((await space()(["flow", path.join(place, "nothing.yaml")])).err).toContain("no such file");
    expect((await space()(["flow"])).code).toBe(2);
  });
});

describe("load", () => {
  test("a work spec that Python 2 wrote as byte strings comes back as it was", async () => {
    const run = space();
    const python = new Map([
      [Buffer.from("name"), Buffer.from("beta.two")],
      [Buffer.from("desc"), Buffer.from("é")],
    ]);
    const client = new RestClient(daemon.url);
    const ns = `ns${spaces - 1}`;
    const [set] = await client.setWorkSpecs(ns, [{ data: encodeData(python) }]);
    const printed = await run(["work_spec", "beta.two"]);
    expect(printed.out).toMatch(/^name: beta\.two\ndesc: é\n/);
    const written = file("beta.yaml", printed.out);
    expect(await run(["load", "-w", written, "--no-work"])).toMatchObject({ code: 0 });
    const [again] = await client.getWorkSpecs(ns, ["beta.two"]);
    expect(again?.data).toEqual(set?.data);
    const changed = file("changed.yaml", printed.out.replace("é", "e"));
    expect((await run(["load", "-w", changed, "--no-work"])).err).toMatch(/changed after/);
    await client.close();
  });

  test("a work spec with its units, or without", async () => {
    const run = space();
    const spec = file("spec.yaml", "name: s\nmin_gb: 1\nnice: 5\n");
    const units = path.join(root, "examples/flows/units.jsonl");
    const ran = await run(["load", "-w", spec, "-u", units]);
    expect(ran.code).toBe(0);
    expect(ran.out).toMatch(/^5 units from .*units\.jsonl: 5 new; /);
    expect((await run(["work_units", "s"])).out).toBe("a\nb\nc\nd\ne\n");
    expect((await run(["load", "-w", spec, "--no-work", "-n", "3"])).out).toBe(
      "set work spec s; no work units\n",
    );
    expect(JSON.parse((await run(["work_spec", "s", "--json"])).out)).toEqual({
      name: "s",
      min_gb: 1,
      nice: 3,
    });
  });

  test.each([
    [["load"], 2, "no work spec given"],
    [["load", "-w", "SPEC"], 2, "either -u FILE or --no-work"],
    [["load", "-w", "SPEC", "-u", "-", "--no-work"], 2, "either -u FILE or --no-work"],
    [["load", "-w", "SPEC", "--no-work", "-n", "much"], 2, "--nice: expected a number"],
    [["load", "-w", "/nowhere.yaml", "--no-work"], 1, "no such file"],
    [["load", "-w", "BAD", "--no-work"], 1, 'bad.yaml:2: weight: expected a number, got "x"'],
  ])("%j", async (args, code, message) => {
    const names: Record<string, string> = {
      SPEC: file("good.yaml", "name: s\n"),
      BAD: file("bad.yaml", "name: s\nweight: x\n"),
    };
    const ran = await space()(args.map((arg) => names[arg] ?? arg));
    expect(ran.code).toBe(code);
    expect(ran.err).toContain(message);
  });
});

describe("config", () => {
  const here = path.join(place, "here");
  beforeAll(() => {
    file(
      "here/coordinate.yaml",
      `address: ${daemon.url}\nclient:\n  namespace: from-file\n  token: s3cret\nworker:\n  num_workers: 3\ndb: {password: hunter2, host: h}\n`,
    );
  });
  const bare = { env: { HOME: place }, cwd: here };

  test("the file beside the user is found, and holds for every command", async () => {
    const ran = await coordinate(["flow", "-"], { ...bare, input: "flows:\n  a: {min_gb: 1}\n" });
    expect(ran.out).toBe("1 work spec: 1 new, 0 changed, 0 unchanged\n");
    expect((await coordinate(["work_specs"], bare)).out).toBe("a\n");
    const env = { HOME: place, COORDINATE_ADDRESS: daemon.url, COORDINATE_NAMESPACE: "from-file" };
    expect((await coordinate(["work_specs"], { env })).out).toBe("a\n");
  });

  test("effective, full, default, and where it all comes from; no secrets", async () => {
    const effective = await coordinate(["config"], bare);
    expect(parse(effective.out)).toEqual({
      client: { addresses: [daemon.url], namespace: "from-file", token: "***" },
      worker: { num_workers: 3 },
      db: { password: "***", host: "h" },
    });
    expect((await coordinate(["--dump-config", "effective"], bare)).out).toBe(effective.out);
    const full = await coordinate(["--dump-config", "full", "summary"], bare);
    expect(parse(full.out)).toMatchObject({ daemon: { logLevel: "info" }, jobs: { workers_nr_min: 1 } });
    expect(parse((await coordinate(["config", "default"], bare)).out)).toMatchObject({
      worker: { num_workers: 0 },
    });
    const sources = await coordinate(["--namespace", "x", "config", "--sources"], {
      ...bare,
      env: { HOME: place, COORDINATE_NUM_WORKERS: "4" },
    });
    expect(sources.out).toBe(
      "# file: coordinate.yaml\nclient.addresses: coordinate.yaml:1\nclient.namespace: --namespace\nclient.token: coordinate.yaml:4\nworker.num_workers: COORDINATE_NUM_WORKERS\n",
    );
    const output = path.join(place, "out.yaml");
    expect((await coordinate(["config", "-o", output], bare)).out).toBe("");
    expect(readFileSync(output, "utf8")).toBe(effective.out);
    for (const { out, err } of [effective, full, sources]) expect(out + err).not.toMatch(/s3cret|hunter2/);
  });

  test("mistakes are told with file and line, by the daemon too", async () => {
    const config = file("mistake.yaml", "client:\n  namespce: x\ndaemon:\n  httpp: [a]\n");
    for (const ran of [
      await coordinate(["config", "--config", config]),
      await coordinate(["summary", "--config", config]),
    ]) {
      expect(ran.code).toBe(1);
      expect(ran.err).toContain(`${config}:2: client.namespce: no such setting; did you mean namespace?`);
      expect(ran.err).toContain(`${config}:4: daemon.httpp: no such setting; did you mean http?`);
    }
    const served = await coordinate(["serve", "--config", config]);
    expect(served.code).toBe(78);
    expect(served.err).toContain(`${config}:4: daemon.httpp`);
    expect((await coordinate(["config", "everything"])).err).toContain(
      "expected one of default, effective, full",
    );
    expect((await coordinate(["--dump-config", "everything"])).code).toBe(2);
    expect((await coordinate(["config", "--check"], bare)).out).toBe("coordinate.yaml: valid\n");
    expect(JSON.parse((await coordinate(["config", "--check", "--json"], bare)).out)).toEqual({
      file: "coordinate.yaml",
      valid: true,
    });
    expect(JSON.parse((await coordinate(["config", "--json"], bare)).out)).toEqual(
      parse((await coordinate(["config"], bare)).out),
    );
    expect(JSON.parse((await coordinate(["config", "--sources", "--json"], bare)).out)).toBeTypeOf("object");
  });

  test("the next address is asked where one does not answer", async () => {
    const config = file("fail-over.yaml", `client:\n  addresses: ["http://127.0.0.1:1", "${daemon.url}"]\n`);
    expect(await coordinate(["summary", "--json", "--config", config])).toMatchObject({ code: 0 });
  });
});
