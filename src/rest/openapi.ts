/** Generates the OpenAPI document from the table of routes. */
import { shape } from "../core/index.ts";
import { v1Json } from "./media.ts";
import type { Route } from "./route.ts";

export interface OpenApiOptions {
  version: string;
  /** Whether the server requires a token. */
  secured?: boolean;
}

type Json = Record<string, unknown>;

export function openApi(routes: readonly Route[], options: OpenApiOptions): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(route, options.secured === true);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Coordinate",
      version: options.version,
      description:
        "Job coordination. The paths under /v1 offer every verb, in batches. All other paths are those of the Go daemon, whose " +
        "client follows links from /. A name in a path is written as it is if it consists of A-Z a-z 0-9 - . _ : and does not " +
        "start with -. Any other name is written as - followed by base64url of its bytes.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    tags: [
      { name: "verb", description: "The complete interface" },
      { name: "stream", description: "Loads, exports and events, streamed" },
      { name: "go", description: "The interface of the Go daemon" },
      { name: "daemon", description: "About the daemon itself" },
    ],
    paths,
    components: {
      schemas: { Error: errorDocument },
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
    },
  };
}

function operation(route: Route, secured: boolean): Json {
  const parameters = [
    ...[...route.path.matchAll(/\{(\w+)\}/g)].map((match) => ({
      name: match[1],
      in: "path",
      required: true,
      schema: { type: "string" },
    })),
    ...Object.entries(route.query ?? {}).map(([name, schema]) => ({
      name,
      in: "query",
      required: false,
      schema,
      ...(schema.type === "array" && { explode: true }),
    })),
  ];
  const status = String(route.status ?? 200);
  const answerType = route.answerType ?? (route.family === "go" ? v1Json : "application/json");
  const answer: Json = { description: route.status === 204 ? "Done" : "The answer" };
  if (route.status !== 204)
    answer.content = { [answerType]: route.answer === undefined ? {} : { schema: route.answer } };
  return {
    operationId: route.id,
    summary: route.summary,
    tags: [route.family],
    ...(parameters.length > 0 && { parameters }),
    ...(route.body !== undefined && {
      requestBody: {
        required: true,
        content: { [route.bodyType ?? "application/json"]: { schema: route.body } },
      },
    }),
    responses: {
      [status]: answer,
      default: {
        description: "An error",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
    "x-scope": route.scope,
    ...(secured && route.scope !== "open" && { security: [{ token: [] }] }),
  };
}

const errorDocument = {
  description: "The body of every answer whose status is not 2xx",
  ...shape.object<{ error: string; code: string; message: string; value?: string }>({
    error: shape.text({
      description: "The error code of the Go client; `error` if it has no code for this error",
    }),
    code: shape.text({ description: "The error code" }),
    message: shape.text(),
    value: shape.maybe(shape.text({ description: "The name of the missing object, or the invalid field" })),
  }),
};
