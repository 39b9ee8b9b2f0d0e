import { mkdirSync, mkdtempSync, readFileSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { Audit } from "../../src/daemon/audit.ts";
import type { Answered } from "../../src/rest/index.ts";

const refused: Answered = {
  id: "1",
  method: "POST",
  path: "/v1/namespace/n/tally",
  route: null,
  ns: "n",
  identity: null,
  presented: true,
  address: "10.0.0.1",
  status: 401,
  ms: 1,
};

function open() {
  const file = path.join(mkdtempSync(path.join(tmpdir(), "audit-")), "audit.log");
  const onError = vi.fn();
  const audit = new Audit(file, { all: false, wanted: () => true, onError });
  const lines = (): object[] =>
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
  return { file, audit, onError, lines };
}

test("after a failure, the next line opens the file again", async () => {
  const { file, audit, onError, lines } = open();
  mkdirSync(file);
  audit.answered(refused);
  await vi.waitUntil(() => onError.mock.calls.length > 0);
  rmdirSync(file);
  audit.answered(refused);
  await audit.close();
  expect(lines()).toHaveLength(1);
  expect(onError).toHaveBeenCalledTimes(1);
});
