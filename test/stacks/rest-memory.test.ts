import { afterAll, beforeAll, describe, test } from "vitest";
import { MemoryStore } from "../../src/memory/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { openRest } from "../rest/stack.ts";

// over one connection, and with one HTTP request per call
for (const oneConnection of [true, false])
  conformance(
    {
      name: `rest on memory${oneConnection ? "" : ", a request each"}`,
      open: () => openRest(new MemoryStore(), { oneConnection }),
    },
    { describe, test, beforeAll, afterAll },
  );
