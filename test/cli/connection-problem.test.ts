/** Each reason why a daemon cannot be reached has its own message. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttpsServer, get } from "node:https";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { configOf, createToken, startDaemon, type Daemon } from "../../src/daemon/index.ts";
import { connectionProblem } from "../../src/rest/connection-problem.ts";
import { selfSigned } from "../cbor/certificates.ts";
import { run } from "./in-process.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-connection-"));
const { cert, key } = selfSigned(place);
let plain: Daemon;
let secure: Daemon;
let silent: Server;
let token = "";
const addresses: Record<string, string> = {};

beforeAll(async () => {
  ({ token } = createToken(path.join(place, "tokens.json"), {
    name: "reader",
    grants: [{ namespace: "*", scopes: ["read"] }],
  }));
  const shared = { backend: "memory:", dataDir: place, http: ["127.0.0.1:0"], logLevel: "silent" };
  plain = await startDaemon(configOf({ ...shared, cborrpc: "127.0.0.1:0" }));
  secure = await startDaemon(configOf({ ...shared, tlsCert: cert, tlsKey: key }));
  silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  addresses.HTTP = plain.urls[0]!.replace("http://", "");
  addresses.RPC = plain.urls[1]!.replace("cbor-rpc://", "");
  addresses.TLS = secure.urls[0]!.replace("https://", "");
  addresses.SILENT = `127.0.0.1:${(silent.address() as { port: number }).port}`;
});

afterAll(async () => {
  await Promise.all([plain.stop(), secure.stop()]);
  silent.close();
  rmSync(place, { recursive: true, force: true });
});

const cases: readonly [words: string, said: string][] = [
  ["--address http://HTTP", "This needs a token; set COORDINATE_TOKEN or --token"],
  ["--address http://HTTP --token wrong", "the token was not accepted: it is wrong, expired or revoked"],
  ["--address https://HTTP", "HTTP does not speak TLS; use http:// instead of https://"],
  ["--address http://TLS", "TLS speaks TLS; use https:// instead of http://"],
  [
    "--address https://TLS",
    "the certificate of TLS is self-signed, or signed by an authority that this machine does not trust; to trust that certificate, set NODE_EXTRA_CA_CERTS=FILE",
  ],
  [
    "--address cborrpc://HTTP",
    "HTTP does not speak CBOR-RPC; a daemon serves CBOR-RPC at the address of --cborrpc",
  ],
  ["--address http://RPC", "RPC does not speak HTTP; a daemon serves REST at the address of --http"],
  [
    "--address cborrpc://SILENT",
    "cborrpc://SILENT accepts connections but does not answer; is it a CBOR-RPC address?",
  ],
  ["--address http://127.0.0.1:1", "is a daemon running at http://127.0.0.1:1? coordinate serve starts one"],
];

const filled = (text: string): string =>
  text.replace(
    /\b(HTTP|RPC|TLS|SILENT)\b(?! instead)(?<!speak TLS|speaks TLS|speak HTTP|CBOR-RPC)/g,
    (name) => addresses[name]!,
  );

describe("what is said when a daemon cannot be talked to", () => {
  test.each(cases)("%s", { timeout: 30_000 }, async (words, said) => {
    const { code, err } = await run(["summary", ...filled(words).split(" ")]);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect([code, err]).toEqual([1, expect.stringContaining(filled(said))]);
  });

  test("doctor says it too, with what to do", async () => {
    const { code, out } = await run(["doctor", "--address", `https://${addresses.TLS!}`]);
    expect(code).toBe(1);
    expect(out).toMatch(
      /wrong +reach .*is self-signed[^\n]*\n +To trust that certificate, set NODE_EXTRA_CA/,
    );
  });

  test.each(["handshake failure", "socket hang up"])("a work spec called %s is not a cause", async (name) => {
    const address = `http://${addresses.HTTP!}`;
    const { err } = await run(["status", name, "--address", address, "--token", token]);
    expect(err).toContain(`No such work spec "${name}"`);
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)(
    "a server that wants a certificate of its clients, with %s",
    { timeout: 30_000 },
    async (maxVersion) => {
      const [ca, tlsKey] = [readFileSync(cert), readFileSync(key)];
      const server = createHttpsServer({ cert: ca, key: tlsKey, ca, requestCert: true, maxVersion });
      onTestFinished(() => void server.close());
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const address = `https://127.0.0.1:${(server.address() as { port: number }).port}`;
      const error: unknown = await new Promise((resolve) => get(address, { ca }).once("error", resolve));
      expect((await connectionProblem(error, address, false))?.message).toMatch(
        /requires a client certificate$/,
      );
    },
  );

  test("a right token opens it, and tokens are not asked of a daemon", async () => {
    const address = `http://${addresses.HTTP!}`;
    expect((await run(["summary", "--address", address, "--token", token])).code).toBe(0);
    const { code, err } = await run(["token", "list", "--address", address, "--token", token]);
    expect([code, err]).toEqual([
      1,
      `coordinate token: tokens are stored in a file on the daemon's machine; ${address} cannot manage them remotely; run this command on that machine without --address; give the file with --data-dir or --tokens\n`,
    ]);
    const listed = await run(["token", "list", "--data-dir", place]);
    expect(listed.err).toBe(`tokens in ${place}/tokens.json:\n`);
  });
});
