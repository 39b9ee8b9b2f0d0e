import { Validator } from "@seriousme/openapi-schema-validator";
import type { FastifyInstance, InjectOptions } from "fastify";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine, ManualClock, seededRandom, type Random } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import {
  EventLog,
  eventRoutes,
  openApi,
  restServer,
  streamRoutes,
  type Route,
} from "../../src/rest/index.ts";
import { nameToUrl } from "../../src/rest/url-name.ts";

const bugs: unknown[] = [];
let app: FastifyInstance;
let routes: readonly Route[];
let engine: Engine;
const clock = new ManualClock();

beforeAll(async () => {
  engine = new Engine(new MemoryStore(), { clock, random: seededRandom(1) });
  ({ app, routes } = restServer({
    coordinate: engine,
    routes: [...streamRoutes(), ...eventRoutes(new EventLog())],
    onBug: (error) => bugs.push(error),
  }));
  await app.ready();
});

afterAll(async () => {
  await app.close();
  await engine.close();
});

describe("the OpenAPI document", () => {
  test("is a valid one, of version 3.1", async () => {
    const document = openApi(routes, { version: "1.0.0", secured: true });
    const result = await new Validator().validate(document);
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(document.openapi).toBe("3.1.0");
  });

  test("names every route once, with scope and summary", () => {
    const ids = routes.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { summary } of routes) expect(summary).toMatch(/\.$/);
  });
});

/** Random requests that follow the schema, with some deviations from it. */
class Fuzz {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  name(): string {
    const usual = [
      "a",
      "b",
      "spec",
      "unit",
      "w",
      "-",
      "",
      "..",
      "a/b",
      "a---b",
      "\udcff",
      "日本",
      "\u0000",
      "x".repeat(30),
    ];
    return this.below(30) === 0 ? "n".repeat(this.below(6000)) : this.one(usual);
  }

  anything(depth: number): unknown {
    switch (this.below(depth > 0 ? 9 : 7)) {
      case 0:
        return null;
      case 1:
        return this.one([true, false]);
      case 2:
        return this.one([0, -0, 1, -1, 1.5, 1e300, -1e300, 2 ** 53, 2 ** 31, 86_400_000, 1e-320]);
      case 3:
      case 4:
        return this.name();
      case 5:
        return this.one(["oWNrZXnYgIA=", "not base64!", "1.1", "2020-01-01T00:00:00Z", "any", "__proto__"]);
      case 6:
        return JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as unknown;
      case 7:
        return Array.from({ length: this.below(4) }, () => this.anything(depth - 1));
      default:
        return Object.fromEntries(
          Array.from({ length: this.below(4) }, () => [this.name(), this.anything(depth - 1)]),
        );
    }
  }

  data(): unknown {
    return this.one<unknown>([
      { name: "spec", x: 1.5 },
      { name: "spec", then: "b", weight: this.one<unknown>([1, "heavy", -5, null]), max_running: 1 },
      { name: this.name(), continuous: true, interval: this.one<unknown>([0, 0.5, "x", 1e300]) },
      { output: this.one<unknown>([["x"], { y: {} }, "text", [["z", {}, { delay: 5 }]], [1, null]]) },
      "oWNrZXnYgIA=",
      "oW==",
      {},
      null,
      this.anything(3),
    ]);
  }

  /** A value that fits the schema; in one of twenty cases any other value. */
  value(schema: Record<string, unknown>, key: string, depth = 6): unknown {
    if (this.below(20) === 0) return this.anything(2);
    if (key === "data") return this.data();
    if (Array.isArray(schema.enum)) return this.one(schema.enum as unknown[]);
    const union = schema.anyOf as Record<string, unknown>[] | undefined;
    if (union !== undefined) return this.value(this.one(union), key, depth);
    const type = Array.isArray(schema.type) ? this.one(schema.type as string[]) : schema.type;
    switch (type) {
      case "object": {
        const required = (schema.required ?? []) as string[];
        const members = Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>);
        return Object.fromEntries(
          members
            .filter(([name]) => (required.includes(name) ? this.below(30) > 0 : this.below(2) === 0))
            .map(([name, member]) => [name, this.value(member, name, depth - 1)]),
        );
      }
      case "array":
        return depth <= 0
          ? []
          : Array.from({ length: this.below(4) }, () =>
              this.value((schema.items ?? {}) as never, "", depth - 1),
            );
      case "string":
        return key === "attempt" || key === "" || key === "id"
          ? this.one([this.name(), "1.1", "2.1", "3.2"])
          : this.name();
      case "integer":
        return this.one([0, 1, 2, 3, 100, -1, 1.5]);
      case "number":
        return this.one([0, 1, 0.5, -3, 1000, 1e15, -1e9]);
      case "boolean":
        return this.one([true, false]);
      default:
        return null;
    }
  }

  segment(name: string): string {
    const plain = name === "attempt" ? this.one(["1.1", "2.1", "9.9", "x"]) : this.name();
    if (this.below(20) === 0) return this.one(["%", "%zz", "-!!", "-A", "%00", "%2e%2e", "a%2Fb", "-_w"]);
    try {
      return encodeURIComponent(nameToUrl(plain));
    } catch {
      return "x";
    }
  }

  request(route: Route): InjectOptions {
    const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => this.segment(name));
    const query = Object.keys(route.query ?? {})
      .filter(() => this.below(3) === 0)
      .map(
        (name) =>
          `${name}=${encodeURIComponent(this.one(["a", "1", "-1", "x", "available", "delayed", "-_w", "true", ""]))}`,
      )
      .join("&");
    const options: InjectOptions = { method: route.method, url: path + (query === "" ? "" : `?${query}`) };
    if (this.below(30) === 0)
      options.headers = {
        accept: this.one(["text/html", "*/*;q=2", "x", "text/*", "image/png", "application/json"]),
      };
    if (route.body === undefined) return options;
    let text = JSON.stringify(this.value(route.body, ""));
    if (this.below(25) === 0) {
      const at = this.below(text.length);
      text =
        text.slice(0, at) + this.one(["", "{", "[", '"', "\\", "\u0000", "1e999", "é"]) + text.slice(at + 1);
    }
    const type =
      this.below(40) === 0
        ? this.one(["text/plain", "application/x-ndjson", "a/b;c", ""])
        : (route.bodyType ?? "application/json");
    return { ...options, payload: text, headers: { ...options.headers, "content-type": type } };
  }
}

describe("20,000 random requests", () => {
  const seeds = [1, 2, 3, 4];
  test.each(seeds)("find no bug and no answer that is not JSON (seed %i)", async (seed) => {
    const fuzz = new Fuzz(seed);
    const served = routes.filter(
      ({ id }) => id !== "events" && id !== "go.namespace.delete" && id !== "deleteNamespace",
    );
    const statuses = new Map<number, number>();
    for (let i = 0; i < 20_000 / seeds.length; i++) {
      if (i % 500 === 0) clock.advance(60_000);
      const request = fuzz.request(fuzz.one(served));
      // a long poll would wait forever, because the clock does not advance
      if (typeof request.payload === "string")
        request.payload = request.payload.replace(/"waitMs":[^,}\]]+/, '"waitMs":0');
      const { statusCode, body } = await app.inject(request);
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1);
      if (statusCode >= 500)
        throw new Error(`${statusCode} ${JSON.stringify(request)} ${body}`, { cause: bugs[0] });
      if (statusCode >= 400) expect(Object.keys(JSON.parse(body) as object)).toContain("code");
    }
    expect(bugs).toEqual([]);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    // a fuzz test whose requests are always refused tests only the refusals
    const fine = [...statuses].reduce((sum, [status, count]) => sum + (status < 300 ? count : 0), 0);
    expect(fine).toBeGreaterThan(1000);
  });
});
