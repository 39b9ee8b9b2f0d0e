/** The protocol of the Go client, byte for byte: the requests that it sends and the responses that it needs. */
import { createConnection } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Engine, ManualClock } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { listen, restServer } from "../../src/rest/index.ts";

const v1 = "application/vnd.diffeo.coordinate.v1+json";
let clock: ManualClock;
let engine: Engine;
let app: FastifyInstance;

beforeEach(() => {
  clock = new ManualClock(Date.UTC(2020, 0, 1));
  engine = new Engine(new MemoryStore(), { clock, random: () => 0 });
  ({ app } = restServer({ coordinate: engine }));
});

afterEach(async () => {
  await app.close();
  await engine.close();
});

interface Got {
  status: number;
  type: string | undefined;
  location: string | undefined;
  text: string;
}

async function send(
  method: "GET" | "POST" | "PUT" | "DELETE",
  url: string,
  body?: string,
  accept = v1,
): Promise<Got> {
  const answer = await app.inject({
    method,
    url,
    headers: { accept, ...(body !== undefined && { "content-type": v1 }) },
    ...(body !== undefined && { payload: body }),
  });
  const { headers } = answer;
  return {
    status: answer.statusCode,
    type: headers["content-type"] as string,
    location: headers.location,
    text: answer.body,
  };
}

const get = async (url: string): Promise<string> => (await send("GET", url)).text;
const spec = (data: string) => send("POST", "/namespace/n/work_spec", `{"data":${data}}`);
const unit = (body: string) => send("POST", "/namespace/n/work_spec/s/work_unit", body);

describe("representations", () => {
  test("the root document", async () => {
    expect(await send("GET", "/")).toEqual({
      status: 200,
      type: v1,
      location: undefined,
      text: '{"namespace_url":"/namespace/{namespace}","namespaces_url":"/namespace","summary_url":"/summary","url":""}',
    });
  });

  test("namespaces: empty lists are null where Go writes null, and looking creates", async () => {
    expect(await get("/namespace")).toBe('{"namespaces":null}');
    expect(await get("/summary")).toBe("null");
    expect(await get("/namespace/a---b")).toBe(
      '{"name":"a---b","summary_url":"/namespace/a---b/summary","url":"/namespace/a---b",' +
        '"work_spec_url":"/namespace/a---b/work_spec/{spec}","work_specs_url":"/namespace/a---b/work_spec",' +
        '"worker_url":"/namespace/a---b/worker/{worker}","workers_url":"/namespace/a---b/worker"}',
    );
    expect(await get("/namespace/a---b/work_spec")).toBe('{"work_specs":[]}');
    expect(await get("/namespace")).toBe('{"namespaces":[{"name":"a---b","url":"/namespace/a---b"}]}');
    expect(await send("POST", "/namespace", '{"name":"x y"}')).toMatchObject({
      status: 201,
      location: "/namespace/-eCB5",
    });
    expect(await send("DELETE", "/namespace/-eCB5")).toEqual({
      status: 204,
      type: v1,
      location: undefined,
      text: "",
    });
    expect(await send("DELETE", "/namespace/never-was")).toMatchObject({ status: 204 });
  });

  test("a work spec, created with the body that the Go client sends", async () => {
    const url = "/namespace/n/work_spec/s";
    const query = "{?name*,status*,previous,limit}";
    const full =
      `{"data":{"name":"s","min_gb":1.0},"meta":"${url}/meta{?counts}","name":"s","summary_url":"${url}/summary",` +
      `"url":"${url}","work_unit_adjust_url":"${url}/adjust${query}","work_unit_change_url":"${url}/change${query}",` +
      `"work_unit_counts_url":"${url}/counts","work_unit_query_url":"${url}/work_unit${query}",` +
      `"work_unit_url":"${url}/work_unit/{unit}","work_units_url":"${url}/work_unit"}`;
    const body = '{"data":{"name":"s","min_gb":1.0},"meta":"","name":"","url":"","work_units_url":""}';
    expect(await send("POST", "/namespace/n/work_spec", body)).toEqual({
      status: 201,
      type: v1,
      location: url,
      text: full,
    });
    expect(await get(url)).toBe(full);
    expect(await send("PUT", url, '{"data":null}')).toMatchObject({ status: 204, type: v1, text: "" });
    expect(await send("PUT", url, '{"data":{"name":"s","v":2}}')).toMatchObject({ status: 204 });
    expect(await get("/namespace/n/work_spec")).toBe(`{"work_specs":[{"name":"s","url":"${url}"}]}`);
  });

  test("metadata: nanoseconds, zero times, a float that is left out when it is 0", async () => {
    await spec('{"name":"s","interval":0.5,"continuous":true,"then":"t","runtime":"go","nice":5}');
    const meta =
      '{"available_count":0,"can_be_continuous":true,"continuous":true,"interval":500000000,"max_attempts_returned":0,' +
      '"max_retries":0,"max_running":0,"next_continuous":"0001-01-01T00:00:00Z","next_work_spec_name":"t",' +
      '"paused":false,"pending_count":0,"priority":0,"runtime":"go","weight":15}';
    expect(await get("/namespace/n/work_spec/s/meta")).toBe(meta);
    const put = meta
      .replace('"interval":500000000', '"interval":900000000000')
      .replace('"next_continuous":"0001-01-01T00:00:00Z"', '"next_continuous":"2020-01-01T00:00:30.5Z"')
      .replace('"paused":false', '"paused":true,"min_memory_gb":2.5');
    expect(await send("PUT", "/namespace/n/work_spec/s/meta", put)).toMatchObject({ status: 204 });
    await unit('{"name":"u"}');
    expect(await get("/namespace/n/work_spec/s/meta?counts=True")).toBe(
      '{"available_count":1,"can_be_continuous":true,"continuous":true,"interval":900000000000,"max_attempts_returned":0,' +
        '"max_retries":0,"max_running":0,"min_memory_gb":2.5,"next_continuous":"2020-01-01T00:00:30.5Z",' +
        '"next_work_spec_name":"t","paused":true,"pending_count":0,"priority":0,"runtime":"go","weight":15}',
    );
    // absent fields become zero
    await send("PUT", "/namespace/n/work_spec/s/meta", "{}");
    expect(JSON.parse(await get("/namespace/n/work_spec/s/meta"))).toMatchObject({
      weight: 0,
      interval: 0,
      paused: false,
    });
  });

  test("work units: data as object or CBOR, left out when empty; priorities are floats", async () => {
    await spec('{"name":"s"}');
    const base = "/namespace/n/work_spec/s/work_unit";
    const added = await unit(
      '{"active_attempt_url":"","data":{"b":1.0,"a":[1E2]},"meta":{"not_before":"0001-01-01T00:00:00Z","priority":2.5},"name":"a b","status":"any","url":""}',
    );
    const text =
      `{"attempts_url":"${base}/-YSBi/attempts","data":{"b":1.0,"a":[1E2]},"meta":{"not_before":"0001-01-01T00:00:00Z",` +
      `"priority":2.5},"name":"a b","status":"available","url":"${base}/-YSBi","work_spec_url":"/namespace/n/work_spec/s"}`;
    expect(added).toEqual({ status: 201, type: v1, location: `${base}/-YSBi`, text });
    await unit('{"name":"empty","data":{}}');
    expect(await get(`${base}/empty`)).toBe(
      `{"attempts_url":"${base}/empty/attempts","meta":{"not_before":"0001-01-01T00:00:00Z","priority":0.0},` +
        `"name":"empty","status":"available","url":"${base}/empty","work_spec_url":"/namespace/n/work_spec/s"}`,
    );
    await unit('{"name":"later","meta":{"priority":"3","not_before":"2020-01-01T01:00:10.25+01:00"}}');
    expect(await get(`${base}/later`)).toContain(
      '"meta":{"not_before":"2020-01-01T00:00:10.25Z","priority":3.0}',
    );
    expect(await get(base)).toBe(
      `{"work_units":[{"name":"a b","url":"${base}/-YSBi"},{"name":"empty","url":"${base}/empty"},{"name":"later","url":"${base}/later"}]}`,
    );
    expect(await get("/namespace/n/work_spec/s/counts")).toBe('{"available":2,"delayed":1}');
    expect(await get("/summary")).toBe(
      '[{"Count":2,"Namespace":"n","Status":"available","WorkSpec":"s"},{"Count":1,"Namespace":"n","Status":"delayed","WorkSpec":"s"}]',
    );
  });

  test.each([
    '"oWNrZXnYgIA="',
    '"o2RuYW1lY2Zvb2F02ICDAWF4QXlhddglUAECAwAAAAAAAAAAAAAAAAA="',
    '"oWFt2CVQABEiM0RVZneImaq7zN3u/w=="',
    '"oWFt2ICCAQI="',
    '"o2Fh+z/wAAAAAAAAYWL6P8AAAGF02ICA"',
    '{"key":"value"}',
  ])("the data vector %s comes back as it went in", async (data) => {
    await spec('{"name":"s"}');
    await unit(`{"name":"u","data":${data}}`);
    expect(await get("/namespace/n/work_spec/s/work_unit/u")).toContain(`"data":${data},`);
  });

  test("CBOR that JSON can say is answered as JSON; byte strings are spared", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"plain","data":"oWNrZXkB"}');
    expect(await get("/namespace/n/work_spec/s/work_unit/plain")).toContain('"data":{"key":1},');
    await unit('{"name":"bytes","data":"oWFiQXg="}');
    expect(await get("/namespace/n/work_spec/s/work_unit/bytes")).toContain('"data":"oWFiQXg=",');
  });

  test("attempts: request, look, renew, finish", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"u","data":{"x":1}}');
    const request =
      '{"available_gb":0.0,"lifetime":0,"number_of_work_units":0,"runtimes":null,"work_specs":null}';
    const answer = await send("POST", "/namespace/n/worker/w:1/request_attempts", request);
    const url = "/namespace/n/attempt/1.1";
    const attempt = (status: string, end: string, expiration: string, data: string): string =>
      `{"data":${data},"end_time":"${end}","expiration_time":"${expiration}","expire_url":"${url}/expire",` +
      `"fail_url":"${url}/fail","finish_url":"${url}/finish","renew_url":"${url}/renew","retry_url":"${url}/retry",` +
      `"start_time":"2020-01-01T00:00:00Z","status":"${status}","url":"${url}",` +
      `"work_unit_url":"/namespace/n/work_spec/s/work_unit/u","worker_url":"/namespace/n/worker/w:1"}`;
    const zero = "0001-01-01T00:00:00Z";
    expect(answer).toMatchObject({
      status: 200,
      text: `{"attempts":[${attempt("pending", zero, "2020-01-01T00:15:00Z", '{"x":1}')}],"work_spec_url":"/namespace/n/work_spec/s"}`,
    });
    expect(await send("POST", "/namespace/n/worker/w:1/request_attempts", request)).toMatchObject({
      status: 200,
      text: '{"attempts":null}',
    });
    const short = `{"attempts":[{"start_time":"2020-01-01T00:00:00Z","url":"${url}","work_unit_url":"/namespace/n/work_spec/s/work_unit/u","worker_url":"/namespace/n/worker/w:1"}]}`;
    expect(await get("/namespace/n/worker/w%3A1/active_attempts")).toBe(short);
    expect(await get("/namespace/n/work_spec/s/work_unit/u/attempts")).toBe(short);
    expect(await get("/namespace/n/work_spec/s/work_unit/u/num-attempts")).toBe("1");
    clock.advance(1500);
    expect(await send("POST", `${url}/renew`, '{"delay":0,"extend_duration":60000000000}')).toMatchObject({
      status: 204,
      text: "",
    });
    expect(
      await send("POST", `${url}/finish`, '{"data":{"y":2},"delay":0,"extend_duration":0}'),
    ).toMatchObject({ status: 204 });
    expect(await get(url)).toBe(
      attempt("finished", "2020-01-01T00:00:01.5Z", "2020-01-01T00:01:01.5Z", '{"y":2}'),
    );
    expect(await get("/namespace/n/work_spec/s/work_unit/u")).toContain(
      `{"active_attempt_url":"${url}","attempts_url"`,
    );
    expect(await get("/namespace/n/worker/w:1/active_attempts")).toBe('{"attempts":[]}');
  });

  test("workers: made by looking, checked in, given a parent without being deactivated", async () => {
    const url = "/namespace/n/worker/w";
    const links = `"make_attempt_url":"${url}/make_attempt","mode":"","name":"w",`;
    expect(await get(url)).toBe(
      `{"active":true,"active_attempts_url":"${url}/active_attempts","all_attempts_url":"${url}/all_attempts",` +
        `"child_attempts_url":"${url}/child_attempts","data":null,"expiration":"2020-01-01T00:15:00Z",` +
        `"last_update":"2020-01-01T00:00:00Z",${links}"request_attempts_url":"${url}/request_attempts","url":"${url}"}`,
    );
    const idle =
      '"data":null,"mode":"","expiration":"0001-01-01T00:00:00Z","last_update":"0001-01-01T00:00:00Z"';
    await send("PUT", url, `{"active":false,"parent":"boss",${idle}}`);
    expect(JSON.parse(await get(url))).toMatchObject({
      active: true,
      parent: "boss",
      parent_url: "/namespace/n/worker/boss",
    });
    expect(JSON.parse(await get("/namespace/n/worker/boss"))).toMatchObject({ child_urls: [url] });
    await send(
      "PUT",
      url,
      '{"active":true,"mode":"run","data":{"v":1},"last_update":"2020-01-01T00:00:05Z","expiration":"2020-01-01T00:01:00Z"}',
    );
    expect(JSON.parse(await get(url))).toMatchObject({
      mode: "run",
      data: { v: 1 },
      last_update: "2020-01-01T00:00:05Z",
      expiration: "2020-01-01T00:01:00Z",
    });
    await send("PUT", url, `{"active":false,"parent":"",${idle}}`);
    expect(JSON.parse(await get(url))).not.toHaveProperty("parent");
    await send("PUT", url, `{"active":false,${idle}}`);
    expect(JSON.parse(await get(url))).toMatchObject({ active: false });
    expect(await get("/namespace/n/worker")).toBe(
      '{"workers":[{"name":"boss","url":"/namespace/n/worker/boss"},{"name":"w","url":"/namespace/n/worker/w"}]}',
    );
  });

  test("queries: names raw, previous in both encodings, change, adjust, delete", async () => {
    await spec('{"name":"s"}');
    for (const name of ["a", "b/1", "b/2", "c"]) await unit(JSON.stringify({ name }));
    const base = "/namespace/n/work_spec/s";
    const names = async (query: string): Promise<string[]> =>
      (
        (JSON.parse(await get(`${base}/work_unit?${query}`)) as { work_units: { name: string }[] | null })
          .work_units ?? []
      ).map(({ name }) => name);
    expect(await names("name=b%2F1&name=c&name=nope")).toEqual(["b/1", "c"]);
    expect(await names("previous=-Yi8x")).toEqual(["b/2", "c"]);
    expect(await names("previous=b%2F1&limit=1")).toEqual(["b/2"]);
    expect(await names("status=finished")).toEqual([]);
    expect(await names("status=any&limit=0")).toHaveLength(4);
    expect(
      await send("POST", `${base}/change?name=a`, '{"meta":{"priority":5,"not_before":null}}'),
    ).toMatchObject({ status: 204 });
    expect(await send("POST", `${base}/adjust?name=a&name=c`, '{"meta":{"priority":-1.5}}')).toMatchObject({
      status: 204,
    });
    expect(await get(`${base}/work_unit/a`)).toContain('"priority":3.5');
    expect(await get(`${base}/work_unit/c`)).toContain('"priority":-1.5');
    expect((await send("DELETE", `${base}/work_unit?name=a&limit=5`)).text).toBe('{"Deleted":1}');
    expect((await send("DELETE", `${base}/work_unit`)).text).toBe('{"Deleted":3}');
    expect(await get(`${base}/work_unit`)).toBe('{"work_units":null}');
  });

  test("a unit's metadata is put, and its active attempt cleared", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"u"}');
    await send(
      "POST",
      "/namespace/n/worker/w/make_attempt",
      '{"lifetime":0,"work_spec":"s","work_unit":"u"}',
    );
    const url = "/namespace/n/work_spec/s/work_unit/u";
    expect(await get(url)).toContain('"status":"pending"');
    await send(
      "PUT",
      url,
      '{"active_attempt_url":"-","meta":{"priority":7,"not_before":"2020-01-01T00:00:09Z"}}',
    );
    expect(await get(url)).toContain(
      '"meta":{"not_before":"2020-01-01T00:00:09Z","priority":7.0},"name":"u","status":"delayed"',
    );
  });

  test("a unit that waits for another is shown as delayed, which a Go client knows", async () => {
    await spec('{"name":"s"}');
    await engine.addWorkUnits("n", "s", [{ name: "a" }, { name: "b", dependencies: [{ workUnit: "a" }] }]);
    expect(await get("/namespace/n/work_spec/s/work_unit/b")).toContain('"status":"delayed"');
    expect(await get("/namespace/n/work_spec/s/counts")).toBe('{"available":1,"delayed":1}');
    expect(await get("/namespace/n/work_spec/s/work_unit?status=delayed")).toContain('"name":"b"');
  });

  test("Go's escapes, byte names, . and ..", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"<&>"}');
    expect(await get("/namespace/n/work_spec/s/work_unit/-PCY-")).toContain('"name":"\\u003c\\u0026\\u003e"');
    await unit('{"name":"\\udcff"}');
    expect(await get("/namespace/n/work_spec/s/work_unit/-_w")).toContain('"name":"\\udcff"');
    for (const name of [".", ".."]) await unit(JSON.stringify({ name }));
    expect(await get("/namespace/n/work_spec/s/work_unit/-Lg")).toContain('"name":"."');
    expect(await get("/namespace/n/work_spec/s/work_unit/-Li4")).toContain(
      '"url":"/namespace/n/work_spec/s/work_unit/-Li4"',
    );
  });
});

describe("errors", () => {
  test.each([
    ["POST", "/namespace/n/work_spec", "{}", 400, "error", "Missing data"],
    ["POST", "/namespace/n/work_spec", '{"data":{}}', 400, "ErrNoWorkSpecName", "No 'name' key in work spec"],
    [
      "POST",
      "/namespace/n/work_spec",
      '{"data":{"name":""}}',
      400,
      "ErrNoWorkSpecName",
      "No 'name' key in work spec",
    ],
    [
      "POST",
      "/namespace/n/work_spec",
      '{"data":{"name":5}}',
      400,
      "ErrBadWorkSpecName",
      "Work spec 'name' must be a string",
    ],
    [
      "PUT",
      "/namespace/n/work_spec/s",
      '{"data":{"name":"t"}}',
      409,
      "ErrChangedName",
      "Cannot change work spec 'name'",
    ],
    ["POST", "/namespace/n/work_spec", "null", 400, "error", "Invalid input format"],
    ["POST", "/namespace/n/work_spec", "", 400, "error", "EOF"],
    ["POST", "/namespace/n/work_spec", '{"data":7}', 400, "error", /.*/],
    ["POST", "/namespace/n/work_spec", '{"data":"!"}', 400, "error", /illegal base64/],
    ["GET", "/namespace/n/work_spec/t", undefined, 404, "ErrNoSuchWorkSpec", "No such work spec t"],
    [
      "GET",
      "/namespace/n/work_spec/s/work_unit/u",
      undefined,
      404,
      "ErrNoSuchWorkUnit",
      'No such work unit "u"',
    ],
    [
      "POST",
      "/namespace/n/worker/w/make_attempt",
      '{"work_spec":"t","work_unit":"u"}',
      404,
      "ErrNoSuchWorkSpec",
      "No such work spec t",
    ],
    ["GET", "/namespace/n/attempt/77.1", undefined, 404, "error", "no such attempt"],
    ["POST", "/namespace/n/attempt/77.1/finish", "{}", 404, "error", "no such attempt"],
    ["GET", "/namespace/-!", undefined, 400, "error", /illegal base64 data at input byte 0/],
    ["GET", "/namespace/n/work_spec/s/work_unit?limit=x", undefined, 400, "error", /limit/],
    ["GET", "/namespace/n/work_spec/s/work_unit?status=nope", undefined, 400, "error", /statuses/],
    ["PUT", "/namespace/n/work_spec/s/meta", '{"interval":1.5}', 400, "error", /interval/],
    [
      "PUT",
      "/namespace/n/worker/w",
      '{"active":true,"expiration":"2020-01-01 00:00:00"}',
      400,
      "error",
      /expiration/,
    ],
    ["POST", "/namespace/n/work_spec", '{"data":{"name":"x","weight":"heavy"}}', 422, "error", /weight/],
    ["DELETE", "/namespace/n/work_spec/t", undefined, 404, "ErrNoSuchWorkSpec", "No such work spec t"],
  ] as const)("%s %s %s", async (method, url, body, status, error, message) => {
    await spec('{"name":"s"}');
    const got = await send(method, url, body);
    expect(got.status).toBe(status);
    expect(got.type).toBe(v1);
    const document = JSON.parse(got.text) as Record<string, string>;
    expect(document.error).toBe(error);
    expect(document.message).toMatch(typeof message === "string" ? new RegExp(`^${message}$`) : message);
    if (error.startsWith("ErrNoSuch")) expect(document.value).toBe(error.endsWith("Unit") ? "u" : "t");
  });

  test("an attempt of a unit that was deleted is gone, read or settled", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"u"}');
    await unit('{"name":"v"}');
    await send("POST", "/namespace/n/worker/w/make_attempt", '{"work_spec":"s","work_unit":"u"}');
    await send("DELETE", "/namespace/n/work_spec/s/work_unit?name=u");
    for (const [method, url] of [
      ["GET", "/namespace/n/attempt/1.1"],
      ["POST", "/namespace/n/attempt/1.1/finish"],
      ["POST", "/namespace/n/attempt/1.1/renew"],
    ] as const) {
      const got = await send(method, url, method === "POST" ? "{}" : undefined);
      expect(got).toMatchObject({
        status: 410,
        text: expect.stringContaining('"error":"ErrGone"') as string,
      });
    }
    // an attempt of an existing unit that never existed
    expect((await send("GET", "/namespace/n/attempt/2.7")).status).toBe(404);
    expect((await send("GET", "/namespace/n/attempt/nonsense")).status).toBe(404);
  });

  test("settling twice, and after the lease is lost", async () => {
    await spec('{"name":"s"}');
    await unit('{"name":"u"}');
    const make = '{"work_spec":"s","work_unit":"u"}';
    await send("POST", "/namespace/n/worker/w/make_attempt", make);
    await send("POST", "/namespace/n/attempt/1.1/expire", "{}");
    await send("POST", "/namespace/n/worker/v/make_attempt", make);
    const lost = await send("POST", "/namespace/n/attempt/1.1/renew", '{"extend_duration":1000000000}');
    expect(lost).toMatchObject({
      status: 409,
      text: expect.stringContaining(
        '"error":"ErrLostLease","message":"No longer the active attempt"',
      ) as string,
    });
    for (const action of ["finish", "fail", "retry"]) {
      const settled = await send("POST", `/namespace/n/attempt/1.1/${action}`, "{}");
      expect(settled).toMatchObject({
        status: 409,
        text: expect.stringContaining('"error":"ErrNotPending"') as string,
      });
    }
    await send("POST", "/namespace/n/attempt/1.2/finish", "{}");
    const again = await send("POST", "/namespace/n/attempt/1.2/fail", "{}");
    expect(again).toMatchObject({
      status: 409,
      text: expect.stringContaining('"error":"ErrNotPending","message":"Attempt is not pending"') as string,
    });
  });
});

describe("an attempt that the unit was taken from while its lease ran", () => {
  test.each([
    ["finish", "finished"],
    ["fail", "failed"],
    ["retry", "retryable"],
  ])("%s is accepted and recorded, and changes nothing else", async (action, status) => {
    await spec('{"name":"s"}');
    await unit('{"name":"u"}');
    await send("POST", "/namespace/n/worker/w/make_attempt", '{"work_spec":"s","work_unit":"u"}');
    await send("PUT", "/namespace/n/work_spec/s/work_unit/u", '{"active_attempt_url":"-"}');
    const taken = JSON.parse((await send("GET", "/namespace/n/attempt/1.1")).text) as Record<string, unknown>;
    for (let i = 0; i < 2; i++)
      expect((await send("POST", `/namespace/n/attempt/1.1/${action}`, '{"data":{"found":1}}')).status).toBe(
        204,
      );
    const settled = JSON.parse((await send("GET", "/namespace/n/attempt/1.1")).text) as Record<
      string,
      unknown
    >;
    expect(settled).toMatchObject({ status, data: { found: 1 }, end_time: taken.end_time });
    const row = JSON.parse((await send("GET", "/namespace/n/work_spec/s/work_unit/u")).text) as object;
    expect(row).toMatchObject({ status: "available" });
    const renewed = await send("POST", "/namespace/n/attempt/1.1/renew", '{"extend_duration":1000000000}');
    expect(renewed.status).toBe(409);
  });
});

describe("media types", () => {
  test.each([
    ["", v1],
    ["*/*", v1],
    ["application/*", v1],
    ["text/*", "text/json"],
    ["application/json", "application/json"],
    ["text/json; charset=utf-8", "text/json"],
    ["application/vnd.diffeo.coordinate+json", "application/vnd.diffeo.coordinate+json"],
    ["image/png, application/json;q=0.5, text/json;q=0.7", "text/json"],
    ["*/*, text/json", "text/json"],
  ])("Accept %j is answered as %s", async (accept, type) => {
    expect(await send("GET", "/summary", undefined, accept)).toMatchObject({ status: 200, type });
  });

  test.each([
    ["image/png", 406],
    ["application/json;q=0", 406],
    ["application/json;q=2", 400],
    ["nonsense", 400],
  ])("Accept %j is refused with %i, as v1", async (accept, status) => {
    expect(await send("GET", "/summary", undefined, accept)).toMatchObject({ status, type: v1 });
  });

  test.each(["text/plain", "application/x-www-form-urlencoded", undefined])(
    "a body of type %j is 415",
    async (type) => {
      const { statusCode } = await app.inject({
        method: "POST",
        url: "/namespace",
        payload: '{"name":"n"}',
        headers: type === undefined ? {} : { "content-type": type },
      });
      expect(statusCode).toBe(415);
    },
  );
});

test("on the wire: a chunked request, Content-Length, and no byte after the answer", async () => {
  const listener = await listen(app, { at: { host: "127.0.0.1", port: 0 } });
  const socket = createConnection({ host: "127.0.0.1", port: listener.port });
  let got = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (got += chunk));
  const body = '{"data":{"name":"s"},"name":"","url":""}';
  const request =
    `POST /namespace/n/work_spec HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nTransfer-Encoding: chunked\r\n` +
    `Accept: ${v1}\r\nContent-Type: ${v1}\r\nAccept-Encoding: gzip\r\n\r\n`;
  const half = 13;
  socket.write(request + half.toString(16) + "\r\n" + body.slice(0, half) + "\r\n");
  await new Promise((resolve) => setTimeout(resolve, 30));
  socket.write((body.length - half).toString(16) + "\r\n" + body.slice(half) + "\r\n0\r\n\r\n");
  while (!got.endsWith('/work_unit"}')) await new Promise((resolve) => setTimeout(resolve, 5));
  // the connection stays open and accepts another request
  socket.write(`GET /namespace/n/work_spec HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: ${v1}\r\n\r\n`);
  while (!got.endsWith('"}]}')) await new Promise((resolve) => setTimeout(resolve, 5));
  const [first = "", second = ""] = got.split(/(?=HTTP\/1\.1 )/);
  const [head = "", text = ""] = first.split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 201 Created\r\n/);
  expect(head).toContain(`\r\nlocation: /namespace/n/work_spec/s\r\n`);
  expect(head).toContain(`\r\ncontent-type: ${v1}\r\n`);
  expect(head.toLowerCase()).not.toContain("transfer-encoding");
  expect(Number(/content-length: (\d+)/.exec(head)?.[1])).toBe(Buffer.byteLength(text));
  expect(second.split("\r\n\r\n")[1]).toBe('{"work_specs":[{"name":"s","url":"/namespace/n/work_spec/s"}]}');
  socket.destroy();
  await listener.stop(100);
});
