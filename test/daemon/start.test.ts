/** When a daemon cannot start, it prints one line that says what to do, and no stack trace. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { selfSigned } from "../cbor/certificates.ts";
import { executable, startProcess, type Started } from "./built.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-start-"));
const file = (name: string): string => path.join(place, name);
let taken: Server;
let port = 0;

beforeAll(async () => {
  executable("coordinated");
  taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  port = (taken.address() as { port: number }).port;
  selfSigned(place, "one");
  selfSigned(place, "two");
  writeFileSync(file("text"), "not a certificate\n", { mode: 0o600 });
}, 240_000);

afterAll(() => {
  taken.close();
  rmSync(place, { recursive: true, force: true });
});

async function start(words: readonly string[]): Promise<Started> {
  const started = await startProcess(
    words.map((word) => word.replaceAll("PLACE", place).replaceAll("TAKEN", `127.0.0.1:${port}`)),
    { XDG_DATA_HOME: file("data"), XDG_CONFIG_HOME: file("config") },
  );
  onTestFinished(() => void started.child.kill("SIGKILL"));
  return started;
}

const free = ["--backend", "memory:", "--http", "127.0.0.1:0"];

const failures: readonly [what: string, words: string[], code: number, line: RegExp][] = [
  [
    "a port in use",
    ["--backend", "memory:", "--http", "TAKEN"],
    69,
    /^--http 127.*: another process uses this address; stop it/,
  ],
  [
    "a port in use by CBOR-RPC",
    [...free, "--cborrpc", "TAKEN"],
    69,
    /^--cborrpc 127.*: another process uses this address/,
  ],
  [
    "an address of another machine",
    ["--backend", "memory:", "--insecure", "--http", "192.0.2.7:5980"],
    69,
    /^--http 192\.0\.2\.7:5980: this machine has no such address/,
  ],
  [
    "a socket where there is no directory",
    [...free, "--socket", "PLACE/none/x"],
    77,
    /^--socket .*none\/x: permission denied/,
  ],
  [
    "CBOR-RPC for other machines",
    [...free, "--cborrpc", "0.0.0.0:0"],
    78,
    /^--cborrpc 0\.0\.0\.0:0 is reachable from other machines: this needs --cborrpc-tls, and --tls-client-ca or --cborrpc-tokens with tokens .*; or --insecure/,
  ],
  [
    "a store that is no database",
    ["--backend", "sqlite:PLACE/text", "--http", "127.0.0.1:0"],
    69,
    /^--backend sqlite:.*text: is not an SQLite database/,
  ],
  [
    "a directory that cannot be made",
    ["--data-dir", "/proc/nowhere", "--http", "127.0.0.1:0"],
    69,
    /^--data-dir \/proc\/nowhere: the directory does not exist and cannot be created/,
  ],
  [
    "no PostgreSQL",
    ["--backend", "postgres://me:secret@127.0.0.1:1/x", "--http", "127.0.0.1:0"],
    69,
    /^--backend postgres:\/\/me:\*\*\*@127\.0\.0\.1:1\/x: connection refused/,
  ],
  [
    "no daemon behind",
    ["--backend", "http://127.0.0.1:1", "--http", "127.0.0.1:0"],
    69,
    /connection refused/,
  ],
  [
    "no certificate",
    [...free, "--tls-cert", "PLACE/none", "--tls-key", "PLACE/one.key"],
    78,
    /^--tls-cert .*none: no such file/,
  ],
  [
    "a certificate that is none",
    [...free, "--tls-cert", "PLACE/text", "--tls-key", "PLACE/one.key"],
    78,
    /^--tls-cert .*text: not a certificate in PEM format/,
  ],
  [
    "a key that is none",
    [...free, "--tls-cert", "PLACE/one.pem", "--tls-key", "PLACE/text"],
    78,
    /^--tls-key .*text: not a private key/,
  ],
  [
    "another's key",
    [...free, "--tls-cert", "PLACE/one.pem", "--tls-key", "PLACE/two.key"],
    78,
    /^--tls-key .*two\.key: not the key of the certificate/,
  ],
  [
    "an authority that is none",
    [...free, "--tls-cert", "PLACE/one.pem", "--tls-key", "PLACE/one.key", "--tls-client-ca", "PLACE/text"],
    78,
    /^--tls-client-ca .*text: not a certificate/,
  ],
  ["tokens that are none", [...free, "--tokens", "PLACE/text"], 78, /text: not a token file/],
  [
    "a process id that cannot be written",
    [...free, "--pid", "PLACE/none/pid"],
    69,
    /^--pid .*none\/pid: the directory does not exist and cannot be created/,
  ],
  ["CBOR-RPC said twice", [...free, "--cborrpc", "127.0.0.1:0", "--port", "0"], 78, /use only one of them/],
];

describe("what keeps a daemon from starting", () => {
  test.each(failures)("%s", { timeout: 60_000 }, async (_what, words, code, line) => {
    const { ended, output } = await start(words);
    expect({ code: await ended, lines: output().trimEnd().split("\n") }).toEqual({
      code,
      lines: [expect.stringMatching(line)],
    });
  });

  test("a store that another daemon has, and who that is", { timeout: 60_000 }, async () => {
    const words = ["--backend", "sqlite:PLACE/store.sqlite", "--http", "127.0.0.1:0"];
    const first = await start(words);
    const second = await start(words);
    expect(await second.ended).toBe(69);
    expect(second.output()).toMatch(
      new RegExp(`^--backend sqlite:.*store.sqlite: is in use by .*${first.child.pid}.*\\n$`),
    );
  });

  test("a socket that a living daemon serves", { timeout: 60_000 }, async () => {
    const words = [...free, "--socket", "PLACE/live"];
    await start(words);
    const second = await start(words);
    expect([await second.ended, second.output()]).toEqual([
      69,
      expect.stringMatching(/--socket .*live: another process uses this address.*\n$/),
    ]);
  });
});

describe("as the Python daemon was started", () => {
  test("--pid, --host, --port; blocks of its configuration are warned of", { timeout: 60_000 }, async () => {
    writeFileSync(
      file("python.yaml"),
      "coordinate:\n  server: {port: 5932}\n  job_queue: {joblog: true}\n  fork_worker: {num_workers: 2}\n",
    );
    const { child, output, ended } = await start([
      ...[
        ...free,
        "--config",
        "PLACE/python.yaml",
        "--pid",
        "PLACE/pid",
        "--host",
        "localhost",
        "--port",
        "0",
      ],
      ...["-q", "--snapshot-dir", "PLACE"],
    ]);
    expect(output()).toMatch(/^warning: --snapshot-dir: has no effect here; --backend sqlite:PATH/m);
    expect(output()).toMatch(
      /^warning: .*python\.yaml:2: coordinate\.server: has no effect here; use daemon\.cborrpc/m,
    );
    expect(output()).toMatch(/^warning: .*python\.yaml:3: coordinate\.job_queue: has no effect here/m);
    // each address is printed on a separate line, and the first before the second
    await expect
      .poll(output, { timeout: 10_000 })
      .toMatch(/^coordinated serves cbor-rpc:\/\/(localhost|127\.0\.0\.1|\[?::1\]?):\d+$/m);
    expect(readFileSync(file("pid"), "utf8")).toBe(`${child.pid}\n`);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    expect(existsSync(file("pid"))).toBe(false);
  });

  test("a signal while it starts stops it, and leaves no file", { timeout: 60_000 }, async () => {
    const starting = startProcess([...free, "--pid", file("early")], {});
    const deadline = Date.now() + 30_000;
    while (!existsSync(file("early")) || readFileSync(file("early"), "utf8") === "") {
      if (Date.now() > deadline) throw new Error("no --pid file");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    process.kill(Number(readFileSync(file("early"), "utf8")), "SIGTERM");
    const { ended } = await starting;
    expect(await ended).toBe(0);
    expect(existsSync(file("early"))).toBe(false);
  });
});
