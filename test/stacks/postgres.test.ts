import { afterAll, beforeAll, describe, test } from "vitest";
import { conformance } from "../../src/testing/index.ts";
import { stack } from "./postgres-stack.ts";

conformance(
  stack("engine on the postgres store", (url) => ({ options: { url } })),
  { afterAll, beforeAll, describe, test },
);
