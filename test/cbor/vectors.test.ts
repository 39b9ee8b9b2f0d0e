/** Messages captured from the old daemons and their client, byte for byte. */
import assert from "node:assert/strict";
import { describe, test } from "vitest";
import { withServer, type Served } from "./serve.ts";
import { Dict, f, hex, request, t, u, Uuid, type Value } from "./wire.ts";

/** Sends bytes and returns the response in hexadecimal. */
async function exchange({ connect }: Served, bytes: Buffer): Promise<string> {
  const client = await connect();
  const answer = new Promise<Buffer>((resolve) => client.socket.once("data", resolve));
  client.socket.write(bytes);
  return (await answer).toString("hex");
}

const plain = (text: string): string => text.replace(/\s/g, "");

const listRequest =
  "d8 18 58 25 a3 46706172616d73 81a0 426964 01 466d6574686f64 4f6c6973745f776f726b5f7370656373";
const addRequest =
  "d818 5831 a3 46706172616d73 82427773 81d880 824175 a1416b4176 426964 02 466d6574686f64 4e6164645f776f726b5f756e697473";
const getWorkRequest =
  "d818 5838 a3 46706172616d73 824177 a2486d61785f6a6f6273 01 4a6c656173655f74696d65 190384 426964 03 466d6574686f64 486765745f776f726b";
const updateRequest =
  "d818 5833 a3 46706172616d73 83427773 4175 a146737461747573 04 426964 06 466d6574686f64 507570646174655f776f726b5f756e6974";
const heartbeatRequest =
  "d818 5835 a3 46706172616d73 854177 4352554e 191770 a143706964 07 f6 426964 05 466d6574686f64 50776f726b65725f686561727462656174";
const uuidRequest =
  "d818 5829 a3 46706172616d73 81d82550 0123456789abcdef0123456789abcdef 426964 04 466d6574686f64 4178";

describe("requests as the Python client sends them", () => {
  const rows: [string, string, [Value, string, Value]][] = [
    ["A", listRequest, [1, "list_work_specs", [{}]]],
    ["C", addRequest, [2, "add_work_units", ["ws", [t("u", { k: "v" })]]]],
    ["D", getWorkRequest, [3, "get_work", ["w", { max_jobs: 1, lease_time: 900 }]]],
    ["G", updateRequest, [6, "update_work_unit", ["ws", "u", { status: 4 }]]],
    ["H", heartbeatRequest, [5, "worker_heartbeat", ["w", "RUN", 6000, { pid: 7 }, null]]],
    ["K", uuidRequest, [4, "x", [new Uuid("0123456789abcdef0123456789abcdef")]]],
  ];
  test.each(rows)("%s", (_, bytes, [id, method, params]) => {
    assert.equal(request(id, method, params).toString("hex"), plain(bytes));
  });
});

describe("answers", () => {
  const setSpec = request(9, "set_work_spec", [{ name: "ws", min_gb: f(1) }]);

  const answers: [string, Buffer[], string][] = [
    ["B: no specs", [hex(listRequest)], "d818 4f a2 426964 01 46726573756c74 8280f6"],
    [
      "C: units are added",
      [setSpec, request(9, "add_work_units", ["ws", [t("u", { k: "v" })]])],
      "d8184f a2 426964 09 46726573756c74 82f5f6",
    ],
    [
      "D: one unit, its data as it was sent",
      [setSpec, hex(addRequest), request(9, "get_work", ["w", { max_jobs: 1 }])],
      "d818 581b a2 42696409 46726573756c74 82 d88083 627773 4175 a1416b4176 f6",
    ],
    [
      "D: no work",
      [request(9, "get_work", ["w", { max_jobs: 1 }])],
      "d818 54 a2 42696409 46726573756c74 82 d88083 f6f6f6 f6",
    ],
    [
      "D: no work, several jobs",
      [request(9, "get_work", ["w", { max_jobs: 3 }])],
      "d818 4f a2 42696409 46726573756c74 82 80 f6",
    ],
    [
      "E: units, their data as it was sent",
      [setSpec, hex(addRequest), request(9, "get_work_units", ["ws", {}])],
      "d818 5819 a2 42696409 46726573756c74 82 81 d88082 4175 a1416b4176 f6",
    ],
    [
      "F: counts",
      [setSpec, hex(addRequest), hex(getWorkRequest), request(9, "count_work_units", ["ws"])],
      "d81851 a2 42696409 46726573756c74 82 a10301 f6",
    ],
    [
      "G: finished",
      [setSpec, hex(addRequest), hex(getWorkRequest), hex(updateRequest)],
      "d8184f a2 42696406 46726573756c74 82f5f6",
    ],
    ["H: a heartbeat", [hex(heartbeatRequest)], "d8184f a2 42696405 46726573756c74 82f5f6"],
    [
      "I: an error in band",
      [request(9, "add_work_units", ["no", [t("u", {})]])],
      "d818 5823 a2 42696409 46726573756c74 82 f4 744e6f207375636820776f726b2073706563206e6f",
    ],
    [
      "J: an error",
      [request(9, "bogus", [])],
      "d818 5829 a2 42696409 456572726f72 a1676d657373616765 746e6f2073756368206d6574686f6420426f677573",
    ],
  ];
  test.each(answers)("%s", async (_, requests, answer) => {
    await withServer(async (served) => {
      let last = "";
      for (const bytes of requests) last = await exchange(served, bytes);
      assert.equal(last, plain(answer));
    });
  });

  test("D and E with a text key: exactly as Go answered", async () => {
    await withServer(async (served) => {
      await exchange(served, setSpec);
      const unit = t("u", new Dict([[u("k"), "v"]]));
      await exchange(served, request(2, "add_work_units", ["ws", [unit]]));
      assert.equal(
        await exchange(served, request(9, "get_work_units", ["ws", {}])),
        plain("d818 5819 a2 42696409 46726573756c74 82 81 d88082 4175 a1616b4176 f6"),
      );
      assert.equal(
        await exchange(served, request(9, "get_work", ["w", {}])),
        plain("d818 581b a2 42696409 46726573756c74 82 d88083 627773 4175 a1616b4176 f6"),
      );
    });
  });
});
