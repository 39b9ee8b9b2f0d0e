import { afterAll, beforeAll, describe, test, vi } from "vitest";
import { conformance } from "../../src/testing/index.ts";
import { stack, testTimeout } from "./postgres-stack.ts";

vi.setConfig({ testTimeout });

conformance(
  stack("engine on the postgres store", (url) => ({ options: { url } })),
  { afterAll, beforeAll, describe, test },
);
